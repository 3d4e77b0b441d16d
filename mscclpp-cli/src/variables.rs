//! Warnings about misspelled environment variables.

use crate::output::warn;

/// Prefix of all variables of the project.
const PREFIX: &str = "MSCCLPP_";

/// Names, without the prefix, of the variables that the command and the library read.
const KNOWN: [&str; 39] = [
    "ALLOW_DERIVED_SECRET",
    "AUTHENTICATE_DATA",
    "CACHE",
    "CACHE_DIR",
    "DEBUG",
    "DEBUG_FILE",
    "DUMP_DIR",
    "DUMP_SIGNAL",
    "FIRST_TRANSFER_WAIT",
    "FORCE_DISABLE_NVLS",
    "HEARTBEAT_TIMEOUT",
    "HOSTILE",
    "HOSTID",
    "HOST_ID",
    "KERNELS",
    "LOG_FILE",
    "LOG_LEVEL",
    "LOG_SUBSYS",
    "MACHINE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "METRICS",
    "METRICS_INTERVAL",
    "NPKIT_DUMP_DIR",
    "NVRTC",
    "ORDER",
    "PLANS",
    "PLANS_STRICT",
    "RENDEZVOUS_TIMEOUT",
    "RESTART",
    "SECRET",
    "SOCKET_FAMILY",
    "SOCKET_IFNAME",
    "TIMELINE",
    "TIMEOUT",
    "TRANSPORT",
    "TUNING_TABLE",
    "UCX",
    "UCX_DEVICE_MEMORY",
];

/// Minimum similarity of a name with a known one to be considered a misspelling of it.
const SIMILAR: f64 = 0.7;

/// Warns of each variable that is similar to one of the project's and is none.
pub(crate) fn check() {
    let mut names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    names.sort_unstable();
    for name in names {
        if let Some(known) = meant(&name) {
            warn(format_args!(
                "environment variable `{name}` has no meaning; a similar name exists: `{PREFIX}{known}`"
            ));
        }
    }
}

/// Returns the known name that a variable probably means, if its own name is unknown and similar.
fn meant(name: &str) -> Option<&'static str> {
    let rest = name.strip_prefix(PREFIX).filter(|rest| !KNOWN.contains(rest))?;
    let score = |known: &&str| strsim::normalized_damerau_levenshtein(rest, known);
    let known = KNOWN.into_iter().max_by(|one, other| score(one).total_cmp(&score(other)))?;
    (score(&known) >= SIMILAR).then_some(known)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::{KNOWN, PREFIX, meant};

    /// Variables of tests, macros of device code, and the misspelled ones below.
    const OTHERS: [&str; 15] = [
        "A",
        "BLESS",
        "CONFORMANCE",
        "LOOP_PROGRAMS",
        "LOOP_SEED",
        "LOOP_TELL",
        "LOOP_TRIPS",
        "MASTER_ADDRESS",
        "RANDOM_PLANS",
        "SEED",
        "SLICES",
        "SOAK",
        "T",
        "TIMOUT",
        "",
    ];

    /// Collects names after the prefix at the beginning of string literals.
    fn names(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if entry.is_dir() {
                names(&entry, found);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).expect("a source");
                let begin = format!("\"{PREFIX}");
                let literals = text.split(&begin).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(
                    literals.filter(|name| name.chars().all(|c| c.is_ascii_uppercase() || c == '_')).map(Into::into),
                );
            }
        }
    }

    #[test]
    fn every_variable_that_is_read_is_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = BTreeSet::new();
        for entry in fs::read_dir(&root).expect("the workspace").map(|entry| entry.expect("an entry")) {
            let name = entry.file_name().to_string_lossy().into_owned();
            // The variables of these are in their own pages.
            let is_listed =
                name.starts_with("mscclpp") && !["mscclpp-nccl", "mscclpp-python", "mscclpp-fuzz"].contains(&&*name);
            if is_listed {
                names(&entry.path().join("src"), &mut found);
            }
        }
        found.retain(|name| !OTHERS.contains(&name.as_str()));
        assert_eq!(found, KNOWN.into_iter().map(Into::into).collect());
    }

    #[test]
    fn misspelled_names_are_recognized_and_others_ignored() {
        assert_eq!(meant("MSCCLPP_TIMOUT"), Some("TIMEOUT"));
        assert_eq!(meant("MSCCLPP_HOSTID"), None);
        assert_eq!(meant("MSCCLPP_MASTER_ADDRESS"), Some("MASTER_ADDR"));
        for name in ["MSCCLPP_TIMEOUT", "MSCCLPP_CONFORMANCE", "MSCCLPP_SEED", "MSCCLPP_", "TIMOUT"] {
            assert_eq!(meant(name), None, "{name}");
        }
    }
}
