//! Rank 0's part for all ranks: forwards messages, gathers the data of collective calls, and detects missing ranks.
//!
//! The router is pure: frames and times are its inputs, frames its outputs. Threads of one process call it under a
//! lock; rank 0's connection thread calls it for processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_bytes::ByteBuf;

use super::error::Error;
use super::frame::{Call, Frame, GATHER_BYTES, Malformed};
use super::rank_info::RankInfo;

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
    timeout: Duration,
    left: BTreeSet<u32>,
    /// By communicator and call number.
    gathers: BTreeMap<(u64, u64), Gather>,
    failed: bool,
}

/// A collective call that some ranks have entered.
#[derive(Debug)]
struct Gather {
    call: Call,
    sequence: u64,
    /// Ranks of the communicator.
    group: Vec<u32>,
    /// Data of each rank, by position in `group`.
    parts: Vec<Option<ByteBuf>>,
    bytes: usize,
    /// The rank that entered first, and when.
    first: u32,
    since: Instant,
}

impl Router {
    /// Creates a router for `members`, whose calls wait at most `timeout` for other ranks.
    pub(crate) fn new(members: Arc<[RankInfo]>, timeout: Duration) -> Self {
        Self { members, timeout, left: BTreeSet::new(), gathers: BTreeMap::new(), failed: false }
    }

    /// Processes a frame from rank `from`.
    pub(crate) fn route(&mut self, from: u32, frame: Frame, now: Instant, out: &mut Vec<Delivery>) {
        match frame {
            // The connection determines the sender, not the frame.
            Frame::Message { to, context, tag, bytes, .. } if (to as usize) < self.members.len() => {
                if !self.failed && !self.left.contains(&to) {
                    out.push(Delivery { to: vec![to], frame: Frame::Message { from, to, context, tag, bytes } });
                }
            }
            Frame::EnterCollective { context, sequence, call, group, bytes } => {
                let arrived = self.enter_collective(from, (context, sequence), call, group, bytes, now);
                match arrived {
                    Ok(Some(delivery)) => out.push(delivery),
                    Ok(None) => {}
                    Err(error) => self.fail(error, out),
                }
            }
            Frame::Leave { .. } => self.leave(from, out),
            Frame::Failed(error) => self.fail(error, out),
            Frame::Heartbeat | Frame::LeaveAck => {}
            _ => self.fail(Malformed::Unexpected("a message or a call").of(&self.members[from as usize]), out),
        }
    }

    /// Fails the communicator on all its ranks. Only the first reason counts.
    pub(crate) fn fail(&mut self, error: Error, out: &mut Vec<Delivery>) {
        if !std::mem::replace(&mut self.failed, true) {
            self.gathers.clear();
            out.push(Delivery { to: self.present(None), frame: Frame::Failed(error) });
        }
    }

    /// Returns whether the communicator has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Fails the communicator if a call has waited longer than the timeout.
    pub(crate) fn expire(&mut self, now: Instant, out: &mut Vec<Delivery>) {
        let late = self.gathers.values().find(|gather| now >= gather.since + self.timeout);
        if let Some(gather) = late {
            let missing = gather.missing_ranks().map(|rank| self.members[rank as usize].clone()).collect();
            let waiting = gather.present().collect();
            let call = gather.name();
            self.fail(Error::CollectiveTimeout { call, missing, waiting, waited: self.timeout }, out);
        }
    }

