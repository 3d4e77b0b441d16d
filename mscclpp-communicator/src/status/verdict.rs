//! Whether the ranks of a communicator progress, and what keeps them from it.

use std::fmt;
use std::time::Duration;

use mscclpp_bootstrap::PendingCall;
use serde::Serialize;

use super::{RankState, RankStatus};
use mscclpp_bootstrap::call_report::{CallReport, Culprits, call_text, find_culprits};

/// Time after which a wait is reported: shorter ones are usual, because ranks are never equally fast.
const LONG_WAIT: Duration = Duration::from_secs(1);

/// Whether the ranks of a communicator progress. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Verdict {
    /// What was found.
    pub finding: Finding,
    /// The ranks for which the others wait; of the communicator.
    pub ranks: Vec<u32>,
    /// One line for people.
    pub text: String,
}

/// What was found about the ranks of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Finding {
    /// No rank has waited for another one for longer than a second.
    Progressing,
    /// The communicator has failed.
    Failed,
    /// Ranks have not joined.
    NotJoined,
    /// Ranks do not answer.
    Silent,
    /// Ranks have left or are lost, and others wait for them.
    Absent,
    /// Ranks make different calls.
    Mismatch,
    /// Ranks have not made a call in which others wait.
    Late,
    /// Ranks are in a call, and neither wait nor return.
    Busy,
    /// All ranks wait in a call: its plan is the cause.
    Stalled,
}

