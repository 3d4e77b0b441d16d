//! What rustc says that functions return.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::types::INTS;

/// Functions that the random ones call.
pub(super) fn helpers() -> String {
    INTS.iter()
        .map(|int| format!("fn apply_{int}(f: impl Fn({int}) -> {int}, x: {int}) -> {int} {{ f(f(x)) }}\n"))
        .collect()
}

/// What the functions return, by rustc: `panic` if they do.
pub(super) fn native(functions: &[(String, String)], first: u64) -> Vec<String> {
    let mut source = String::from("#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n");
    source += &helpers();
    source += "fn main() { std::panic::set_hook(Box::new(|_| {}));\n";
    for (name, _) in functions {
        writeln!(
            source,
            "match std::panic::catch_unwind({name}) {{ Ok(x) => println!(\"{{x:?}}\"), Err(_) => println!(\"panic\") }}"
        )
        .unwrap();
    }
    source += "}\n";
    source.extend(functions.iter().map(|(_, text)| text.as_str()));
    let (directory, name) = (Path::new(env!("CARGO_TARGET_TMPDIR")), format!("random{first}-{}", std::process::id()));
    let (file, program) = (directory.join(format!("{name}.rs")), directory.join(&name));
    std::fs::write(&file, &source).expect("the source can be written");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition", "2024", "-C", "overflow-checks=yes", "-C", "debug-assertions=yes", "-o"]);
    let compiled = compile.arg(&program).arg(&file).output().expect("rustc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().expect("the program runs");
    let lines = String::from_utf8_lossy(&run.stdout).lines().map(str::to_owned).collect();
    for path in [file, program] {
        std::fs::remove_file(path).expect("it was just made");
    }
    lines
}