    /// Returns the earliest time at which [`expire`](Self::expire) can fail the communicator.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.gathers.values().map(|gather| gather.since + self.timeout).min()
    }

    fn leave(&mut self, rank: u32, out: &mut Vec<Delivery>) {
        if !self.left.insert(rank) {
            return;
        }
        let waits =
            self.gathers.values().find(|gather| gather.missing_ranks().any(|missing_ranks| missing_ranks == rank));
        let error = waits.map(|gather| self.rank_left_error(rank, gather.first, gather.name()));
        out.push(Delivery { to: self.present(Some(rank)), frame: Frame::Leave { rank } });
        if let Some(error) = error {
            self.fail(error, out);
        }
    }

    fn rank_left_error(&self, rank: u32, waiting: u32, call: String) -> Error {
        Error::RankLeft { who: Box::new(self.members[rank as usize].clone()), waiting, call }
    }

    /// Returns the ranks that have not left, other than `rank`.
    fn present(&self, rank: Option<u32>) -> Vec<u32> {
        let ranks = 0..self.members.len() as u32;
        ranks.filter(|other| Some(*other) != rank && !self.left.contains(other)).collect()
    }

    fn enter_collective(
        &mut self,
        from: u32,
        key: (u64, u64),
        call: Call,
        group: Vec<u32>,
        bytes: ByteBuf,
        now: Instant,
    ) -> Result<Option<Delivery>, Error> {
        if self.failed {
            return Ok(None);
        }
        let who = |rank: u32| Box::new(self.members[rank as usize].clone());
        let wrong = |what: &str| Error::Protocol { peer: who(from).to_string(), what: what.into() };
        let ranks = self.members.len() as u32;
        let group = if group.is_empty() { (0..ranks).collect() } else { group };
        if group.len() > ranks as usize || group.iter().any(|rank| *rank >= ranks) {
            return Err(wrong("a communicator has ranks that are not in the job"));
        }
        let Some(position) = group.iter().position(|rank| *rank == from) else {
            return Err(wrong("it made a call on a communicator that it is not a member of"));
        };
        let gather = self.gathers.entry(key).or_insert_with(|| Gather {
            call,
            sequence: key.1,
            parts: vec![None; group.len()],
            group: group.clone(),
            bytes: 0,
            first: from,
            since: now,
        });
        if gather.call != call {
            let calls = |call: Call| format!("{call} (call {})", key.1);
            return Err(Error::Mismatch {
                first: who(gather.first),
                first_call: calls(gather.call),
                second: who(from),
                second_call: calls(call),
            });
        }
        if gather.group != group || gather.parts[position].is_some() {
            return Err(wrong("it entered a call twice, or with another communicator"));
        }
        gather.bytes += bytes.len();
        if gather.bytes > GATHER_BYTES {
            let call = gather.name();
            return Err(Error::TooLarge { call, bytes: gather.bytes as u64, limit: GATHER_BYTES as u64 });
        }
        gather.parts[position] = Some(bytes);
        if gather.parts.iter().any(Option::is_none) {
            let gone = gather.missing_ranks().find(|rank| self.left.contains(rank));
            return match gone {
                Some(rank) => Err(self.rank_left_error(rank, from, self.gathers[&key].name())),
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

impl Gather {
    fn missing_ranks(&self) -> impl Iterator<Item = u32> {
        self.group.iter().zip(&self.parts).filter(|(_, part)| part.is_none()).map(|(rank, _)| *rank)
    }

    fn present(&self) -> impl Iterator<Item = u32> {
        self.group.iter().zip(&self.parts).filter(|(_, part)| part.is_some()).map(|(rank, _)| *rank)
    }

    fn name(&self) -> String {
        format!("{} (call {})", self.call, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn router(ranks: u32) -> Router {
        let members: Vec<_> = (0..ranks).map(|rank| RankInfo::this(rank, None)).collect();
        Router::new(members.into(), Duration::from_secs(1))
    }

    fn enter_collective(call: Call, bytes: &[u8]) -> Frame {
        Frame::EnterCollective { context: 0, sequence: 0, call, group: Vec::new(), bytes: ByteBuf::from(bytes) }
    }

    fn failure(out: &[Delivery]) -> &Error {
        match out {
            [.., Delivery { frame: Frame::Failed(error), .. }] => error,
            other => panic!("no failure in {other:?}"),
        }
    }

    #[test]
    fn last_rank_to_enter_completes_the_call() {
        let (mut router, mut out, now) = (router(3), Vec::new(), Instant::now());
        for rank in [2, 0, 1] {
            assert!(out.is_empty());
            router.route(rank, enter_collective(Call::AllGather, &[rank as u8]), now, &mut out);
        }
        assert_eq!(out[0].to, [0, 1, 2]);
        let parts = (0..3).map(|rank| ByteBuf::from([rank])).collect();
        assert_eq!(out[0].frame, Frame::Gathered { context: 0, sequence: 0, parts });
        assert_eq!(router.next_expiry(), None);
    }

    #[test]
    fn expired_call_reports_missing_ranks() {
        let (mut router, mut out, now) = (router(3), Vec::new(), Instant::now());
        router.route(0, enter_collective(Call::Barrier, &[]), now, &mut out);
        router.route(2, enter_collective(Call::Barrier, &[]), now, &mut out);
        router.expire(now + Duration::from_millis(999), &mut out);
        assert!(out.is_empty());
        router.expire(now + Duration::from_secs(1), &mut out);
        match failure(&out) {
            Error::CollectiveTimeout { missing, waiting, .. } => {
                assert_eq!(missing.iter().map(|member| member.rank).collect::<Vec<_>>(), [1]);
                assert_eq!(waiting[..], [0, 2]);
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn different_calls_are_both_reported() {
        let (mut router, mut out, now) = (router(2), Vec::new(), Instant::now());
        router.route(1, enter_collective(Call::Barrier, &[]), now, &mut out);
        router.route(0, enter_collective(Call::Broadcast { root: 1 }, &[]), now, &mut out);
        let text = failure(&out).to_string();
        assert!(text.contains("calls barrier") && text.contains("calls broadcast from rank 1"), "{text}");
    }

    #[test]
    fn call_without_a_left_rank_fails_in_both_orders() {
        for left_first in [true, false] {
            let (mut router, mut out, now) = (router(2), Vec::new(), Instant::now());
            let steps = [(1, Frame::Leave { rank: 1 }), (0, enter_collective(Call::Barrier, &[]))];
            let order = if left_first { [0, 1] } else { [1, 0] };
            for step in order {
                let (from, frame) = steps[step].clone();
                router.route(from, frame, now, &mut out);
            }
            assert!(matches!(failure(&out), Error::RankLeft { who, waiting: 0, .. } if who.rank == 1));
        }
    }

    #[test]
    fn sender_is_determined_by_its_connection() {
        let (mut router, mut out) = (router(3), Vec::new());
        let forged = Frame::Message { from: 0, to: 2, context: 0, tag: 0, bytes: vec![] };
        router.route(1, forged, Instant::now(), &mut out);
        assert!(matches!(out[..], [Delivery { frame: Frame::Message { from: 1, .. }, .. }]));
    }

    #[test]
    fn unexpected_frame_fails_the_communicator() {
        let strange = [
            Frame::Message { from: 0, to: 9, context: 0, tag: 0, bytes: vec![] },
            Frame::Roster(vec![]),
            Frame::EnterCollective {
                context: 1,
                sequence: 0,
                call: Call::Barrier,
                group: vec![7],
                bytes: ByteBuf::new(),
            },
            Frame::EnterCollective {
                context: 1,
                sequence: 0,
                call: Call::Barrier,
                group: vec![1],
                bytes: ByteBuf::new(),
            },
        ];
        for frame in strange {
            let (mut router, mut out) = (router(2), Vec::new());
            router.route(0, frame, Instant::now(), &mut out);
            assert!(matches!(failure(&out), Error::Protocol { .. }));
            assert!(router.has_failed());
        }
    }
}
