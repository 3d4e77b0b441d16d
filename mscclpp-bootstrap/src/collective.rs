//! Collective calls, messages and streams between the ranks of a communicator.

use std::net::TcpStream;
use std::panic::Location;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use serde_bytes::ByteBuf;

use super::error::Error;
use super::failure_times::CAUSE_GRACE_PERIOD;
use super::frame::{Call, Frame, GATHER_BYTES, MESSAGE_BYTES};
use super::group::Bootstrap;
use super::inbox::{KeyedStream, State};
use super::mac::StreamKeys;
use super::place;
use super::rank_info::RankInfo;
use super::timeout::ActiveTimeout;

/// How much longer than the timeout a rank waits for rank 0 to report the missing ranks.
pub(super) const ROOT_GRACE_PERIOD: Duration = Duration::from_secs(5);
/// Minimum duration of a wait for the next timeout of ranks that are threads.
const MIN_WAIT: Duration = Duration::from_millis(1);

impl Bootstrap {
    /// Returns the data of each rank, in the order of ranks. Lengths may differ between ranks.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more bytes than [`max_gather_bytes`](Self::max_gather_bytes), which affects this rank
    /// alone. Any other error fails the communicator: [`Error::CollectiveTimeout`] names the ranks that did not enter
    /// the call, [`Error::Mismatch`] two ranks that make different calls, and the other errors the rank that died or left.
    #[track_caller]
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let parts = self.gather(Call::AllGather, bytes, Location::caller())?;
        Ok(parts.into_iter().map(ByteBuf::into_vec).collect())
    }

    /// Returns the maximum number of bytes that each rank may pass to a collective call: 16 MiB divided by the number
    /// of ranks.
    pub fn max_gather_bytes(&self) -> usize {
        GATHER_BYTES / self.group.len()
    }

    /// Waits until all ranks have entered this call.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        self.gather(Call::Barrier, &[], Location::caller()).map(drop)
    }

    /// Does what [`all_gather`](Self::all_gather) does for a rank that knows more about the others than rank 0, which only knows which ranks
    /// have not entered: they may wait for other ranks. When this rank has waited for `timeout`, `find_cause` finds out for whom.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and what `find_cause` returns.
    #[doc(hidden)]
    #[track_caller]
    pub fn all_gather_within(
        &self,
        bytes: &[u8],
        timeout: Duration,
        find_cause: &dyn Fn() -> Option<Error>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let waits = Waits { timeout, find_cause: Some(find_cause) };
        let (_, parts) = self.gather_waiting(Call::AllGather, bytes, Location::caller(), &waits)?;
        Ok(parts.into_iter().map(ByteBuf::into_vec).collect())
    }

    /// Does what [`barrier`](Self::barrier) does, with the timeout and the cause of
    /// [`all_gather_within`](Self::all_gather_within).
    ///
    /// # Errors
    /// As [`all_gather_within`](Self::all_gather_within).
    #[doc(hidden)]
    #[track_caller]
    pub fn barrier_within(&self, timeout: Duration, find_cause: &dyn Fn() -> Option<Error>) -> Result<(), Error> {
        let waits = Waits { timeout, find_cause: Some(find_cause) };
        self.gather_waiting(Call::Barrier, &[], Location::caller(), &waits).map(drop)
    }

    /// Returns the data of rank `root` on all ranks. The other ranks' data is ignored.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and [`Error::NoSuchRank`].
    #[track_caller]
    pub fn broadcast(&self, root: u32, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        self.rank_info(root)?;
        let bytes = if root == self.rank { bytes } else { &[] };
        let mut parts = self.gather(Call::Broadcast { root }, bytes, Location::caller())?;
        Ok(parts.swap_remove(root as usize).into_vec())
    }

    /// Returns whether `flag` is true on all ranks, the same on all of them: for ranks that must know whether each of them has
    /// succeeded, for example before they continue with the next step. A rank whose earlier call failed gets that failure here, and
    /// so do all others. Only the end of rank 0 while it answers can still let some ranks learn the result and others the
    /// failure.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    #[track_caller]
    pub fn agree(&self, flag: bool) -> Result<bool, Error> {
        Ok(self.gather(Call::Agree, &[u8::from(flag)], Location::caller())?.iter().all(|part| part[..] == [1]))
    }

    /// Compares named values between all ranks. The names and their order have to be equal as well.
    ///
    /// # Errors
    /// [`Error::ConfigMismatch`] on all ranks, with the first difference from rank 0 and both values; otherwise as
    /// [`all_gather`](Self::all_gather).
    #[track_caller]
    pub fn compare(&self, values: &[(&str, &str)]) -> Result<(), Error> {
        let bytes = postcard::to_allocvec(values).map_err(|error| Error::System {
            what: "cannot encode the values to compare".into(),
            reason: error.to_string(),
        })?;
        let parts = self.gather(Call::Compare, &bytes, Location::caller())?;
        let mut lists = Vec::with_capacity(parts.len());
        for (rank, part) in parts.iter().enumerate() {
            let list: Vec<(&str, &str)> = postcard::from_bytes(part).map_err(|_| Error::Protocol {
                peer: self.world[self.group[rank] as usize].to_string(),
                what: "cannot decode the values to compare".into(),
            })?;
            lists.push(list);
        }
        let Some(difference) = first_difference(&lists) else { return Ok(()) };
        let who = |rank: usize| Box::new(self.world[self.group[rank] as usize].clone());
        // All ranks find the same difference, so a report from one rank to the others would change nothing.
        Err(self.fail_communicator(Error::ConfigMismatch {
            name: difference.name,
            first: who(0),
            first_value: difference.first,
            second: who(difference.rank),
            second_value: difference.second,
        }))
    }

    /// Sends `bytes` to a rank, which may be this one. Messages from one sender with one tag arrive in order. Returns
    /// when the message is queued.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::TooLarge`] for more than 16 MiB; why the communicator has failed.
    pub fn send(&self, peer: u32, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        let to = self.rank_info(peer)?.rank;
        if bytes.len() > MESSAGE_BYTES {
            let (bytes, limit) = (bytes.len() as u64, MESSAGE_BYTES as u64);
            return Err(Error::TooLarge { call: format!("message to rank {peer}"), bytes, limit });
        }
        self.check_process()?;
        self.check_alive()?;
        let from = self.group[self.rank as usize];
        self.link.post(Frame::Message { from, to, context: self.context, tag, bytes: bytes.to_vec() })
    }

    /// Waits for the next message from a rank with the given tag.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]. Any other error fails the communicator: [`Error::Timeout`] if no message arrives within
    /// the timeout, [`Error::RankLeft`] if the rank has left without sending one, and the other errors name the rank
    /// that died.
    pub fn recv(&self, peer: u32, tag: u64) -> Result<Vec<u8>, Error> {
        let from = self.rank_info(peer)?.rank;
        let key = (self.context, from, tag);
        self.wait_for_peer(peer, || format!("message with tag {tag}"), |state| state.take_message(key))
    }

    /// Returns the number of messages that this process has received, in all communicators of the job, which may change at any time.
    #[doc(hidden)]
    pub fn num_messages(&self) -> &AtomicU64 {
        self.link.inbox().num_messages()
    }

    /// Returns the next message from a rank with the given tag, if it has arrived.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; why the communicator has failed.
    #[doc(hidden)]
    pub fn try_recv(&self, peer: u32, tag: u64) -> Result<Option<Vec<u8>>, Error> {
        let key = (self.context, self.rank_info(peer)?.rank, tag);
        self.wait(Duration::ZERO, |state| state.take_message(key))
    }

    /// Opens a direct connection between two ranks, for much data. Both ranks call this with the same `id`, which is
    /// used once.
    ///
    /// Both ends have authenticated each other; what they send later is not authenticated. The connection has no timeouts and no framing other than the caller's,
    /// and `TCP_NODELAY` is set.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for this rank itself and for ranks that do not exist; otherwise as [`recv`](Self::recv),
    /// and [`Error::Unreachable`] if the other rank's host cannot be reached, which fails the communicator as well.
    pub fn stream(&self, peer: u32, id: u64) -> Result<TcpStream, Error> {
        self.keyed_stream(peer, id).map(|(stream, _)| stream)
    }

    /// Opens a direct connection as [`stream`](Self::stream) does. If [data is authenticated](crate::Options::authenticate_data),
    /// also returns the keys with which its ends authenticate what they send; they belong to this connection alone.
    ///
    /// # Errors
    /// As [`stream`](Self::stream).
    pub fn data_stream(&self, peer: u32, id: u64) -> Result<(TcpStream, Option<StreamKeys>), Error> {
        let authenticates = self.options().authenticate_data;
        self.keyed_stream(peer, id).map(|(stream, keys)| (stream, authenticates.then_some(keys)))
    }

    fn keyed_stream(&self, peer: u32, id: u64) -> Result<KeyedStream, Error> {
        let member = self.rank_info(peer)?;
        if peer == self.rank {
            return Err(Error::NoSuchRank { rank: peer, num_ranks: self.num_ranks() });
        }
        self.check_process()?;
        let key = (self.context, member.rank, id);
        if peer > self.rank {
            return self.wait_for_peer(peer, || format!("stream {id}"), |state| state.take_stream(key));
        }
        let check_alive = || match self.end() {
            Some(error) => Err(error),
            None if self.has_left(peer)? => Err(self.rank_left_error(member, &format!("stream {id}"))),
            None => Ok(()),
        };
        let time = self.timeout();
        let stream = check_alive().and_then(|()| self.link.connect(member, self.context, id, time, &check_alive));
        stream.map_err(|error| match error {
            // A broken connection is a consequence; rank 0 is about to report the cause.
            Error::System { .. } => {
                self.failure_within(CAUSE_GRACE_PERIOD).unwrap_or_else(|| self.fail_communicator(error))
            }
            // The peer waits for the stream, and would not learn from the error alone which rank has failed.
            Error::NoDescriptor { .. } => {
                let (who, call, kind) = (self.own_info(), format!("stream {id} to {member}"), error.kind());
                self.fail_communicator(Error::CallFailed { who, call, kind, reason: error.to_string() })
            }
            error => self.fail_communicator(error),
        })
    }

    /// Returns the error of a wait for a rank that has left.
    fn rank_left_error(&self, who: &RankInfo, call: &str) -> Error {
        let waiting = Some(self.group[self.rank as usize]);
        Error::RankLeft { who: Box::new(who.clone()), waiting, call: format!("the wait for a {call}") }
    }

    /// Waits for something that only `peer` can send.
    fn wait_for_peer<T>(
        &self,
        peer: u32,
        call: impl Fn() -> String,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        self.check_process()?;
        let call = || place::numbered_call().map_or_else(&call, |part_of| format!("answer in {part_of}"));
        let who = Box::new(self.rank_info(peer)?.clone());
        let waited = self.timeout();
        let world_rank = self.group[self.rank as usize];
        let found = self.wait(waited, |state| match take(state) {
            Some(found) => Some(Ok(found)),
            // Frames from one rank arrive in order: none follows its shutdown frame.
            None if state.has_left(who.rank) => Some(Err(self.rank_left_error(&who, &call()))),
            None => None,
        })?;
        match found {
            Some(Ok(found)) => Ok(found),
            Some(Err(rank_left_error)) => Err(self.fail_communicator(rank_left_error)),
            None => Err(self.fail_communicator(Error::Timeout { rank: world_rank, from: who, call: call(), waited })),
        }
    }

    /// Gathers the data of all ranks; every collective call uses it.
    pub(super) fn gather(
        &self,
        call: Call,
        bytes: &[u8],
        place: &'static Location<'static>,
    ) -> Result<Vec<ByteBuf>, Error> {
        self.gather_numbered(call, bytes, place).map(|(_, parts)| parts)
    }

    /// Does what [`gather`](Self::gather) does, and also returns the number of the call.
    pub(super) fn gather_numbered(
        &self,
        call: Call,
        bytes: &[u8],
        place: &'static Location<'static>,
    ) -> Result<(u64, Vec<ByteBuf>), Error> {
        self.gather_waiting(call, bytes, place, &Waits { timeout: self.timeout(), find_cause: None })
    }

    fn gather_waiting(
        &self,
        call: Call,
        bytes: &[u8],
        place: &'static Location<'static>,
        waits: &Waits<'_>,
    ) -> Result<(u64, Vec<ByteBuf>), Error> {
        let limit = self.max_gather_bytes();
        if bytes.len() > limit {
            return Err(Error::TooLarge { call: call.to_string(), bytes: bytes.len() as u64, limit: limit as u64 });
        }
        self.check_process()?;
        let mut next = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_alive()?;
        let sequence = *next;
        *next += 1;
        let (context, group) = (self.context, self.listed_group());
        let (place, part_of) = (place::text(place), place::numbered_call());
        // Rank 0 decides only if this rank finds no cause.
        let timeout = waits.timeout + if waits.find_cause.is_some() { ROOT_GRACE_PERIOD } else { Duration::ZERO };
        let bytes = ByteBuf::from(bytes);
        self.link.post(Frame::EnterCollective { context, sequence, call, part_of, place, group, timeout, bytes })?;
        let key = (context, sequence);
        let mut find_cause = waits.find_cause;
        let mut waiting = ActiveTimeout::new(timeout + ROOT_GRACE_PERIOD);
        while !waiting.is_expired() {
            let next = self.link.expire().map(|at| at.saturating_duration_since(Instant::now()));
            let until_late = find_cause.map(|_| waits.timeout.saturating_sub(waiting.elapsed()));
            let most = until_late.unwrap_or(waiting.remaining()).max(MIN_WAIT);
            let time = next.map_or(most, |next| next.clamp(MIN_WAIT, most));
            waiting.allow_gap(time);
            if let Some(parts) = self.wait(time, |state| state.take_gathered(key))? {
                return Ok((sequence, parts));
            }
            waiting.update();
            if waiting.elapsed() >= waits.timeout
                && let Some(cause) = find_cause.take().and_then(|find_cause| find_cause())
            {
                return Err(self.fail(cause));
            }
        }
        let (rank, from) = (self.group[self.rank as usize], Box::new(self.world[0].clone()));
        let call = format!("answer to {call}");
        Err(self.fail_communicator(Error::Timeout { rank, from, call, waited: timeout + ROOT_GRACE_PERIOD }))
    }
}

