//! What the ranks of a group do together: gather, wait, agree, send.

use std::net::TcpStream;
use std::sync::PoisonError;
use std::time::Duration;

use serde_bytes::ByteBuf;

use super::error::Error;
use super::frame::{Call, Frame, GATHER_BYTES, MESSAGE_BYTES};
use super::group::Bootstrap;
use super::inbox::State;
use super::rank_info::RankInfo;

/// How much longer than the deadline a rank waits for rank 0 to say who is missing.
const GRACE: Duration = Duration::from_secs(5);
/// How long a rank that sees a consequence waits for the cause.
const HEARSAY: Duration = Duration::from_millis(200);

impl Bootstrap {
    /// What each rank brought, in the order of ranks. Ranks may bring different lengths.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more bytes than [`gather_limit`](Self::gather_limit), which concerns this rank alone.
    /// Otherwise the group is finished: [`Error::Absent`] names who did not come, [`Error::Mismatch`] two ranks that make
    /// different calls, and the other errors who died or left.
    pub fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        let parts = self.gather(Call::AllGather, bytes)?;
        Ok(parts.into_iter().map(ByteBuf::into_vec).collect())
    }

    /// Most bytes that each rank may bring to a collective call: 16 MiB over the number of ranks.
    pub fn gather_limit(&self) -> usize {
        GATHER_BYTES / self.group.len()
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    pub fn barrier(&self) -> Result<(), Error> {
        self.gather(Call::Barrier, &[]).map(drop)
    }

    /// What rank `root` brought, on all ranks. What the others bring is not looked at.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and [`Error::NoSuchRank`].
    pub fn broadcast(&self, root: u32, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        self.rank_info(root)?;
        let bytes = if root == self.rank { bytes } else { &[] };
        let mut parts = self.gather(Call::Broadcast { root }, bytes)?;
        Ok(parts.swap_remove(root as usize).into_vec())
    }

    /// Compares named values between all ranks. Names and their order have to be equal as well.
    ///
    /// # Errors
    /// [`Error::ConfigMismatch`] on all ranks, with the first difference to rank 0 and both values; otherwise as
    /// [`all_gather`](Self::all_gather).
    pub fn agree(&self, values: &[(&str, &str)]) -> Result<(), Error> {
        let bytes = postcard::to_allocvec(values).map_err(|error| Error::System {
            what: "cannot encode the values to compare".into(),
            reason: error.to_string(),
        })?;
        let parts = self.gather(Call::Agree, &bytes)?;
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
        // All ranks find the same difference; one of them telling the others would come too late to matter.
        Err(self.fail(Error::ConfigMismatch {
            name: difference.name,
            first: who(0),
            first_value: difference.first,
            second: who(difference.rank),
            second_value: difference.second,
        }))
    }

    /// Sends `bytes` to a rank, this one included. Messages of one sender with one tag arrive in order. Returns when the
    /// message is on its way.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::TooLarge`] for more than 16 MiB; why the group is finished.
    pub fn send(&self, peer: u32, tag: u64, bytes: &[u8]) -> Result<(), Error> {
        let to = self.rank_info(peer)?.rank;
        if bytes.len() > MESSAGE_BYTES {
            let (bytes, limit) = (bytes.len() as u64, MESSAGE_BYTES as u64);
            return Err(Error::TooLarge { call: format!("message to rank {peer}"), bytes, limit });
        }
        self.check_alive()?;
        let from = self.group[self.rank as usize];
        self.link.post(Frame::Message { from, to, context: self.context, tag, bytes: bytes.to_vec() })
    }

    /// Waits for the next message of a rank with that tag.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]. Otherwise the group is finished: [`Error::Timeout`] if no message comes before the deadline,
    /// [`Error::RankLeft`] if the rank has left without sending one, and the other errors who died.
    pub fn recv(&self, peer: u32, tag: u64) -> Result<Vec<u8>, Error> {
        let from = self.rank_info(peer)?.rank;
        let key = (self.context, from, tag);
        self.await_from(peer, || format!("message with tag {tag}"), |state| state.take_message(key))
    }

    /// A connection of its own between two ranks, for much data: both call this with the same `id`, which is used once.
    ///
    /// Its ends have proved to each other that they belong to the job. It has no deadlines and no framing but the caller's,
    /// and delays are switched off (`TCP_NODELAY`).
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for this rank itself and ranks that do not exist; otherwise as [`recv`](Self::recv), and
    /// [`Error::Unreachable`] if the other's host cannot be reached, which ends the group as well.
    pub fn stream(&self, peer: u32, id: u64) -> Result<TcpStream, Error> {
        let member = self.rank_info(peer)?;
        if peer == self.rank {
            return Err(Error::NoSuchRank { rank: peer, ranks: self.num_ranks() });
        }
        let key = (self.context, member.rank, id);
        if peer > self.rank {
            return self.await_from(peer, || format!("stream {id}"), |state| state.take_stream(key));
        }
        let go_on = || match self.link.inbox().end() {
            Some(error) => Err(error),
            None if self.has_left(peer)? => Err(self.left(member, &format!("stream {id}"))),
            None => Ok(()),
        };
        let time = self.options().timeout;
        let stream = go_on().and_then(|()| self.link.connect(member, self.context, id, time, &go_on));
        stream.map_err(|error| match error {
            // A connection that breaks is a consequence, of which rank 0 is about to say the cause.
            Error::System { .. } => self.failure_within(HEARSAY).unwrap_or_else(|| self.fail(error)),
            error => self.fail(error),
        })
    }

    /// Why a wait for a rank that has left ends.
    fn left(&self, who: &RankInfo, call: &str) -> Error {
        let waiting = self.group[self.rank as usize];
        Error::RankLeft { who: Box::new(who.clone()), waiting, call: format!("the wait for a {call}") }
    }

    /// Waits for something that only `peer` can send.
    fn await_from<T>(
        &self,
        peer: u32,
        call: impl Fn() -> String,
        mut take: impl FnMut(&mut State) -> Option<T>,
    ) -> Result<T, Error> {
        let who = Box::new(self.rank_info(peer)?.clone());
        let waited = self.options().timeout;
        let world_rank = self.group[self.rank as usize];
        let found = self.link.inbox().wait(waited, |state| match take(state) {
            Some(found) => Some(Ok(found)),
            // Frames of one rank come in order: after its goodbye, nothing follows.
            None if state.has_left(who.rank) => Some(Err(self.left(&who, &call()))),
            None => None,
        })?;
        match found {
            Some(Ok(found)) => Ok(found),
            Some(Err(left)) => Err(self.fail(left)),
            None => Err(self.fail(Error::Timeout { rank: world_rank, from: who, call: call(), waited })),
        }
    }

    /// The call below all collective calls.
    pub(super) fn gather(&self, call: Call, bytes: &[u8]) -> Result<Vec<ByteBuf>, Error> {
        self.numbered(call, bytes).map(|(_, parts)| parts)
    }

    /// [`gather`](Self::gather), with the number of the call.
    pub(super) fn numbered(&self, call: Call, bytes: &[u8]) -> Result<(u64, Vec<ByteBuf>), Error> {
        let limit = self.gather_limit();
        if bytes.len() > limit {
            return Err(Error::TooLarge { call: call.to_string(), bytes: bytes.len() as u64, limit: limit as u64 });
        }
        let mut next = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_alive()?;
        let sequence = *next;
        *next += 1;
        let whole = self.group.len() == self.world.len() && self.context == 0;
        let group = if whole { Vec::new() } else { self.group.to_vec() };
        let context = self.context;
        self.link.post(Frame::EnterCollective { context, sequence, call, group, bytes: ByteBuf::from(bytes) })?;
        let deadline = self.options().timeout;
        let key = (context, sequence);
        for time in [deadline, GRACE] {
            if let Some(parts) = self.link.inbox().wait(time, |state| state.take_gathered(key))? {
                return Ok((sequence, parts));
            }
            self.link.expire();
            self.check_alive()?;
        }
        let (rank, from) = (self.group[self.rank as usize], Box::new(self.world[0].clone()));
        let call = format!("answer to {call}");
        Err(self.fail(Error::Timeout { rank, from, call, waited: deadline + GRACE }))
    }
}

/// Two values that should be one.
struct Difference {
    name: String,
    first: String,
    rank: usize,
    second: String,
}

/// The first difference to rank 0: by the order of names, then of ranks.
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
    fn the_first_difference_is_by_name_then_by_rank() {
        let lists = [vec![("a", "1"), ("b", "1")], vec![("a", "1"), ("b", "2")], vec![("a", "2"), ("b", "1")]];
        let found = first_difference(&lists).unwrap();
        assert_eq!((found.name.as_str(), found.rank, found.second.as_str()), ("a", 2, "2"));
        assert!(first_difference(&lists[..1]).is_none());
    }

    #[test]
    fn a_value_that_only_one_rank_has_differs() {
        let found = first_difference(&[vec![], vec![("a", "1")]]).unwrap();
        assert_eq!((found.first.as_str(), found.second.as_str()), ("(nothing)", "1"));
        let found = first_difference(&[vec![("a", "1")], vec![("b", "1")]]).unwrap();
        assert_eq!(found.second, "(nothing; `b` instead)");
    }
}
