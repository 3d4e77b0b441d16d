//! Code for one operating system lies in the folders listed here, most crates reach no such library, and a program that runs all
//! ranks in one process reaches none on other systems than Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What only some systems have.
const WORDS: [&str; 9] =
    ["std::os::", "rustix::", "libc::", "signal_hook::", "target_os", "(unix)", "/proc/", "/dev/shm", "/sys/"];

/// Files and folders that may name it, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("mscclpp-bootstrap/src/acceptor.rs", "file descriptors of connections, and how many wait for `accept`"),
    ("mscclpp-bootstrap/src/address.rs", "the number of a network interface"),
    ("mscclpp-bootstrap/src/client.rs", "file descriptors of connections"),
    ("mscclpp-bootstrap/src/conn.rs", "file descriptors of connections"),
    ("mscclpp-bootstrap/src/descriptors.rs", "the limit of file descriptors, and how many are open"),
    ("mscclpp-bootstrap/src/poll.rs", "`poll` over all connections of a rank"),
    ("mscclpp-bootstrap/src/rendezvous.rs", "file descriptors of connections"),
    ("mscclpp-bootstrap/src/rank_info.rs", "the names of host and process"),
    ("mscclpp-bootstrap/src/root", "file descriptors of connections"),
    ("mscclpp-bootstrap/src/secret.rs", "random bytes of the kernel"),
    ("mscclpp-cli/src/commands/doctor", "limits and memory of this machine"),
    ("mscclpp-cli/src/commands/launch", "signals, and groups of processes"),
    ("mscclpp-cli/src/jobs.rs", "a folder that only its user can read, and when processes started"),
    ("mscclpp-communicator/src/communicator/background.rs", "the signal on which ranks write dumps"),
    ("mscclpp-cuda/src", "the driver's handles of memory are file descriptors"),
    ("mscclpp-exec/src/cuda", "memory between processes goes through file descriptors"),
    ("mscclpp-base/src/file.rs", "permissions of files, where a system has them"),
    ("mscclpp-base/src/memory/span/stream.rs", "transfers between memory and sockets"),
    ("mscclpp-exec/src/process", "ranks as processes"),
    ("mscclpp-base/src/shm", "segments of shared memory"),
    ("mscclpp-transport/src/ucx", "random bytes of the kernel"),
    ("mscclpp-base/src/system", "what Linux knows of this machine, and advice to it"),
    ("mscclpp-base/src/logging.rs", "the name of the host"),
    ("mscclpp-nccl/src/forward/library.rs", "a flag of glibc's loader"),
    ("dev/src", "the simulator has the driver's handles of memory"),
    ("dev/mock/src", "the driver's handles of memory"),
];

/// Libraries of one system, or of one kind of device.
const LIBRARIES: [&str; 9] =
    ["rustix", "libc", "nix", "linux-raw-sys", "signal-hook", "windows-sys", "if-addrs", "libloading", "cudarc"];

