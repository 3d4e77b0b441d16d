//! Environment variables: the list of all, and warnings about misspelled ones.

use std::fmt::Write as _;

use crate::output::warn;

/// Prefix of all variables of the project.
const PREFIX: &str = "MSCCLPP_";

/// Names, without the prefix, of the variables that the command and the library read, and their meanings.
#[rustfmt::skip]
const KNOWN: [(&str, &str); 39] = [
    ("ALLOW_DERIVED_SECRET", "1: ranks that are not on loopback may use a secret that is derived from the job's name"),
    ("AUTHENTICATE_DATA", "1: messages between nodes are authenticated; the same on all ranks"),
    ("CACHE", "folder of compiled device code; empty: none. $XDG_CACHE_HOME/mscclpp or ~/.cache/mscclpp by default"),
    ("CACHE_DIR", "a folder with the folder `default`, whose plans precede the built-in ones, after those of MSCCLPP_PLANS"),
    ("DEBUG", "log level, if MSCCLPP_LOG_LEVEL is not set"),
    ("DEBUG_FILE", "file of log messages, if MSCCLPP_LOG_FILE is not set"),
    ("DUMP_DIR", "folder for dumps of failed calls"),
    ("DUMP_SIGNAL", "USR1 or USR2: a rank that receives the signal writes its dump"),
    ("FIRST_TRANSFER_WAIT", "seconds that the first transfer of a size on device memory waits on the host; those of the call by default"),
    ("FORCE_DISABLE_NVLS", "1: devices are used as if they had no multicast objects, if it is set on any rank; NCCL_NVLS_ENABLE=0 too"),
    ("HEARTBEAT_TIMEOUT", "seconds without a heartbeat after which a rank counts as lost, 10 by default; 0 disables the check"),
    ("HOSTILE", "a seed: messages between nodes are received late, in a random allowed order; for tests"),
    ("HOSTID", "prefix of the host identity, if MSCCLPP_HOST_ID is not set"),
    ("HOST_ID", "prefix of the host identity: ranks with different ones do not share memory"),
    ("KERNELS", "kernels of plans on devices: background (default), wait, ahead-of-time, interpreter"),
    ("LOG_FILE", "file to append log messages to instead of standard error (%h: host, %p: process)"),
    ("LOG_LEVEL", "log level: off, error, warn, info, debug, trace"),
    ("LOG_SUBSYS", "whose messages are logged: of ENV, GPU, NET, CONN, EXEC, NCCL, ALGO, or after ^ of all others"),
    ("MACHINE", "machine description by which calls are selected: a name of `mscclpp machine list`, or a file"),
    ("MASTER_ADDR", "address of rank 0, before MASTER_ADDR: host, host:port, or interface:host:port to listen on that interface only"),
    ("MASTER_PORT", "port of rank 0, before MASTER_PORT"),
    ("METRICS", "file or folder to which each rank appends its metrics"),
    ("METRICS_INTERVAL", "seconds between two lines of metrics, 10 by default"),
    ("NPKIT_DUMP_DIR", "folder for timelines of calls, if MSCCLPP_TIMELINE is not set"),
    ("NVRTC", "path of CUDA's compiler libnvrtc, if the loader does not find it"),
    ("ORDER", "order of reduction that calls demand: any, in-switch (default), same-on-all-ranks, rank-order"),
    ("PLANS", "folder whose *.json and *.plan files are checked and precede the built-in plans, by name"),
    ("PLANS_STRICT", "set and not 0: a plan that cannot be used is an error of the first call, not a warning"),
    ("RENDEZVOUS_TIMEOUT", "seconds that ranks wait for each other when they join, shrink or grow; MSCCLPP_TIMEOUT if that is set, or 300"),
    ("RESTART", "how often the launcher has restarted this rank; it joins the next generation of the job"),
    ("SECRET", "secret of the job, 32 hexadecimal digits, the same for all ranks"),
    ("SOCKET_FAMILY", "AF_INET or AF_INET6, for the address in a unique id; before NCCL_SOCKET_FAMILY"),
    ("SOCKET_IFNAME", "interfaces for the address in a unique id: eth,ib beginnings of names, =eth0 whole names, ^docker those not to use; before NCCL_SOCKET_IFNAME"),
    ("TIMELINE", "folder for timelines of calls"),
    ("TIMEOUT", "seconds that a call waits for other ranks, 600 by default"),
    ("TRANSPORT", "what carries data between nodes: tcp, ucx; by default UCX where it has RDMA or shared memory"),
    ("TUNING_TABLE", "tuning table that communicators and the command use"),
    ("UCX", "path of libucp.so.0"),
    ("UCX_DEVICE_MEMORY", "1: UCX accesses memory of devices"),
];

/// Minimum similarity of a name with a known one to be considered a misspelling of it.
const SIMILAR: f64 = 0.7;

/// Returns the variables, what they are set to, and what they mean, as a table in Markdown. The value of a secret is not shown.
pub(crate) fn table() -> String {
    let mut table = "| variable | set to | meaning |\n|---|---|---|\n".to_owned();
    for (name, meaning) in KNOWN {
        let name = format!("{PREFIX}{name}");
        let value = std::env::var_os(&name).map(|value| match name.ends_with("SECRET") {
            true => "(a value)".to_owned(),
            false => value.to_string_lossy().replace('|', "\\|").replace(char::is_control, " "),
        });
        _ = writeln!(table, "| `{name}` | {} | {meaning} |", value.unwrap_or_default());
    }
    table
}

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
    let names = || KNOWN.into_iter().map(|(name, _)| name);
    let rest = name.strip_prefix(PREFIX).filter(|rest| names().all(|known| known != *rest))?;
    let score = |known: &&str| strsim::normalized_damerau_levenshtein(rest, known);
    let known = names().max_by(|one, other| score(one).total_cmp(&score(other)))?;
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
        assert_eq!(found, KNOWN.into_iter().map(|(name, _)| name.into()).collect());
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
