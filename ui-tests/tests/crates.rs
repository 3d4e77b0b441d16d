//! Dependencies between crates are those of the table in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A row of the table: the crate's folder, its package, and the packages that it depends on.
struct Crate {
    folder: String,
    name: String,
    depends_on: BTreeSet<String>,
}

/// Returns the rows of the table.
fn crates() -> Vec<Crate> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ARCHITECTURE.md");
    let page = std::fs::read_to_string(path).expect("the page");
    let rows = page.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let rows =
        rows.take_while(|line| line.starts_with('|')).map(|row| row.trim_matches('|').split(" | ").collect::<Vec<_>>());
    let rows: Vec<(Vec<&str>, &str)> = rows
        .map(|cells| (cells[0].split('`').skip(1).step_by(2).collect(), cells.last().expect("a cell").trim()))
        .collect();
    let names: BTreeSet<&str> = rows.iter().map(|(names, _)| names[0]).collect();
    let full = |short: &str| match names.contains(short) {
        true => short.to_owned(),
        false => format!("mscclpp-{short}"),
    };
    let depends_on = |list: &str| list.split(", ").filter(|name| *name != "none").map(full).collect();
    rows.iter()
        .map(|(names, list)| Crate {
            folder: names.get(1).unwrap_or(&names[0]).trim_end_matches('/').to_owned(),
            name: names[0].to_owned(),
            depends_on: depends_on(list),
        })
        .collect()
}

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
    let crates = crates();
    let known: BTreeMap<&str, &BTreeSet<String>> =
        crates.iter().map(|row| (row.name.as_str(), &row.depends_on)).collect();
    for Crate { folder, name, depends_on } in &crates {
        let text = manifest(folder);
        assert!(text.contains(&format!("name = \"{name}\"\n")), "{folder} is {name}");
        let found = names(&text, "[dependencies]").into_iter().filter(|name| known.contains_key(name.as_str()));
        assert_eq!(&found.collect::<BTreeSet<_>>(), depends_on, "{name}");
    }
    // Checks that there is no cycle: crates can be removed one after the other, each without remaining dependencies.
    let mut left = known;
    while !left.is_empty() {
        let free: Vec<&str> = left
            .iter()
            .filter(|(_, depends_on)| !depends_on.iter().any(|name| left.contains_key(name.as_str())))
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
    let crates = crates();
    assert_eq!(crates.iter().map(|row| row.folder.as_str()).collect::<BTreeSet<_>>(), members);
}

/// A file of `tests/` that neither `main.rs` nor the manifest names would not run.
#[test]
fn every_file_of_tests_is_part_of_a_program() {
    for Crate { folder, .. } in crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&folder).join("tests");
        let Ok(main) = std::fs::read_to_string(root.join("main.rs")) else { continue };
        let text = manifest(&folder);
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

/// Maximum number of lines of a crate's sources, in which a reader still finds everything.
const MAX_LINES: usize = 25_000;

#[test]
fn no_crate_is_too_large_to_read() {
    fn lines(folder: &Path) -> usize {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let of = |path: &Path| match path.is_dir() {
            true => lines(path),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                std::fs::read_to_string(path).expect("a source").lines().count()
            }
            false => 0,
        };
        entries.map(|entry| of(&entry.expect("an entry").path())).sum()
    }
    for Crate { folder, name, .. } in crates() {
        let lines = lines(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&folder).join("src"));
        assert!(lines <= MAX_LINES, "{name} has {lines} lines, more than {MAX_LINES}: cut it");
    }
}
