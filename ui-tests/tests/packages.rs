//! What `deny.toml` and CONTRIBUTING.md say of packages, compared with what cargo knows of them: licenses, sources, versions, and
//! the order in which the crates are published.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Returns what cargo says of the packages: with `--no-deps` of ours, else of all that Linux needs.
fn metadata(option: &str) -> Vec<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["metadata", "--offline", "--locked", "--format-version=1", option]).current_dir(root());
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let Value::Array(packages) = value["packages"].take() else { panic!("no packages") };
    packages
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Returns whether an expression holds with some licenses: `OR` binds weaker than `AND`, and `/` is an old `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let expression = expression.replace('/', " OR ");
    if let Some((group, rest)) = expression.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        let rest = rest.trim();
        let group = is_allowed(group, allowed);
        return match rest.split_once(' ') {
            None => group,
            Some(("AND", rest)) => group && is_allowed(rest, allowed),
            Some(("OR", rest)) => group || is_allowed(rest, allowed),
            Some(_) => panic!("{expression}: neither `AND` nor `OR`"),
        };
    }
    expression.split(" OR ").any(|all| all.split(" AND ").all(|one| allowed.contains(one.trim())))
}

#[test]
fn licenses_and_sources_are_allowed() {
    let deny: toml::Table = read("deny.toml").parse().expect("deny.toml");
    let allowed: BTreeSet<&str> =
        deny["licenses"]["allow"].as_array().expect("a list").iter().filter_map(|license| license.as_str()).collect();
    let mut used = BTreeSet::new();
    for package in metadata("--filter-platform=x86_64-unknown-linux-gnu") {
        let name = text(&package["name"]);
        let license = package["license"].as_str().unwrap_or_else(|| panic!("{name} has no license"));
        assert!(is_allowed(license, &allowed), "{name}: {license}");
        used.extend(allowed.iter().filter(|allowed| license.contains(**allowed)));
        if let Some(source) = package["source"].as_str() {
            assert_eq!(source, "registry+https://github.com/rust-lang/crates.io-index", "{name}");
        }
    }
    assert_eq!(used, allowed, "licenses that no package has");
}

#[test]
fn expressions_of_licenses_are_read() {
    let allowed = BTreeSet::from(["MIT", "Unicode-3.0"]);
    for right in ["MIT", "MIT OR GPL-3.0", "GPL-3.0/MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND Unicode-3.0"]
    {
        assert!(is_allowed(right, &allowed), "{right}");
    }
    for wrong in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "GPL-3.0 OR Apache-2.0"] {
        assert!(!is_allowed(wrong, &allowed), "{wrong}");
    }
}

#[test]
fn crates_that_meet_in_types_have_one_version() {
    let deny: toml::Table = read("deny.toml").parse().expect("deny.toml");
    let lock: toml::Table = read("Cargo.lock").parse().expect("Cargo.lock");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock["package"].as_array().expect("packages") {
        let [name, version] = ["name", "version"].map(|key| package[key].as_str().expect("a text"));
        versions.entry(name).or_default().push(version);
    }
    for ban in deny["bans"]["deny"].as_array().expect("a list") {
        let name = ban["crate"].as_str().expect("a name");
        assert_eq!(versions.get(name).map(Vec::len), Some(1), "{name}: {:?}", versions.get(name));
    }
}

/// Returns the crates in the list of a page or script, in their order.
fn listed(file: &str, from: &str, to: &str) -> Vec<String> {
    let text = read(file);
    let (_, list) = text.split_once(from).unwrap_or_else(|| panic!("{file} has no `{from}`"));
    let (list, _) = list.split_once(to).unwrap_or_else(|| panic!("{file} does not end its list"));
    let words = list.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with("mscclpp")).map(str::to_owned).collect()
}

#[test]
fn crates_are_published_after_what_they_depend_on() {
    let order = listed("scripts/package.sh", "crates=(", ")");
    let packages = metadata("--no-deps");
    // An empty list of registries is `publish = false`.
    let published = packages.iter().filter(|package| package["publish"].is_null());
    let mut names: Vec<&str> = published.clone().map(|package| text(&package["name"])).collect();
    let place = |name: &str| order.iter().position(|listed| listed == name);
    names.sort_by_key(|name| place(name));
    assert_eq!(order, names, "published crates");
    for package in published {
        let name = text(&package["name"]);
        // Those of tests without a version are left out of packages, others are not.
        let dependencies = package["dependencies"].as_array().expect("a list");
        for dependency in dependencies.iter().filter(|dependency| dependency["kind"] != "dev") {
            let dependency = text(&dependency["name"]);
            assert!(place(dependency).is_none() || place(dependency) < place(name), "{name} needs {dependency}");
        }
    }
}

/// Otherwise a build without tests, and documentation, would compile the crate and all that depend on it once more.
#[test]
fn dependencies_of_tests_enable_no_further_features() {
    let features = |edges: &str| -> BTreeSet<String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["tree", "--offline", "--locked", "--workspace", "--prefix=none", "--format={p} {f}", "--edges"]);
        let output = command.arg(edges).current_dir(root()).output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
    };
    let (built, tested) = (features("normal,build"), features("normal,build,dev"));
    let further: Vec<_> = built.difference(&tested).collect();
    assert!(further.is_empty(), "tests enable further features of {further:#?}: enable them in dev/Cargo.toml, too");
}
