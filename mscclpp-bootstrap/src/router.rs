//! Rank 0's part for all ranks: forwards messages, gathers the data of collective calls, and detects missing ranks.
//!
//! The router is pure: frames and times are its inputs, frames its outputs. Threads of one process call it under a
//! lock; rank 0's connection thread calls it for processes.

mod shrinks;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_bytes::ByteBuf;

use self::shrinks::{Claim, Shrinks};
use super::error::Error;
use super::frame::{Call, Frame, GATHER_BYTES, Malformed};
use super::learned::Learned;
use super::options::MAX_TIMEOUT;
use super::rank_info::RankInfo;
use super::status::PendingCall;

/// A frame, and the ranks that receive it.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// The receivers, each once.
    pub(crate) to: Vec<u32>,
    /// The frame.
    pub(crate) frame: Frame,
}

/// State of all communicators of one job.
#[derive(Debug)]
pub(crate) struct Router {
    members: Arc<[RankInfo]>,
    left: BTreeSet<u32>,
    /// Ranks that died or are unresponsive, and why. All communicators that contain one have failed.
    lost: BTreeMap<u32, Error>,
    /// By communicator and call number.
    gathers: BTreeMap<(u64, u64), Gather>,
    shrinks: Shrinks,
    /// Communicators that have failed, and why.
    failed: BTreeMap<u64, Error>,
    /// Why the whole job has failed, if it has.
    job_failed: Option<Error>,
    /// Failures because of which ranks may end.
    learned: Learned,
}

/// How long a difference between calls waits for more ranks, so that the error names a rank that differs from most others.
const MISMATCH_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// A collective call that some ranks have entered.
#[derive(Debug)]
struct Gather {
    sequence: u64,
    /// Ranks of the communicator.
    group: Vec<u32>,
    /// The ranks that have entered, in the order of time.
    entered: Vec<Entered>,
    /// Data of each rank, by position in `group`.
    parts: Vec<Option<ByteBuf>>,
    bytes: usize,
    /// When the first rank entered.
    since: Instant,
    /// When the first of the waiting ranks stops waiting.
    until: Instant,
    /// When the communicator fails because ranks have made different calls.
    mismatch: Option<Instant>,
}

/// A rank's call.
#[derive(Debug)]
struct Entered {
    rank: u32,
    call: Call,
    /// The call of the program of which it is a part, if it is one.
    part_of: Option<String>,
    /// Its source location.
    place: String,
}

impl Router {
    /// Creates a router for `members`.
    pub(crate) fn new(members: Arc<[RankInfo]>) -> Self {
        Self {
            members,
            left: BTreeSet::new(),
            lost: BTreeMap::new(),
            gathers: BTreeMap::new(),
            shrinks: Shrinks::default(),
            failed: BTreeMap::new(),
            job_failed: None,
            learned: Learned::default(),
        }
    }

