//! Tries the transport between nodes that others have built.

use std::env;

use mscclpp_transport::{UcxReport, try_ucx};

use super::finding::{Finding, State};

const NAME: &str = "UCX";

/// Loads UCX and sends a put with it.
pub(super) fn finding() -> Finding {
    of(try_ucx(), env::var("MSCCLPP_TRANSPORT").unwrap_or_default().trim())
}

/// `choice`: the word of `MSCCLPP_TRANSPORT`, or nothing.
fn of(report: Result<UcxReport, String>, choice: &str) -> Finding {
    match report {
        Ok(report) => {
            let paths = describe_paths(&report.same_host, &report.other_hosts);
            let unused = if choice == "tcp" { "; not used, because of MSCCLPP_TRANSPORT=tcp" } else { "" };
            let found = format!(
                "{}; {paths}; {} memory of CUDA devices; a put arrived; UCX's own connections are not authenticated{unused}",
                report.library,
                if report.supports_cuda { "supports" } else { "no support of" },
            );
            Finding::good(NAME, found)
        }
        Err(reason) => {
            let (state, help) = match choice {
                "ucx" => (
                    State::Missing,
                    "MSCCLPP_TRANSPORT=ucx requires it: install UCX, correct the variables UCX_*, or unset the variable",
                ),
                _ => (State::Absent, "optional: without it, ranks of different nodes use TCP"),
            };
            Finding::bad(NAME, state, reason, help)
        }
    }
}

/// Returns the transports and devices to this host and to other ones, for people. Without any, UCX does not report them.
fn describe_paths(same_host: &[String], other_hosts: &[String]) -> String {
    let nothing = if same_host.is_empty() && other_hosts.is_empty() { "not reported" } else { "none" };
    let list = |found: &[&str]| if found.is_empty() { nothing.to_owned() } else { found.join(", ") };
    let same_host: Vec<_> = same_host.iter().map(String::as_str).collect();
    // The peer of the trial is on this host, where UCX uses the loopback interface in place of one that leads to other hosts.
    let other_hosts: Vec<_> = other_hosts.iter().map(|name| name.strip_suffix("/lo").unwrap_or(name)).collect();
    format!("on this host {}; to other hosts {}", list(&same_host), list(&other_hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ucx_is_a_failure_only_if_it_is_required() {
        let of = |choice| of(Err("UCX cannot be loaded".into()), choice);
        assert_eq!((of("").state, of("tcp").state, of("ucx").state), (State::Absent, State::Absent, State::Missing));
        assert_eq!(of("ucx").found, "UCX cannot be loaded");
    }

    #[test]
    fn paths_name_no_device_that_leads_to_no_other_host() {
        let paths = |same: &[&str], other: &[&str]| {
            let [same, other] =
                [same, other].map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
            describe_paths(&same, &other)
        };
        assert_eq!(paths(&["cma/memory"], &["tcp/lo"]), "on this host cma/memory; to other hosts tcp");
        assert_eq!(paths(&["tcp/lo"], &["tcp/eth0"]), "on this host tcp/lo; to other hosts tcp/eth0");
        assert_eq!(paths(&["cma/memory"], &[]), "on this host cma/memory; to other hosts none");
        assert_eq!(paths(&[], &[]), "on this host not reported; to other hosts not reported");
    }
}
