//! What must not compile, and what it must say; what must compile.
//!
//! `TRYBUILD=overwrite cargo test -p ui-tests --test ui` writes the messages anew; read each one as somebody who is tired.

use std::process::Command;

/// The compiler whose words the messages are in. Others say the same a little differently.
const COMPILER: &str = "rustc 1.95.";

/// The compiler that the programs are built with.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().expect("rustc can be asked for its version");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn programs() {
    let cases = trybuild::TestCases::new();
    cases.pass("pass/*.rs");
    let compiler = compiler();
    if compiler.starts_with(COMPILER) {
        cases.compile_fail("fail/*/*.rs");
    } else {
        eprintln!(
            "skipping the programs that must not compile: their messages are those of {COMPILER}x, found {compiler}"
        );
    }
}
