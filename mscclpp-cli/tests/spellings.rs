//! The commands that `docs/spellings.md` leads to are there.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::mscclpp;

#[test]
fn every_command_of_the_page_has_a_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/spellings.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let spans = page.split('`').skip(1).step_by(2);
    let commands: BTreeSet<Vec<&str>> = spans
        .filter_map(|span| span.strip_prefix("mscclpp "))
        .map(|words| words.split(' ').take_while(|word| word.chars().all(char::is_lowercase)).collect())
        .collect();
    assert!(commands.len() >= 3, "{commands:?}");
    for command in commands {
        let run = mscclpp(command.iter().copied().chain(["--help"]));
        assert!(run.stdout.contains("Usage: mscclpp"), "mscclpp {}: {}", command.join(" "), run.stderr);
    }
}
