//! A library that bears the CUDA driver's name and is none, or only a stub of it: said, never a panic.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::{Command, Stdio};

/// Runs the command with a library of this source in its way: exit code, what it printed, and what it complained of.
fn run(source: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so");
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let mut command = Command::new(compiler);
    let command = command
        .args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "cuda", "-o"])
        .arg(&library)
        .arg("-");
    let mut compiler = command.stdin(Stdio::piped()).spawn().unwrap();
    compiler.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    std::fs::copy(&library, folder.path().join("libcuda.so.1")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mscclpp"));
    let output = command.args(arguments).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

const FOREIGN: &str =
    "the library that was loaded as the CUDA driver has no function `cuInit`; install the vendor's driver";

#[test]
fn doctor_says_so() {
    let (code, stdout, stderr) = run("", &["doctor"]);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("CUDA driver         absent") && stdout.contains(FOREIGN), "{stdout}");
}

#[test]
fn the_cuda_backend_says_so() {
    for arguments in [&["bench", "all_reduce"][..], &["run", "allreduce_ring"]] {
        let (code, stdout, stderr) = run("", &[arguments, &["--backend", "cuda"]].concat());
        assert_eq!(code, Some(3), "{stderr}");
        assert!(stdout.is_empty() && stderr.contains(FOREIGN), "{stdout}{stderr}");
    }
}

/// The toolkit's, which is for linking: every function returns the same error, that which gives errors a name too.
#[test]
fn stubs_are_told_from_drivers() {
    let functions = ["cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuGetErrorName", "cuGetErrorString"];
    let stub = functions.map(|name| format!("#[unsafe(no_mangle)] extern \"C\" fn {name}() -> i32 {{ 34 }}\n"));
    let source = format!("#![allow(non_snake_case)]\n{}", stub.concat());
    let (code, stdout, stderr) = run(&source, &["run", "allreduce_ring", "--backend", "cuda"]);
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stdout.is_empty() && stderr.contains("remove the toolkit's folder `stubs` from"), "{stdout}{stderr}");
}
