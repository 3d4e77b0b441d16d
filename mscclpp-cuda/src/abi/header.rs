//! Generates `kernels/abi.h`.

use std::fmt::Write as _;

use super::macros::{Constant, Enum, Field, Struct};
use super::{CONSTANTS, ENUMS, STRUCTS, kernel_name};

const HEAD: &str = "// Everything that host and device share. Generated from mscclpp-exec/src/cuda/abi/ by the test
// `abi_header_is_current`: change those files, then run the test with MSCCLPP_BLESS=1.
#pragma once
#include \"dev.h\"

namespace mscclpp {

";

/// Returns the C++ name of a type.
fn type_name(kind: &str) -> &str {
    match kind {
        "u8" => "uint8_t",
        "u16" => "uint16_t",
        "u32" => "uint32_t",
        "u64" => "uint64_t",
        shared => shared,
    }
}

/// Returns the C++ name of a constant: `kMaxThreads` for `MAX_THREADS`.
fn constant_name(name: &str) -> String {
    let word = |word: &str| word[..1].to_owned() + &word[1..].to_lowercase();
    "k".to_owned() + &name.split('_').map(word).collect::<String>()
}

/// Returns a comment. Names of constants and paths in it become those of C++.
fn comment(doc: &[&str], indent: &str) -> String {
    let translated = |line: &str| {
        let words = line.split('`').enumerate().map(|(at, word)| {
            let is_constant = |word: &str| word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase() || c == '_');
            if at % 2 == 1 && is_constant(word) { constant_name(word) } else { word.replace("::", ".") }
        });
        words.collect::<Vec<_>>().join("`")
    };
    doc.iter().map(|line| format!("{indent}///{}\n", translated(line))).collect()
}

/// Returns the text of `kernels/abi.h`.
fn header() -> String {
    let mut text = String::from(HEAD);
    // Writing to a `String` cannot fail, so the results of `write!` are ignored.
    for Constant { doc, name, kind, value } in CONSTANTS {
        let (kind, name) = (type_name(kind), constant_name(name));
        let _ = write!(text, "{}constexpr {kind} {name} = {value};\n\n", comment(doc, ""));
    }
    for Enum { doc, name, kind, values } in ENUMS {
        let _ = writeln!(text, "{}enum class {name} : {} {{", comment(doc, ""), type_name(kind));
        for Constant { doc, name, value, .. } in *values {
            let _ = writeln!(text, "{}  {} = {value},", comment(doc, "  "), constant_name(name));
        }
        text += "};\n\n";
    }
    for Struct { doc, name, size, align, fields } in STRUCTS {
        let _ = writeln!(text, "{}struct {name} {{", comment(doc, ""));
        let mut asserts = vec![format!("sizeof({name}) == {size}"), format!("alignof({name}) == {align}")];
        for Field { doc, name: field, kind, count, offset } in *fields {
            let array = if *count == 0 { String::new() } else { format!("[{count}]") };
            let _ = writeln!(text, "{}  {} {field}{array};", comment(doc, "  "), type_name(kind));
            asserts.push(format!("offsetof({name}, {field}) == {offset}"));
        }
        let asserts = asserts.join(" &&\n                  ");
        let _ = write!(text, "}};\nstatic_assert({asserts},\n              \"{name} differs from the host's\");\n\n");
    }
    let name = kernel_name();
    text + &format!(
        "}}  // namespace mscclpp

/// Name of a kernel that only modules with everything above have.
#define MSCCLPP_ABI {name}
#define MSCCLPP_ABI_NAME \"{name}\"
"
    )
}

#[test]
fn abi_header_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/abi.h");
    let expected = header();
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(path, &expected).expect("kernels/abi.h can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "kernels/abi.h is stale: run this test with MSCCLPP_BLESS=1");
}
