//! `double.patch`, the worked example of CONTRIBUTING.md, applies to the sources.

use std::path::Path;
use std::process::Command;

#[test]
fn diff_of_the_worked_example_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut git = Command::new("git");
    let git = git.args(["apply", "--check", "ui-tests/double.patch"]).current_dir(root);
    let output = git.output().expect("git starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
