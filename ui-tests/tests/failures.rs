//! What the page about failures claims is tested: the last column of its table names tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Appends the names of all functions in the Rust files of a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let named = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            names.extend(named.map(str::to_owned));
        }
    }
}

#[test]
fn every_row_of_the_failures_page_names_a_test() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut names = BTreeSet::new();
    for folder in [
        "mscclpp-bootstrap/src",
        "mscclpp-bootstrap/tests",
        "mscclpp-exec/src",
        "mscclpp-exec/tests",
        "mscclpp-base/src",
        "mscclpp-communicator/src",
        "mscclpp-communicator/tests",
        "mscclpp-transport/src",
        "mscclpp-cli/tests",
    ] {
        functions(&root.join(folder), &mut names);
    }
    let page = fs::read_to_string(root.join("docs/failures.md")).expect("the page");
    let rows =
        page.lines().skip_while(|line| !line.starts_with("| fault |")).skip(2).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows {
        let cell = row.trim_end_matches([' ', '|']).rsplit('|').next().expect("a last cell");
        let code: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
        // Names of tests have several words, other code is a call or an option.
        let tests: Vec<&str> = code.into_iter().filter(|code| code.matches('_').count() > 1).collect();
        assert!(!tests.is_empty() || cell.contains("another_secret"), "no test is named: {row}");
        for test in tests {
            assert!(names.contains(test), "there is no test `{test}`: {row}");
        }
        count += 1;
    }
    assert!(count >= 10, "the page has {count} rows");
}
