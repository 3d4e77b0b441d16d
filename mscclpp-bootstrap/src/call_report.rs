//! What ranks report of their last calls, and which rank the others wait for.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::router::odd_one_out;

/// The last calls of a rank in a communicator, as it reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// The ranks of the communicator, as ranks of the job.
    pub members: Vec<u32>,
    /// Number of the last call that it has started, counted from 1.
    pub number: u64,
    /// Number of the last call that has returned.
    pub returned: u64,
    /// The call in which it waits for other ranks; 0 if it does not.
    pub waiting: u64,
    /// Time since the last call started, or returned if it has.
    pub since: Duration,
    /// Time since the last call started.
    pub entered: Duration,
    /// Time for which it has waited in the current call.
    pub waited: Duration,
    /// The last calls.
    pub calls: Vec<ReportedCall>,
    /// Number of the last call on devices, of which ranks compare calls separately, and the time since then.
    pub device_call: u64,
    pub since_device_call: Duration,
}

/// A call of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCall {
    pub number: u64,
    /// Number of the program's call that it is, or that it is a part of, such as the preparation of a plan.
    pub program_number: u64,
    /// Equal on all ranks that make the same call.
    pub id: u64,
    /// What the id is of: it distinguishes calls of the same name, such as those with different plans.
    pub text: String,
    /// `allreduce of 4 KiB f32, sum`
    pub name: String,
    /// Its source location, if known: `src/main.rs:10:5`.
    pub at: Option<String>,
}

impl fmt::Display for ReportedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (call {})", self.name, self.program_number)?;
        self.at.as_ref().map_or(Ok(()), |at| write!(f, " at {at}"))
    }
}

impl CallReport {
    /// Returns the call with a number.
    pub fn call(&self, number: u64) -> Option<&ReportedCall> {
        self.calls.iter().find(|call| call.number == number)
    }

    /// Removes call `number` from the report if it is the last one and started within the last `time`: a rank that came when another
    /// one had waited for the timeout is late, although it has come and may even have done its part.
    pub fn remove_call_entered_within(&mut self, time: Duration, number: u64) {
        if self.number == number && self.entered < time {
            self.number -= 1;
            self.returned = self.returned.min(self.number);
            self.waiting = 0;
        }
    }

    /// Returns whether the rank is in a call.
    pub fn is_in_call(&self) -> bool {
        self.returned < self.number
    }
}

/// Which ranks the others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Culprits {
    /// A rank that does not answer.
    Silent(u32),
    /// A rank that makes another call with this number than most others.
    Differs { number: u64, rank: u32 },
    /// Ranks that have not made a call in which others wait.
    Missing { number: u64, ranks: Vec<u32>, waiting: Vec<u32> },
    /// Ranks that are in a call and neither wait nor return.
    Busy { number: u64, ranks: Vec<u32>, waiting: Vec<u32> },
}

/// Finds the ranks for which others wait in call `number`, directly or through further ranks; `None` if all ranks have
/// started that call and wait in it. `reports`: those of all ranks, without those that did not answer.
pub fn find_culprits(reports: &[Option<CallReport>], number: u64) -> Option<Culprits> {
    let by_rank = || (0_u32..).zip(reports);
    if let Some((rank, _)) = by_rank().find(|(_, report)| report.is_none()) {
        return Some(Culprits::Silent(rank));
    }
    let reports: Vec<_> = by_rank().filter_map(|(rank, report)| Some((rank, report.as_ref()?))).collect();
    let ids: Vec<_> = reports.iter().filter_map(|(rank, report)| Some((*rank, report.call(number)?.id))).collect();
    if let Some((_, rank)) = odd_one_out(&ids) {
        return Some(Culprits::Differs { number, rank });
    }
    let ranks = |condition: &dyn Fn(&CallReport) -> bool| {
        reports.iter().filter(|(_, report)| condition(report)).map(|(rank, _)| *rank).collect::<Vec<u32>>()
    };
    let waiting = |number| ranks(&|report| report.waiting >= number);
    let slowest = reports.iter().map(|(_, report)| report.number).min()?;
    if slowest < number {
        let missing = ranks(&|report| report.number == slowest && !report.is_in_call());
        if !missing.is_empty() {
            let number = slowest + 1;
            return Some(Culprits::Missing { number, ranks: missing, waiting: waiting(number) });
        }
    }
    let busy = ranks(&|report| report.number == slowest && report.is_in_call() && report.waiting < slowest);
    (!busy.is_empty()).then(|| Culprits::Busy { number: slowest, ranks: busy, waiting: waiting(slowest) })
}

/// Returns the text of a call that any of the ranks has reported.
pub fn call_text(reports: &[Option<CallReport>], number: u64) -> String {
    let call = reports.iter().flatten().find_map(|report| report.call(number));
    call.map_or_else(|| format!("call {number}"), ReportedCall::to_string)
}

/// Returns the text of the program's call before the one that call `number` is or is a part of, as any of the ranks has reported it.
pub fn text_of_call_before(reports: &[Option<CallReport>], number: u64) -> Option<String> {
    let before = |report: &CallReport| {
        let of_program = report.call(number)?.program_number;
        report.calls.iter().filter(|call| call.program_number < of_program).max_by_key(|call| call.number).cloned()
    };
    reports.iter().flatten().find_map(before).map(|call| call.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(number: u64, returned: u64, waiting: u64) -> Option<CallReport> {
        let call = |number| ReportedCall { number, id: 7, ..Default::default() };
        Some(CallReport { number, returned, waiting, calls: (1..=number).map(call).collect(), ..Default::default() })
    }

    #[test]
    fn ranks_that_others_wait_for_are_found() {
        let find = |reports: &[_], number| find_culprits(reports, number);
        let waits = || report(3, 2, 3);
        assert_eq!(find(&[waits(), None, waits()], 3), Some(Culprits::Silent(1)));
        let missing = Culprits::Missing { number: 3, ranks: vec![1], waiting: vec![0, 2] };
        assert_eq!(find(&[waits(), report(2, 2, 0), waits()], 3), Some(missing));
        // Rank 1 itself waits in the call before, for rank 2.
        let missing = Culprits::Missing { number: 2, ranks: vec![2], waiting: vec![0, 1] };
        assert_eq!(find(&[waits(), report(2, 1, 2), report(1, 1, 0)], 3), Some(missing));
        let busy = Culprits::Busy { number: 3, ranks: vec![2], waiting: vec![0, 1] };
        assert_eq!(find(&[waits(), waits(), report(3, 2, 0)], 3), Some(busy));
        assert_eq!(find(&[waits(), waits()], 3), None);
        // Rank 1 came after rank 0 had waited for the timeout, in one of the last 20 ms, and has returned.
        let entered = |before, returned| {
            Some(CallReport { entered: Duration::from_millis(before), ..report(3, returned, 3).unwrap() })
        };
        let mut reports = [entered(2000, 2), entered(10, 3), entered(1000, 2)];
        reports.iter_mut().flatten().for_each(|report| report.remove_call_entered_within(Duration::from_millis(20), 3));
        let missing = Culprits::Missing { number: 3, ranks: vec![1], waiting: vec![0, 2] };
        assert_eq!(find(&reports, 3), Some(missing));
        let mut other = waits();
        other.as_mut().unwrap().calls[2].id = 8;
        assert_eq!(find(&[waits(), waits(), other], 3), Some(Culprits::Differs { number: 3, rank: 2 }));
    }
}