impl Verdict {
    /// Returns whether something keeps ranks from progress.
    pub fn is_problem(&self) -> bool {
        self.finding != Finding::Progressing
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the verdict about a communicator.
pub(super) fn verdict(
    ranks: &[RankStatus],
    reports: &[Option<CallReport>],
    pending: &[PendingCall],
    failure: Option<&str>,
) -> Verdict {
    let found = |finding, ranks, text| Verdict { finding, ranks, text };
    let of_state = |state| {
        let of_state = ranks.iter().filter(|rank| rank.state == state);
        let longest = of_state.clone().filter_map(|rank| rank.duration).max().unwrap_or_default();
        (of_state.map(|rank| rank.rank).collect::<Vec<_>>(), longest)
    };
    let longest_wait = of_state(RankState::Waiting).1;
    if let Some(failure) = failure {
        return found(Finding::Failed, of_state(RankState::Lost).0, format!("the communicator has failed: {failure}"));
    }
    let (missing, waited) = of_state(RankState::NotJoined);
    if !missing.is_empty() && waited >= LONG_WAIT {
        let text = format!("{} not joined; the others have waited for {}", have(&missing), Seconds(waited));
        return found(Finding::NotJoined, missing, text);
    }
    let (silent, since) = of_state(RankState::Silent);
    if let [first, ..] = silent[..] {
        let RankStatus { pid, host, .. } = &ranks[first as usize];
        let text = format!(
            "{} not answered for {}: the process is suspended or its host is unreachable (pid {pid} on {host})",
            have(&silent),
            Seconds(since)
        );
        return found(Finding::Silent, silent, text);
    }
    if longest_wait < LONG_WAIT {
        let text = "all ranks progress: none has waited for longer than 1 s".to_owned();
        return found(Finding::Progressing, Vec::new(), text);
    }
    let waited = Seconds(longest_wait);
    // A rank that waits in the control plane may be in a call of its executor, whose ranks all seem busy.
    let call = pending.iter().find(|call| call.waited >= LONG_WAIT && !call.missing.is_empty());
    let executor_waits = reports.iter().flatten().any(|report| report.waiting != 0);
    if let Some(call) = call.filter(|_| !executor_waits) {
        let entered: Vec<_> = call.entered.iter().map(|(rank, _)| *rank).collect();
        let (missing, at) = (call.missing.clone(), call.entered.first().map_or("", |(_, at)| at.as_str()));
        let waiting = waits(&entered);
        let text = format!("{} not entered {} at {at}, in which {waiting} for {waited}", have(&missing), call.call);
        return found(absence(ranks, &missing), missing, text);
    }
    let number = reports.iter().flatten().map(|report| report.waiting).max().unwrap_or(0);
    let call = |number| call_text(reports, number);
    match find_culprits(reports, number) {
        // A rank that is present would be silent.
        Some(Culprits::Silent(rank)) => {
            let text = format!("rank {rank} has left or is lost, and others have waited for it for {waited}");
            found(Finding::Absent, vec![rank], text)
        }
        Some(Culprits::Differs { number, rank }) => {
            let own = reports[rank as usize].as_ref().and_then(|report| report.call(number));
            let own = own.map(ToString::to_string).unwrap_or_default();
            let text = format!("rank {rank} makes another call than most ranks: {own}");
            found(Finding::Mismatch, vec![rank], text)
        }
        Some(Culprits::Missing { number, ranks: missing, waiting }) => {
            let last = missing.first().and_then(|rank| last_call(*rank, reports)).unwrap_or_default();
            let (call, waiting) = (call(number), waits(&waiting));
            let text = format!("{} not made {call}, in which {waiting} for {waited}{last}", have(&missing));
            found(absence(ranks, &missing), missing, text)
        }
        Some(Culprits::Busy { number, ranks: busy, waiting }) => {
            let (verb, call, waiting) = (if busy.len() == 1 { "is" } else { "are" }, call(number), waits(&waiting));
            let text =
                format!("{} {verb} in {call} without waiting or returning; {waiting} for {waited}", names(&busy));
            found(Finding::Busy, busy, text)
        }
        None => {
            let text = format!("all ranks have waited in {} for {waited}: its plan is the cause", call(number));
            found(Finding::Stalled, Vec::new(), text)
        }
    }
}

/// Returns whether ranks that have not made a call are late, or absent.
fn absence(ranks: &[RankStatus], missing: &[u32]) -> Finding {
    let is_absent = |rank: &u32| {
        ranks.get(*rank as usize).is_some_and(|rank| matches!(rank.state, RankState::Left | RankState::Lost))
    };
    if missing.iter().any(is_absent) { Finding::Absent } else { Finding::Late }
}

/// Returns `; its last call, …, returned 43.0 s ago`.
fn last_call(rank: u32, reports: &[Option<CallReport>]) -> Option<String> {
    let report = reports.get(rank as usize)?.as_ref()?;
    let call = report.call(report.number)?;
    Some(format!("; its last call, {call}, returned {} ago", Seconds(report.since)))
}

/// Returns `rank 3`, or `ranks 3, 4 and 5`.
fn names(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".into(),
        [rank] => format!("rank {rank}"),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
    }
}

/// Returns `rank 3 has`, or `ranks 3 and 4 have`.
fn have(ranks: &[u32]) -> String {
    format!("{} {}", names(ranks), if ranks.len() > 1 { "have" } else { "has" })
}

/// Returns `rank 3 has waited`, or `ranks 3 and 4 have waited`.
fn waits(ranks: &[u32]) -> String {
    have(ranks) + " waited"
}

/// A duration in seconds, with a tenth.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_bootstrap::{Presence, RankInfo};

    use super::*;
    use crate::status::{CommunicatorStatus, Member, assemble};
    use mscclpp_bootstrap::call_report::ReportedCall;

    const TWO_SECONDS: Duration = Duration::from_secs(2);

    fn report(number: u64, returned: u64, waiting: u64) -> CallReport {
        let (name, at) = (|| "allreduce".to_owned(), || Some("a.rs:1:2".to_owned()));
        let call = |number| ReportedCall {
            number,
            program_number: number,
            id: 7,
            name: name(),
            at: at(),
            ..Default::default()
        };
        let waited = if waiting == 0 { Duration::ZERO } else { TWO_SECONDS };
        let calls = (1..=number).map(call).collect();
        CallReport {
            members: Vec::new(),
            number,
            returned,
            waiting,
            since: TWO_SECONDS,
            waited,
            calls,
            ..CallReport::default()
        }
    }

    fn status(
        ranks: Vec<(Presence, Option<CallReport>)>,
        pending: &[PendingCall],
        failure: Option<&str>,
    ) -> CommunicatorStatus {
        let infos: Vec<_> = (0..ranks.len() as u32).map(RankInfo::unnamed).collect();
        let member = |(info, (presence, report))| Member { info, presence, report };
        assemble(0, infos.iter().zip(ranks).map(member).collect(), pending, failure)
    }

