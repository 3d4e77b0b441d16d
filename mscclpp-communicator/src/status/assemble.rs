//! Puts the reports of ranks together.

use std::collections::BTreeMap;

use mscclpp_bootstrap::{JobReport, PendingCall, Presence, RankInfo};

use super::verdict::verdict;
use super::{CallStatus, CommunicatorStatus, RankState, RankStatus};
use mscclpp_bootstrap::call_report::CallReport;

/// A rank of a communicator, and what is known of it.
pub(crate) struct Member<'a> {
    /// Its identity, with its rank in the job.
    pub(crate) info: &'a RankInfo,
    pub(crate) presence: Presence,
    /// `None`: it did not answer.
    pub(crate) report: Option<CallReport>,
}

/// Returns the states of all communicators that have made calls, that of the whole job first.
pub(super) fn communicators(job: &JobReport) -> Vec<CommunicatorStatus> {
    let mut by_rank: Vec<BTreeMap<u64, CallReport>> = Vec::new();
    let mut groups = BTreeMap::from([(0, (0..job.ranks.len() as u32).collect::<Vec<_>>())]);
    for rank in &job.ranks {
        let decode = |bytes: &[u8]| postcard::from_bytes::<CallReport>(bytes).ok();
        let reports = rank.reports.iter().flatten();
        let reports: BTreeMap<_, _> =
            reports.filter_map(|report| Some((report.context, decode(&report.bytes)?))).collect();
        for (context, report) in &reports {
            let is_valid = report.members.iter().all(|member| (*member as usize) < job.ranks.len());
            if is_valid {
                groups.entry(*context).or_insert_with(|| report.members.clone());
            }
        }
        by_rank.push(reports);
    }
    let communicator = |(number, members): (u64, Vec<u32>)| {
        let member = |rank: u32| {
            let known = &job.ranks[rank as usize];
            // A rank that answers, but has not made a call, has nothing to report.
            let report =
                known.reports.as_ref().map(|_| by_rank[rank as usize].get(&number).cloned().unwrap_or_default());
            Member { info: &known.info, presence: known.presence.clone(), report }
        };
        let own = |rank: u32| members.iter().position(|member| *member == rank).map(|position| position as u32);
        let pending = job.pending.iter().filter(|call| call.context == number);
        let pending: Vec<_> = pending.map(|call| in_communicator(call, &own)).collect();
        let failure = job.failures.iter().find(|(context, _)| context.is_none_or(|context| context == number));
        let members = members.iter().map(|rank| member(*rank)).collect();
        assemble(number, members, &pending, failure.map(|(_, failure)| failure.as_str()))
    };
    groups.into_iter().map(communicator).collect()
}

/// Returns a call with the ranks of its communicator in place of those of the job.
fn in_communicator(call: &PendingCall, own: &impl Fn(u32) -> Option<u32>) -> PendingCall {
    PendingCall {
        entered: call.entered.iter().filter_map(|(rank, at)| Some((own(*rank)?, at.clone()))).collect(),
        missing: call.missing.iter().filter_map(|rank| own(*rank)).collect(),
        ..call.clone()
    }
}

/// Returns the state of a communicator. `pending`: its calls of the control plane, with ranks of the communicator.
pub(crate) fn assemble(
    number: u64,
    members: Vec<Member<'_>>,
    pending: &[PendingCall],
    failure: Option<&str>,
) -> CommunicatorStatus {
    let reports: Vec<_> = members.iter().map(|member| member.report.clone()).collect();
    let ranks: Vec<_> =
        (0..).zip(&members).map(|(rank, member)| rank_status(rank, member, &reports, pending)).collect();
    let verdict = verdict(&ranks, &reports, pending, failure);
    CommunicatorStatus { number, ranks, verdict }
}

fn rank_status(rank: u32, member: &Member<'_>, reports: &[Option<CallReport>], pending: &[PendingCall]) -> RankStatus {
    let (info, report) = (member.info, member.report.as_ref());
    let entered = pending.iter().find_map(|call| {
        let (_, at) = call.entered.iter().find(|(entered, _)| *entered == rank)?;
        Some((call, CallStatus { text: call.call.clone(), at: Some(at.clone()).filter(|at| !at.is_empty()) }))
    });
    let (state, duration) = match (&member.presence, report, &entered) {
        (Presence::NotJoined(time), ..) => (RankState::NotJoined, Some(*time)),
        (Presence::Left, ..) => (RankState::Left, None),
        (Presence::Lost(_), ..) => (RankState::Lost, None),
        (Presence::Joined(silent), None, _) => (RankState::Silent, Some(*silent)),
        (_, Some(report), _) if report.waiting != 0 => (RankState::Waiting, Some(report.waited)),
        (_, Some(_), Some((call, _))) => (RankState::Waiting, Some(call.waited)),
        (_, Some(report), None) if report.is_in_call() => (RankState::InCall, Some(report.since)),
        (_, Some(report), None) => (RankState::BetweenCalls, (report.number > 0).then_some(report.since)),
    };
    let last = report.and_then(|report| report.call(report.number));
    let last = last
        .map(|call| CallStatus { text: format!("{} (call {})", call.name, call.program_number), at: call.at.clone() });
    let waits_for = match (state, report, &entered) {
        (RankState::Waiting, Some(report), _) if report.waiting != 0 => awaited(rank, report.waiting, reports),
        (RankState::Waiting, _, Some((call, _))) => call.missing.clone(),
        _ => Vec::new(),
    };
    let is_in_call = report.is_some_and(CallReport::is_in_call);
    let call = entered.filter(|_| !is_in_call).map(|(_, call)| call).or(last);
    let (job_rank, pid, host) = (info.rank, info.pid, info.hostname.clone());
    RankStatus { rank, job_rank, pid, host, state, duration, call, waits_for }
}

/// Returns the ranks for which `rank` waits in a call: those that have not started it, or else those that are in it and neither
/// wait nor return.
fn awaited(rank: u32, number: u64, reports: &[Option<CallReport>]) -> Vec<u32> {
    let ranks = |condition: &dyn Fn(Option<&CallReport>) -> bool| -> Vec<u32> {
        let others = (0..).zip(reports).filter(|(other, report)| *other != rank && condition(report.as_ref()));
        others.map(|(other, _)| other).collect()
    };
    let missing = ranks(&|report| report.is_none_or(|report| report.number < number));
    if missing.is_empty() {
        return ranks(&|report| {
            report.is_some_and(|report| report.number == number && report.is_in_call() && report.waiting == 0)
        });
    }
    missing
}