    /// Processes a frame from rank `from`.
    pub(crate) fn route(&mut self, from: u32, frame: Frame, now: Instant, out: &mut Vec<Delivery>) {
        match frame {
            // The connection determines the sender, not the frame.
            Frame::Message { to, context, tag, bytes, .. } if (to as usize) < self.members.len() => {
                if !self.has_failed() && !self.failed.contains_key(&context) && !self.is_absent(to) {
                    out.push(Delivery { to: vec![to], frame: Frame::Message { from, to, context, tag, bytes } });
                }
            }
            Frame::Query { context, id, group, .. }
                if group.iter().all(|rank| (*rank as usize) < self.members.len()) =>
            {
                let mut to = if group.is_empty() { self.present(None) } else { group };
                to.retain(|rank| *rank != from && !self.is_absent(*rank));
                to.sort_unstable();
                to.dedup();
                if !self.has_failed() && !self.failed.contains_key(&context) {
                    out.push(Delivery { to, frame: Frame::Query { from, context, id, group: Vec::new() } });
                }
            }
            Frame::Report { to, context, id, bytes, .. } if (to as usize) < self.members.len() => {
                if !self.has_failed() && !self.is_absent(to) {
                    out.push(Delivery { to: vec![to], frame: Frame::Report { from, to, context, id, bytes } });
                }
            }
            Frame::EnterCollective { context, sequence, call, part_of, place, group, timeout, bytes } => {
                if !self.failed.contains_key(&context) {
                    self.learned.forget(from);
                }
                let group = if group.is_empty() { (0..self.members.len() as u32).collect() } else { group };
                let entered = Entered { rank: from, call, part_of, place };
                let entry = Entry { entered, group: group.clone(), bytes, now, until: now + timeout.min(MAX_TIMEOUT) };
                match self.enter_collective((context, sequence), entry) {
                    Ok(Some(delivery)) => out.push(delivery),
                    Ok(None) => {}
                    Err(error @ Error::Protocol { .. }) => self.fail(error, out),
                    Err(error) => self.fail_communicator(context, group, error, now, out),
                }
            }
            Frame::EnterShrink { context, group, mut lost, has_failed, timeout } => {
                self.learned.forget(from);
                lost.sort_unstable();
                lost.dedup();
                let (group, until) = (self.group_of(from, group), now + timeout.min(MAX_TIMEOUT));
                match group {
                    Ok(_) if self.has_failed() => {}
                    Ok(group) => self.enter_shrink(context, from, Claim { group, lost, has_failed, now, until }, out),
                    Err(error) => self.fail(error, out),
                }
            }
            Frame::Leave { .. } => self.leave(from, now, out),
            Frame::Failed(error) => self.fail(error, out),
            Frame::CommunicatorFailed { context, group, error } => {
                self.fail_communicator(context, group, error, now, out);
            }
            Frame::Lost { rank, error } => self.lose(rank, error, now, out),
            Frame::CallFailed(error) => {
                self.record_learned(&[from], &error, now);
                if from == 0 {
                    out.push(Delivery { to: self.present(Some(0)), frame: Frame::CallFailed(error) });
                }
            }
            Frame::Heartbeat | Frame::LeaveAck => {}
            _ => self.fail(Malformed::Unexpected("a message or a call").of(&self.members[from as usize]), out),
        }
    }

    /// Fails all communicators of the job. Only the first reason counts.
    pub(crate) fn fail(&mut self, error: Error, out: &mut Vec<Delivery>) {
        if self.job_failed.is_none() {
            self.job_failed = Some(error.clone());
            self.gathers.clear();
            self.shrinks.clear();
            out.push(Delivery { to: self.present(None), frame: Frame::Failed(error) });
        }
    }

    /// Fails a communicator of some ranks, or with none of all. Only the first reason counts.
    pub(crate) fn fail_communicator(
        &mut self,
        context: u64,
        group: Vec<u32>,
        error: Error,
        now: Instant,
        out: &mut Vec<Delivery>,
    ) {
        if !self.has_failed() && !self.failed.contains_key(&context) {
            let error = self.learned.with_cause(error, now);
            self.record_learned(&group, &error, now);
            self.failed.insert(context, error.clone());
            self.gathers.retain(|(other, _), _| *other != context);
            out.push(Delivery { to: self.present(None), frame: Frame::CommunicatorFailed { context, group, error } });
        }
    }

    /// Fails all communicators that contain a lost rank.
    pub(crate) fn lose(&mut self, rank: u32, error: Error, now: Instant, out: &mut Vec<Delivery>) {
        if self.has_failed() || rank as usize >= self.members.len() || self.lost.contains_key(&rank) {
            return;
        }
        let error = self.learned.with_cause(error, now);
        // The communicator of the job, which has all ranks, has failed.
        self.record_learned(&[], &error, now);
        self.lost.insert(rank, error.clone());
        self.gathers.retain(|_, gather| !gather.group.contains(&rank));
        out.push(Delivery { to: self.present(None), frame: Frame::Lost { rank, error } });
        self.complete_shrinks(out);
    }

    /// Records that the ranks of a communicator, or with none all ranks, learn of a failure.
    fn record_learned(&mut self, group: &[u32], error: &Error, now: Instant) {
        let ranks = self.members.len() as u32;
        let all = (0..ranks).filter(|_| group.is_empty());
        self.learned.record(all.chain(group.iter().copied().filter(|rank| *rank < ranks)), error, now);
    }

