//! Links in a folder of plans, where a system has them.

#![cfg(unix)]

use mscclpp_select::{PlanFile, Registry};

#[test]
fn link_to_a_missing_plan_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink("missing", folder.path().join("a.json")).expect("linked");
    let mut registry = Registry::builtin();
    registry.add_directory(folder.path());
    let refused: Vec<_> = registry.files().iter().filter_map(PlanFile::refusal).collect();
    assert!(refused.len() == 1 && refused[0].contains("a.json"), "{refused:?}");
}
