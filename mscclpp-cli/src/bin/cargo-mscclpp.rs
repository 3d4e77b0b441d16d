//! The program behind `cargo mscclpp`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    mscclpp_cli::cargo_mscclpp()
}