    /// Returns whether the whole job has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.job_failed.is_some()
    }

    /// Returns why the job and its communicators have failed; `None` is the job.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Option<u64>, &Error)> {
        let failed = self.failed.iter().map(|(context, error)| (Some(*context), error));
        self.job_failed.iter().map(|error| (None, error)).chain(failed)
    }

    /// Returns why a rank is lost, if it is.
    pub(crate) fn loss(&self, rank: u32) -> Option<&Error> {
        self.lost.get(&rank)
    }

    /// Returns the calls that some ranks have entered and others have not.
    pub(crate) fn pending_calls(&self, now: Instant) -> Vec<PendingCall> {
        let pending = |(&(context, _), gather): (&(u64, u64), &Gather)| PendingCall {
            context,
            call: gather.name(),
            entered: gather.entered.iter().map(|one| (one.rank, one.place.clone())).collect(),
            missing: gather.missing_ranks().collect(),
            waited: now.saturating_duration_since(gather.since),
        };
        self.gathers.iter().map(pending).collect()
    }

    /// Returns whether a rank is lost.
    pub(crate) fn is_lost(&self, rank: u32) -> bool {
        self.lost.contains_key(&rank)
    }

    /// Returns whether a rank is lost or has left.
    pub(crate) fn is_absent(&self, rank: u32) -> bool {
        self.left.contains(&rank) || self.lost.contains_key(&rank)
    }

    /// Fails a communicator if a call has waited for longer than its timeout.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let mut gathers = self.gathers.iter();
        if let Some((&(context, _), gather)) = gathers.find(|(_, gather)| gather.mismatch.is_some_and(|at| now >= at)) {
            let (group, error) = (gather.group.clone(), self.mismatch_error(gather));
            self.fail_communicator(context, group, error, now, out);
        }
        let late = self.gathers.iter().find(|(_, gather)| gather.mismatch.is_none() && now >= gather.until);
        if let Some((&(context, _), gather)) = late {
            let missing = gather.missing_ranks().map(|rank| self.members[rank as usize].clone()).collect();
            let (call, waiting, waited) = (gather.name(), gather.present().collect(), gather.until - gather.since);
            let error = Error::CollectiveTimeout { call, missing, waiting, waited, last_call: None };
            self.fail_communicator(context, gather.group.clone(), error, now, out);
        }
        self.expire_shrinks(now, out);
    }

    /// Returns the earliest time at which [`expire`](Self::expire) can fail a call.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let expiries = self.gathers.values().map(|gather| gather.mismatch.unwrap_or(gather.until));
        expiries.chain(self.shrinks.next_expiry()).min()
    }

    /// Returns the error of a call in which ranks differ. It names a rank that differs from most others.
    fn mismatch_error(&self, gather: &Gather) -> Error {
        let calls: Vec<_> = gather.entered.iter().map(|entered| (entered.rank, entered.call)).collect();
        let text = |rank: u32| gather.entered.iter().find(|entered| entered.rank == rank).map(|it| gather.text(it));
        let (first, second) = odd_one_out(&calls).unwrap_or_default();
        Error::Mismatch {
            first: Box::new(self.members[first as usize].clone()),
            first_call: text(first).unwrap_or_default(),
            second: Box::new(self.members[second as usize].clone()),
            second_call: text(second).unwrap_or_default(),
        }
    }

    fn leave(&mut self, rank: u32, now: Instant, out: &mut Vec<Delivery>) {
        if !self.left.insert(rank) {
            return;
        }
        let waits = self.gathers.iter().find(|(_, gather)| gather.missing_ranks().any(|missing| missing == rank));
        let error = waits.map(|(&(context, _), gather)| {
            (context, gather.group.clone(), self.rank_left_error(rank, gather.first(), gather.name()))
        });
        out.push(Delivery { to: self.present(Some(rank)), frame: Frame::Leave { rank } });
        if let Some((context, group, error)) = error {
            self.fail_communicator(context, group, error, now, out);
        }
        self.complete_shrinks(out);
    }

    fn rank_left_error(&self, rank: u32, waiting: u32, call: String) -> Error {
        Error::RankLeft { who: Box::new(self.members[rank as usize].clone()), waiting: Some(waiting), call }
    }

    /// Returns the ranks that have not left, other than `rank`.
    fn present(&self, rank: Option<u32>) -> Vec<u32> {
        let ranks = 0..self.members.len() as u32;
        ranks.filter(|other| Some(*other) != rank && !self.left.contains(other)).collect()
    }

    /// Checks the ranks of a communicator on which `from` makes a call.
    fn group_of(&self, from: u32, group: Vec<u32>) -> Result<Vec<u32>, Error> {
        let wrong = |what: &str| Error::Protocol { peer: self.members[from as usize].to_string(), what: what.into() };
        let ranks = self.members.len() as u32;
        if group.len() > ranks as usize || group.iter().any(|rank| *rank >= ranks) {
            return Err(wrong("a communicator has ranks that are not in the job"));
        }
        if !group.contains(&from) {
            return Err(wrong("it made a call on a communicator that it is not a member of"));
        }
        Ok(group)
    }

    fn enter_collective(&mut self, key: (u64, u64), entry: Entry) -> Result<Option<Delivery>, Error> {
        let Entry { entered, group, bytes, now, until } = entry;
        let from = entered.rank;
        let group = self.group_of(from, group)?;
        // The failure has been sent to all ranks of the communicator.
        let is_lost = |rank: &u32| self.lost.contains_key(rank);
        if self.has_failed() || self.failed.contains_key(&key.0) || group.iter().any(is_lost) {
            return Ok(None);
        }
        let wrong =
            |what: &str| Error::Protocol { peer: self.members[from as usize].to_string(), what: what.to_owned() };
        let position = group.iter().position(|rank| *rank == from).unwrap_or(0);
        let gather = self.gathers.entry(key).or_insert_with(|| Gather {
            sequence: key.1,
            entered: Vec::new(),
            parts: vec![None; group.len()],
            group: group.clone(),
            bytes: 0,
            since: now,
            until,
            mismatch: None,
        });
        gather.until = gather.until.min(until);
        if gather.group != group || gather.parts[position].is_some() {
            return Err(wrong("it entered a call twice, or with another communicator"));
        }
        gather.bytes += bytes.len();
        if gather.bytes > GATHER_BYTES {
            let call = gather.name();
            return Err(Error::TooLarge { call, bytes: gather.bytes as u64, limit: GATHER_BYTES as u64 });
        }
        if gather.entered.first().is_some_and(|first| first.call != entered.call) {
            gather.mismatch.get_or_insert(now + MISMATCH_GRACE_PERIOD);
        }
        gather.entered.push(entered);
        gather.parts[position] = Some(bytes);
        let is_complete = gather.parts.iter().all(Option::is_some);
        let gather = &self.gathers[&key];
        if gather.mismatch.is_some() {
            return if is_complete { Err(self.mismatch_error(gather)) } else { Ok(None) };
        }
        if !is_complete {
            let gone = gather.missing_ranks().find(|rank| self.left.contains(rank));
            return match gone {
                Some(rank) => Err(self.rank_left_error(rank, from, gather.name())),
                None => Ok(None),
            };
        }
        let done = self.gathers.remove(&key);
        Ok(done.map(|gather| Delivery {
            to: gather.group,
            frame: Frame::Gathered {
                context: key.0,
                sequence: key.1,
                parts: gather.parts.into_iter().flatten().collect(),
            },
        }))
    }
}

