//! What ranks learn of a failure: NCCL's code, and a text with the same root cause on all of them.

use crate::clients::{SHORT_TIMEOUT, Test, ran, run, text};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("killed_rank_is_a_remote_error", || fault("kill", &[1], 6, "rank 1 (pid ")),
        ("rank_that_ends_is_a_remote_error", || fault("exit", &[1], 6, "rank 1 (pid ")),
        ("rank_that_destroys_its_communicator_has_left", || fault("destroy", &[1], 6, "rank 1 (pid ")),
        ("rank_that_destroys_its_communicator_before_a_first_call_has_left", || {
            fault("destroy-first", &[1], 6, "rank 1 (pid ")
        }),
        ("part_without_rank_0_that_ends_is_a_remote_error", || fault("part", &[0], 6, "rank 0 (pid ")),
        ("late_rank_is_a_timeout", || fault("late", &[], 8, "rank 1 (pid ")),
        ("late_first_call_is_a_timeout", || fault("first", &[], 8, "rank 1 (pid ")),
        ("communicator_that_is_aborted_before_it_is_created_is_a_remote_error", || {
            fault("abandon", &[0], 6, "rank 0 (pid ")
        }),
        ("different_call_is_an_invalid_usage", || fault("mismatch", &[], 5, "ranks make different calls")),
        ("gather_to_another_root_is_an_invalid_usage", || fault("gather", &[], 5, "ranks make different calls")),
        ("gather_of_another_length_is_an_invalid_usage", || fault("shorter", &[], 5, "ranks make different calls")),
        ("scatter_from_another_root_is_an_invalid_usage", || fault("scatter", &[], 5, "ranks make different calls")),
        ("abort_ends_pending_calls_of_all_ranks", || fault("abort", &[0], 6, "rank 0 (pid ")),
        ("failure_in_a_group_is_that_of_its_communicator_alone", || fault("groups", &[1, 2], 6, "rank 1 (pid ")),
        ("ranks_continue_after_revocation_and_shrink", || fault("shrink", &[], 5, "revoked the communicator")),
    ]
}

/// Runs a fault among three ranks. `silent`: ranks that do not report it.
fn fault(name: &str, silent: &[usize], code: u32, cause: &str) -> Result<(), String> {
    let outputs = run("faults", 3, &[name], &SHORT_TIMEOUT)?;
    let mut roots = Vec::new();
    for (rank, output) in outputs.iter().enumerate() {
        if name == "kill" && rank == 1 || name == "groups" && rank == 2 {
            continue;
        }
        ran(std::slice::from_ref(output))?;
        if silent.contains(&rank) {
            continue;
        }
        let (text, report) = (text(output), format!("rank {rank}: code {code}: "));
        let found = text.lines().find_map(|line| line.strip_prefix(&report));
        let found = found.ok_or_else(|| format!("expected `{report}`, found:\n{text}"))?;
        let begin = found.find(cause).ok_or_else(|| format!("expected `{cause}` in `{found}`"))?;
        // The program's source is not known, and this library's says nothing.
        if name == "first" && (!found.contains(" at ncclAllReduce") || found.contains(".rs:")) {
            return Err(format!("expected a call at ncclAllReduce in `{found}`"));
        }
        if name.starts_with("destroy") && !found.contains("has left the communicator") {
            return Err(format!("expected a rank that has left in `{found}`"));
        }
        if name == "mismatch" && (found.matches(" at ncclAllReduce").count() != 2 || found.contains(".rs:")) {
            return Err(format!("expected both calls at ncclAllReduce in `{found}`"));
        }
        roots.push(found[begin..].to_owned());
    }
    roots.dedup();
    if roots.len() == 1 { Ok(()) } else { Err(format!("expected one root cause, found {roots:#?}")) }
}