    fn present(report: CallReport) -> (Presence, Option<CallReport>) {
        (Presence::Joined(Duration::ZERO), Some(report))
    }

    #[track_caller]
    fn assert_found(status: &CommunicatorStatus, finding: Finding, ranks: &[u32], text: &str) {
        let verdict = &status.verdict;
        assert_eq!((verdict.finding, &verdict.ranks[..], verdict.text.as_str()), (finding, ranks, text));
    }

    #[test]
    fn each_finding_names_its_ranks() {
        let waits = || present(report(3, 2, 3));
        let found = |ranks| status(ranks, &[], None);
        let late = found(vec![waits(), waits(), present(report(2, 2, 0))]);
        let text = "rank 2 has not made allreduce (call 3) at a.rs:1:2, in which ranks 0 and 1 have waited for 2.0 s; its last \
                    call, allreduce (call 2) at a.rs:1:2, returned 2.0 s ago";
        assert_found(&late, Finding::Late, &[2], text);
        assert_eq!((&late.ranks[0].waits_for[..], late.ranks[2].state), (&[2][..], RankState::BetweenCalls));

        let busy = found(vec![waits(), present(report(3, 2, 0))]);
        let text =
            "rank 1 is in allreduce (call 3) at a.rs:1:2 without waiting or returning; rank 0 has waited for 2.0 s";
        assert_found(&busy, Finding::Busy, &[1], text);
        assert_eq!((&busy.ranks[0].waits_for[..], busy.ranks[1].state), (&[1][..], RankState::InCall));

        let stalled = found(vec![waits(), waits()]);
        let text = "all ranks have waited in allreduce (call 3) at a.rs:1:2 for 2.0 s: its plan is the cause";
        assert_found(&stalled, Finding::Stalled, &[], text);

        let silent = found(vec![waits(), (Presence::Joined(TWO_SECONDS), None)]);
        assert!(silent.verdict.text.starts_with("rank 1 has not answered for 2.0 s: the process is suspended"));
        assert_eq!((silent.verdict.finding, &silent.ranks[0].waits_for[..]), (Finding::Silent, &[1][..]));

        let left = found(vec![waits(), (Presence::Left, None)]);
        assert_found(
            &left,
            Finding::Absent,
            &[1],
            "rank 1 has left or is lost, and others have waited for it for 2.0 s",
        );

        let mut other = report(3, 2, 3);
        other.calls[2].id = 8;
        let differs = found(vec![waits(), waits(), present(other)]);
        let text = "rank 2 makes another call than most ranks: allreduce (call 3) at a.rs:1:2";
        assert_found(&differs, Finding::Mismatch, &[2], text);

        let missing = found(vec![present(report(0, 0, 0)), (Presence::NotJoined(TWO_SECONDS), None)]);
        assert_found(&missing, Finding::NotJoined, &[1], "rank 1 has not joined; the others have waited for 2.0 s");

        let failed = status(vec![waits(), waits()], &[], Some("rank 1 died"));
        assert_found(&failed, Finding::Failed, &[], "the communicator has failed: rank 1 died");
    }

    #[test]
    fn calls_of_the_control_plane_are_waits_too() {
        let entered = vec![(0, "b.rs:3:4".to_owned())];
        let call =
            PendingCall { context: 0, call: "barrier (call 5)".into(), entered, missing: vec![1], waited: TWO_SECONDS };
        let idle = || present(report(2, 2, 0));
        let found = status(vec![idle(), idle()], &[call], None);
        let text = "rank 1 has not entered barrier (call 5) at b.rs:3:4, in which rank 0 has waited for 2.0 s";
        assert_found(&found, Finding::Late, &[1], text);
        let first = &found.ranks[0];
        assert_eq!((first.state, &first.waits_for[..]), (RankState::Waiting, &[1][..]));
        assert_eq!(first.call.as_ref().map(|call| call.text.as_str()), Some("barrier (call 5)"));
    }

    #[test]
    fn short_waits_are_progress() {
        let mut short = report(3, 2, 3);
        short.waited = Duration::from_millis(900);
        let found = status(vec![present(short), present(report(2, 2, 0))], &[], None);
        assert_found(&found, Finding::Progressing, &[], "all ranks progress: none has waited for longer than 1 s");
        assert!(!found.verdict.is_problem());
    }
}
