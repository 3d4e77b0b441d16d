//! Finds the reference plans, so that tests without them are counted as ignored and not as passed.

use std::path::Path;

const VARIABLE: &str = "MSCCLPP_CONFORMANCE";

fn main() {
    println!("cargo::rustc-check-cfg=cfg(reference_plans)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let Some(directory) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else { return };
    // Build scripts run in their crate's directory; the variable is relative to the workspace.
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(directory);
    let index = directory.join("index.json");
    match index.canonicalize() {
        Ok(index) => {
            let directory = index.parent().expect("a file lies in a directory");
            println!("cargo::rerun-if-changed={}", index.display());
            println!("cargo::rustc-cfg=reference_plans");
            println!("cargo::rustc-env=REFERENCE_PLANS={}", directory.display());
        }
        Err(error) => println!("cargo::error={VARIABLE} names no directory of plans: {}: {error}", index.display()),
    }
}
