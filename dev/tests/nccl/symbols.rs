//! The exported symbols are those of NCCL, and the table says of each since when.

use std::collections::BTreeSet;
use std::process::Command;

use libtest_mimic::{Failed, Trial};
use mscclpp_nccl::{Class, FUNCTIONS};

/// What the library exports beside NCCL's functions.
const HEADER: &str = include_str!("../../../mscclpp-nccl/include/mscclpp.h");

/// Functions that were new in a version, after its number; those of 2.17 and before are first.
const VERSIONS: &str = include_str!("versions.txt");

/// Functions that clients of NCCL call, by client.
const CALLED: [(&str, &str); 6] = [
    ("pytorch", include_str!("called/pytorch.txt")),
    ("vllm", include_str!("called/vllm.txt")),
    ("sglang", include_str!("called/sglang.txt")),
    ("tensorrt-llm", include_str!("called/tensorrt-llm.txt")),
    ("jax", include_str!("called/jax.txt")),
    ("cudarc", include_str!("called/cudarc.txt")),
];

pub(crate) fn tests() -> Vec<Trial> {
    let symbols = || Ok(exported_symbols_are_those_of_the_table()?);
    let nm = Command::new("nm").arg("--version").output().is_ok_and(|output| output.status.success());
    vec![
        Trial::test("exported_symbols_are_those_of_the_table", symbols).with_ignored_flag(!nm),
        Trial::test("table_has_the_functions_of_each_version", table_has_the_functions_of_each_version),
        Trial::test("functions_that_clients_call_are_served", functions_that_clients_call_are_served),
    ]
}

fn exported_symbols_are_those_of_the_table() -> Result<(), String> {
    let library = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("libmscclpp_nccl.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output();
    let output = String::from_utf8_lossy(&output.map_err(|error| error.to_string())?.stdout).into_owned();
    let found: BTreeSet<&str> = output.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    let twins: Vec<String> =
        FUNCTIONS.iter().filter(|function| function.has_twin).map(|function| format!("p{}", function.name)).collect();
    let expected = FUNCTIONS.iter().map(|function| function.name).chain(twins.iter().map(String::as_str));
    let own = HEADER.split(|c: char| !c.is_alphanumeric()).zip(HEADER.split_inclusive(|c: char| !c.is_alphanumeric()));
    let own = own.filter(|(name, word)| name.starts_with("mscclpp") && word.ends_with('(')).map(|(name, _)| name);
    let expected: BTreeSet<&str> = expected.chain(own).collect();
    if found == expected && found.len() == 193 + 11 {
        return Ok(());
    }
    let differences: Vec<_> = found.symmetric_difference(&expected).collect();
    Err(format!("{} symbols; different: {differences:?}", found.len()))
}

fn table_has_the_functions_of_each_version() -> Result<(), Failed> {
    let mut listed = Vec::new();
    for line in VERSIONS.lines().filter(|line| !line.starts_with('#')) {
        let (version, names) = line.split_once(':').ok_or("no version")?;
        let version: u32 = version.replace('.', "").parse()?;
        listed.extend(names.split_whitespace().map(|name| (name, version)));
    }
    listed.sort_unstable();
    let mut table: Vec<_> = FUNCTIONS.iter().map(|function| (function.name, function.since.max(217))).collect();
    table.sort_unstable();
    let different: Vec<_> = table.iter().filter(|entry| !listed.contains(entry)).collect();
    let missing: Vec<_> = listed.iter().filter(|entry| !table.contains(entry)).collect();
    if different.is_empty() && missing.is_empty() {
        return Ok(());
    }
    Err(format!("in the table: {different:?}; in the list: {missing:?}").into())
}

/// Returns the functions that a client calls.
pub(crate) fn called(client: &str) -> impl Iterator<Item = &'static str> {
    let list = CALLED.iter().find(|(name, _)| *name == client).map_or("", |(_, list)| list);
    list.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

fn functions_that_clients_call_are_served() -> Result<(), Failed> {
    let class = |name: &str| FUNCTIONS.iter().find(|function| function.name == name).map(|function| function.class);
    let mut different = Vec::new();
    for (client, _) in CALLED {
        // The shortest list is that of SGLang.
        assert!(called(client).count() >= 19, "the list of {client} is not complete");
        let refused = called(client).filter(|name| class(name) != Some(Class::Ours));
        different.extend(refused.map(|name| (client, name)));
    }
    let ours = FUNCTIONS.iter().filter(|function| function.class == Class::Ours).count();
    assert!(ours >= 82, "{ours} of {} functions are served", FUNCTIONS.len());
    if different.is_empty() { Ok(()) } else { Err(format!("not served: {different:?}").into()) }
}
