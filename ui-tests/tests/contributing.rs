//! The worked example of CONTRIBUTING.md applies to the sources.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn diff_of_the_worked_example_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let text = std::fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let (_, diff) = text.split_once("```diff\n").expect("a diff");
    let (diff, _) = diff.split_once("```\n").expect("the end of the diff");
    let mut git = Command::new("git");
    let git = git.args(["apply", "--check"]).current_dir(root).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut git = git.spawn().expect("git");
    git.stdin.take().expect("a pipe").write_all(diff.as_bytes()).expect("git reads the diff");
    let output = git.wait_with_output().expect("git ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
