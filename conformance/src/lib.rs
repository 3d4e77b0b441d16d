//! The reference plans: in the directory that `MSCCLPP_CONFORMANCE` named when this was built, relative to the
//! workspace. Without it, tests that need the plans are ignored, with the reason.

use std::path::Path;

use serde_json::Value;

/// Returns the directory of the plans.
///
/// # Panics
///
/// Without one, which happens only if the ignored tests are run.
pub fn directory() -> &'static Path {
    let directory = option_env!("REFERENCE_PLANS");
    Path::new(directory.expect("MSCCLPP_CONFORMANCE does not name a directory of reference plans"))
}

/// Reads a text file of that directory.
///
/// # Panics
///
/// If it cannot be read.
pub fn text(name: &str) -> String {
    let path = directory().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads a JSON file of that directory.
///
/// # Panics
///
/// If it cannot be read.
pub fn json(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the entries of `index.json`, which describe the plans.
///
/// # Panics
///
/// If it cannot be read or lists few plans: then it is not the reference's.
pub fn index() -> Vec<Value> {
    let Value::Array(entries) = json("index.json") else { panic!("index.json is not a list") };
    assert!(entries.len() > 200, "found {} reference plans", entries.len());
    entries
}
