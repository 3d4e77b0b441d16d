//! The reference's plans: `index.json` and its description of each.

use serde_json::{Map, Value};

/// One plan of the conformance set.
pub(crate) struct Entry {
    /// Name of the plan and of its file.
    pub(crate) slug: String,
    /// Path of the script in the reference's repository.
    pub(crate) source: String,
    /// Command line of the script, as name and value; flags without a value have an empty one.
    args: Vec<(String, String)>,
    /// Constructor arguments forced on top of the script.
    pub(crate) overrides: Map<String, Value>,
    /// Other overrides that produce the same bytes.
    pub(crate) identical_under: Vec<Map<String, Value>>,
    /// Whether the plan was judged by running it in a simulator.
    pub(crate) simulated: bool,
}

impl Entry {
    /// Returns a numeric argument of the script.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        let (_, value) = self.args.iter().find(|(known, _)| known == name)?;
        Some(value.parse().unwrap_or_else(|_| panic!("{}: --{name} {value}", self.slug)))
    }

    /// Returns whether the script was given a flag.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.args.iter().any(|(known, _)| known == name)
    }
}

/// Reads `index.json`.
pub(crate) fn read() -> Vec<Entry> {
    conformance::index().iter().map(entry).collect()
}

fn entry(value: &Value) -> Entry {
    let text = |key: &str| value[key].as_str().unwrap_or_else(|| panic!("{key} of {value}")).to_owned();
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let mut args: Vec<(String, String)> = Vec::new();
    for word in value["args"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        match (word.strip_prefix("--"), args.last_mut()) {
            (Some(name), _) => args.push((name.to_owned(), String::new())),
            (None, Some((_, value))) => *value = word.to_owned(),
            (None, None) => panic!("{}: {word}", text("slug")),
        }
    }
    Entry {
        slug: text("slug"),
        source: text("source"),
        args,
        overrides: map(&value["overrides"]),
        simulated: value["simulated"] == true,
        identical_under: value["identical_under"].as_array().into_iter().flatten().map(map).collect(),
    }
}
