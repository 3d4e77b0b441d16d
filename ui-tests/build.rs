//! Says whether the compiler is the one whose words the messages are in, so that what cannot be compared is counted as
//! ignored and not as passed.

use std::process::Command;

/// The compiler whose words the messages are in. Others say the same a little differently.
const COMPILER: &str = "rustc 1.95.";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(compiler_of_messages)");
    println!("cargo::rerun-if-changed=build.rs");
    let rustc = std::env::var_os("RUSTC").expect("cargo names the compiler");
    let output = Command::new(&rustc).arg("--version").output().expect("rustc can be asked for its version");
    println!("cargo::rustc-env=COMPILER_OF_MESSAGES={}", rustc.display());
    if String::from_utf8_lossy(&output.stdout).starts_with(COMPILER) {
        println!("cargo::rustc-cfg=compiler_of_messages");
    }
}
