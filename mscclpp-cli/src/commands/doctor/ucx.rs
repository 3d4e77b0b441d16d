//! Tries the transport between nodes that others have built.

use std::env;

use mscclpp_exec::{UcxReport, try_ucx};

use super::finding::{Finding, State};

const NAME: &str = "UCX";

/// Loads UCX and sends a put with it.
pub(super) fn finding() -> Finding {
    let is_required = env::var("MSCCLPP_TRANSPORT").is_ok_and(|word| word.trim() == "ucx");
    of(try_ucx(), is_required)
}

fn of(report: Result<UcxReport, String>, is_required: bool) -> Finding {
    match report {
        Ok(report) => {
            let list = |found: &[String]| match found.is_empty() {
                true => "not reported".to_owned(),
                false => found.join(", "),
            };
            let (same_host, other_hosts) = (list(&report.same_host), list(&report.other_hosts));
            let found = format!(
                "{}; on this host {same_host}; to other hosts {other_hosts}; {} memory of CUDA devices; a put arrived; UCX's own \
                 connections are not authenticated",
                report.library,
                if report.supports_cuda { "supports" } else { "no support of" },
            );
            Finding::good(NAME, found)
        }
        Err(reason) => {
            let (state, help) = match is_required {
                true => (State::Missing, "MSCCLPP_TRANSPORT=ucx requires it: install UCX, or unset the variable"),
                false => (State::Absent, "optional: without it, ranks of different nodes use TCP"),
            };
            Finding::bad(NAME, state, reason, help)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ucx_is_a_failure_only_if_it_is_required() {
        let of = |is_required| of(Err("UCX cannot be loaded".into()), is_required);
        assert_eq!((of(false).state, of(true).state), (State::Absent, State::Missing));
        assert_eq!(of(true).found, "UCX cannot be loaded");
    }
}
