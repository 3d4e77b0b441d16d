//! Allowed dependencies between crates, as in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Folder and package of every crate, and the crates of the workspace that it may depend on, except in its tests and
/// benches.
const CRATES: &[(&str, &str, &[&str])] = &[
    ("mscclpp-core", "mscclpp-core", &[]),
    ("mscclpp-eval", "mscclpp-eval", &["mscclpp-core"]),
    ("mscclpp-macros", "mscclpp-macros", &["mscclpp-eval"]),
    ("mscclpp-algorithms", "mscclpp-algorithms", &["mscclpp-core", "mscclpp-macros"]),
    ("mscclpp-bootstrap", "mscclpp-bootstrap", &["mscclpp-core"]),
    ("mscclpp-fuzz", "mscclpp-fuzz", &["mscclpp-core"]),
    ("kernels", "mscclpp-kernels", &[]),
    ("mscclpp-exec", "mscclpp-exec", &["mscclpp-core", "mscclpp-algorithms", "mscclpp-bootstrap", "mscclpp-kernels"]),
    (
        "mscclpp",
        "mscclpp",
        &["mscclpp-core", "mscclpp-macros", "mscclpp-algorithms", "mscclpp-bootstrap", "mscclpp-exec"],
    ),
    (
        "mscclpp-cli",
        "mscclpp-cli",
        &["mscclpp-core", "mscclpp-algorithms", "mscclpp-bootstrap", "mscclpp-exec", "mscclpp-fuzz", "mscclpp-nccl"],
    ),
    ("mscclpp-nccl", "mscclpp-nccl", &["mscclpp-core", "mscclpp-bootstrap", "mscclpp-exec"]),
    ("mscclpp-python", "mscclpp-python", &["mscclpp-algorithms", "mscclpp-bootstrap", "mscclpp-core", "mscclpp-exec"]),
    ("dev", "mscclpp-dev", &["mscclpp-exec", "mscclpp-kernels"]),
    ("dev/cudart", "mscclpp-mock-cudart", &[]),
    ("dev/mock", "mscclpp-mock-cuda", &["mscclpp-dev", "mscclpp-exec", "mscclpp-kernels"]),
    ("examples", "examples", &["mscclpp"]),
    ("examples/cuda", "examples-cuda", &["examples", "mscclpp"]),
    ("ui-tests", "ui-tests", &["mscclpp"]),
    ("conformance", "conformance", &[]),
];

fn manifest(folder: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("Cargo.toml");
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names in the section of a manifest.
fn names(manifest: &str, section: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != section).skip(1).take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned()))
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn dependencies_have_no_cycles() {
    let known: BTreeMap<&str, &[&str]> = CRATES.iter().map(|&(_, name, may)| (name, may)).collect();
    for &(folder, name, may) in CRATES {
        let text = manifest(folder);
        assert!(text.contains(&format!("name = \"{name}\"\n")), "{folder} is {name}");
        let found = names(&text, "[dependencies]").into_iter().filter(|name| known.contains_key(name.as_str()));
        assert_eq!(found.collect::<BTreeSet<_>>(), may.iter().map(|name| (*name).to_owned()).collect(), "{name}");
    }
    // Checks that there is no cycle: crates can be removed one after the other, each without remaining dependencies.
    let mut left = known;
    while !left.is_empty() {
        let free: Vec<&str> = left
            .iter()
            .filter(|(_, may)| !may.iter().any(|name| left.contains_key(name)))
            .map(|(name, _)| *name)
            .collect();
        assert!(!free.is_empty(), "a cycle among {:?}", left.keys());
        left.retain(|name, _| !free.contains(name));
    }
}

#[test]
fn every_member_of_the_workspace_is_listed() {
    let text = manifest(".");
    let members = text.split("members = [").nth(1).and_then(|rest| rest.split(']').next()).expect("members");
    let members: BTreeSet<&str> = members.split('"').skip(1).step_by(2).collect();
    assert_eq!(CRATES.iter().map(|(folder, ..)| *folder).collect::<BTreeSet<_>>(), members);
}

/// A file of `tests/` that neither `main.rs` nor the manifest names would not run.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    for (folder, ..) in CRATES {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder).join("tests");
        let Ok(main) = std::fs::read_to_string(root.join("main.rs")) else { continue };
        let text = manifest(folder);
        assert!(text.contains("autotests = false\n"), "{folder}: files beside `main.rs` are programs as well");
        for entry in std::fs::read_dir(root).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let is_module = main.contains(&format!("mod {name};\n")) || name == "main";
            let is_program = text.contains(&format!("[[test]]\nname = \"{name}\"\n"));
            assert!(is_module || is_program, "{folder}/tests/{name} is in no program");
        }
    }
}
