//! A crate outside of the workspace, without dependencies: a library with two plans, a program with one of them, an example with none.

use std::fs;
use std::path::Path;
use std::process::Command;

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;

use super::plans::{good, max};

/// The plan that the program uses.
pub(crate) fn swap() -> PlanTree {
    PlanTree { name: "own_swap".into(), ..good() }
}

/// Writes the crate into a folder.
pub(crate) fn write(folder: &Path) {
    let write = |path: &str, bytes: &[u8]| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    };
    write("Cargo.toml", b"[workspace]\n[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
    write("src/swap.plan", Plan::new(&swap()).image());
    write("src/max.plan", Plan::new(&PlanTree { name: "own_max".into(), ..max() }).image());
    let library = "pub fn swap() -> &'static [u8] { include_bytes!(\"swap.plan\") }\n\
        pub fn max() -> &'static [u8] { include_bytes!(\"max.plan\") }\n";
    write("src/lib.rs", library.as_bytes());
    write("src/main.rs", b"fn main() { std::process::exit(outside::swap().iter().map(|b| i32::from(*b)).sum()) }\n");
    write("examples/empty.rs", b"fn main() {}\n");
}

/// `cargo mscclpp` in the crate.
pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-mscclpp"));
    command
        .arg("mscclpp")
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", folder.join("target"))
        .env("CARGO_NET_OFFLINE", "true");
    command
}