/// A rank's part of a collective call.
struct Entry {
    entered: Entered,
    group: Vec<u32>,
    bytes: ByteBuf,
    now: Instant,
    until: Instant,
}

/// Returns, of ranks with their calls, the lowest rank whose call most ranks make, and the lowest rank with another call;
/// `None` if all make the same call. Of two calls that equally many ranks make, the one of the lowest rank counts as that
/// of most.
pub fn odd_one_out<C: PartialEq>(calls: &[(u32, C)]) -> Option<(u32, u32)> {
    let count = |call: &C| calls.iter().filter(|(_, other)| other == call).count();
    let (first, most) = calls.iter().max_by_key(|(rank, call)| (count(call), std::cmp::Reverse(*rank)))?;
    let second = calls.iter().filter(|(_, call)| call != most).map(|(rank, _)| *rank).min()?;
    Some((*first, second))
}

impl Gather {
    fn missing_ranks(&self) -> impl Iterator<Item = u32> {
        self.group.iter().zip(&self.parts).filter(|(_, part)| part.is_none()).map(|(rank, _)| *rank)
    }

    fn present(&self) -> impl Iterator<Item = u32> {
        self.group.iter().zip(&self.parts).filter(|(_, part)| part.is_some()).map(|(rank, _)| *rank)
    }

    /// Returns the rank that entered first.
    fn first(&self) -> u32 {
        self.entered.first().map_or(0, |entered| entered.rank)
    }

    fn text(&self, entered: &Entered) -> String {
        match &entered.part_of {
            Some(call) => format!("{call} at {}", entered.place),
            None => format!("{} (call {}) at {}", entered.call, self.sequence, entered.place),
        }
    }

    /// Returns the call of the rank that entered first.
    fn name(&self) -> String {
        self.entered.first().map_or_else(String::new, |entered| self.text(entered))
    }
}

#[cfg(test)]
mod tests;
