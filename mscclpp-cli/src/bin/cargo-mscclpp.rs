//! The program that `cargo mscclpp` runs.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mscclpp_cli::cargo_mscclpp()
}
