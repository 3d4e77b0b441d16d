//! Completions and manual pages.

use crate::common::mscclpp;

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = mscclpp(["completions", shell]).succeeds().stdout;
        for word in ["mscclpp", "allow", "export", "virtual-ranks"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("guard"), "{shell} completes what is hidden");
    }
    mscclpp(["completions", "bsh"]).ends_with(2);
}

#[test]
fn every_command_has_a_page() {
    let page = mscclpp(["man"]).succeeds().stdout;
    assert!(page.starts_with(".ie") && page.contains(".TH mscclpp 1"), "{page}");
    for name in ["run", "check", "launch", "explain"] {
        assert!(page.contains(&format!("mscclpp\\-{name}(1)")), "{name}");
        let page = mscclpp(["man", name]).succeeds().stdout;
        assert!(page.contains(&format!(".TH mscclpp-{name} 1")), "{page}");
    }
    assert!(mscclpp(["man", "plan", "export"]).succeeds().stdout.contains(".TH mscclpp-plan-export 1"));
    let run = mscclpp(["man", "plan", "exprot"]).ends_with(2);
    assert!(run.stderr.contains("a similar name exists: `export`"), "{}", run.stderr);
}