/// Folders of the crates that reach none of them: the compiler's half, which runs wherever rustc does, and the fuzzer.
const PORTABLE: [&str; 9] = [
    "mscclpp-plan",
    "mscclpp-check",
    "mscclpp-core",
    "mscclpp-eval",
    "mscclpp-macros",
    "mscclpp-algorithms",
    "mscclpp-fuzz",
    "kernels",
    "images",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn toml(path: &Path) -> toml::Table {
    read(path).parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Appends the Rust files of a folder.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn members() -> Vec<String> {
    let manifest = toml(&root().join("Cargo.toml"));
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    members.iter().map(|member| member.as_str().expect("a folder").to_owned()).collect()
}

#[test]
fn code_for_one_system_is_where_it_is_allowed() {
    let root = root();
    let mut used = BTreeSet::new();
    let mut report = String::new();
    for member in members() {
        let mut files = Vec::new();
        // Examples, conformance and these tests have no library.
        if root.join(&member).join("src").exists() {
            sources(&root.join(&member).join("src"), &mut files);
        }
        for file in files {
            let name = file.strip_prefix(&root).expect("below the root").to_owned();
            // Programs that the evaluator has to reject are quoted in its sources.
            if name.starts_with("mscclpp-eval/src/subset.rs") {
                continue;
            }
            for (number, line) in read(&file).lines().enumerate() {
                let code = line.split("//").next().unwrap_or(line);
                if !WORDS.iter().any(|word| code.contains(word)) {
                    continue;
                }
                match ALLOWED.iter().find(|(allowed, _)| name.starts_with(allowed)) {
                    Some((allowed, _)) => _ = used.insert(*allowed),
                    None => report += &format!("{}:{}: {}\n", name.display(), number + 1, line.trim()),
                }
            }
        }
    }
    for (allowed, _) in ALLOWED.iter().filter(|(allowed, _)| !used.contains(allowed)) {
        report += &format!("{allowed}: nothing there is for one system any more; remove the line\n");
    }
    assert!(report.is_empty(), "\n{report}");
}

#[test]
fn portable_crates_reach_no_library_of_one_system() {
    // Cargo.lock knows what packages depend on, for all systems, but not which of our own dependencies are those of tests.
    let lock = toml(&root().join("Cargo.lock"));
    let packages = lock["package"].as_array().expect("packages");
    let mut dependencies: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        let list = package.get("dependencies").and_then(|list| list.as_array()).into_iter().flatten();
        // An entry is a name, or a name and a version; both versions count.
        let names = list.filter_map(|entry| entry.as_str()?.split(' ').next());
        dependencies.entry(package["name"].as_str().expect("a name")).or_default().extend(names);
    }
    let manifests: Vec<toml::Table> =
        members().iter().map(|member| toml(&root().join(member).join("Cargo.toml"))).collect();
    for manifest in &manifests {
        let name = manifest["package"]["name"].as_str().expect("a name");
        let list = manifest.get("dependencies").and_then(|list| list.as_table());
        dependencies.insert(name, list.into_iter().flat_map(|list| list.keys().map(String::as_str)).collect());
    }
    for folder in PORTABLE {
        let manifest = toml(&root().join(folder).join("Cargo.toml"));
        let name = manifest["package"]["name"].as_str().expect("a name");
        let mut reached: BTreeMap<&str, &str> = BTreeMap::new();
        let mut left = vec![name];
        while let Some(package) = left.pop() {
            for dependency in &dependencies[package] {
                if reached.insert(dependency, package).is_none() {
                    left.push(dependency);
                }
            }
        }
        let found: Vec<_> = LIBRARIES.iter().filter_map(|library| Some((library, reached.get(library)?))).collect();
        assert!(found.is_empty(), "{name} reaches {found:?} (library, through)");
    }
}

/// Returns the packages that a program needs on a system, besides those of its tests.
fn tree(target: &str, options: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["tree", "--package=mscclpp", "--edges=normal", "--prefix=none", "--format={p}", "--target", target]);
    let output = command.args(options).current_dir(root()).output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("names");
    lines.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn ranks_of_one_process_need_no_library_of_linux() {
    /// What only ranks as processes need.
    const OF_PROCESSES: [&str; 8] = [
        "mscclpp-bootstrap",
        "mscclpp-transport",
        "mscclpp-cuda",
        "if-addrs",
        "hmac",
        "postcard",
        "libloading",
        "cudarc",
    ];
    for target in ["x86_64-unknown-linux-gnu", "x86_64-pc-windows-msvc", "aarch64-apple-darwin"] {
        let found = tree(target, &["--no-default-features"]);
        assert!(found.contains("mscclpp-exec"), "{target}: {found:?}");
        let extra: Vec<_> = OF_PROCESSES.iter().filter(|name| found.contains(**name)).collect();
        assert!(extra.is_empty(), "{target}: {extra:?}");
        if target.contains("windows") {
            assert!(["rustix", "libc", "linux-raw-sys"].iter().all(|name| !found.contains(*name)), "{found:?}");
        }
    }
    let by_default = tree("x86_64-unknown-linux-gnu", &[]);
    assert!(["mscclpp-bootstrap", "rustix"].iter().all(|name| by_default.contains(*name)), "{by_default:?}");
    assert!(!by_default.contains("cudarc"), "{by_default:?}");
}