/// How long a rank waits in a collective call, and how it finds the cause if it waits in vain; otherwise rank 0 does.
struct Waits<'a> {
    timeout: Duration,
    find_cause: Option<&'a dyn Fn() -> Option<Error>>,
}

/// Two different values of one name.
struct Difference {
    name: String,
    first: String,
    rank: usize,
    second: String,
}

/// Returns the first difference from rank 0, in the order of names, then of ranks.
fn first_difference(lists: &[Vec<(&str, &str)>]) -> Option<Difference> {
    let first = lists.first()?;
    let longest = lists.iter().map(Vec::len).max()?;
    for index in 0..longest {
        for (rank, list) in lists.iter().enumerate() {
            let (ours, theirs) = (first.get(index), list.get(index));
            if ours != theirs {
                let value = |entry: Option<&(&str, &str)>, name: &str| match entry {
                    Some((other, value)) if *other == name => (*value).to_owned(),
                    Some((other, _)) => format!("(nothing; `{other}` instead)"),
                    None => "(nothing)".to_owned(),
                };
                let name = ours.or(theirs).map_or("", |(name, _)| name);
                return Some(Difference {
                    name: name.into(),
                    first: value(ours, name),
                    rank,
                    second: value(theirs, name),
                });
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_difference_is_by_name_then_by_rank() {
        let lists = [vec![("a", "1"), ("b", "1")], vec![("a", "1"), ("b", "2")], vec![("a", "2"), ("b", "1")]];
        let found = first_difference(&lists).unwrap();
        assert_eq!((found.name.as_str(), found.rank, found.second.as_str()), ("a", 2, "2"));
        assert!(first_difference(&lists[..1]).is_none());
    }

    #[test]
    fn value_of_one_rank_only_is_a_difference() {
        let found = first_difference(&[vec![], vec![("a", "1")]]).unwrap();
        assert_eq!((found.first.as_str(), found.second.as_str()), ("(nothing)", "1"));
        let found = first_difference(&[vec![("a", "1")], vec![("b", "1")]]).unwrap();
        assert_eq!(found.second, "(nothing; `b` instead)");
    }
}
