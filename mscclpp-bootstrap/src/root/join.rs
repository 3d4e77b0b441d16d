//! How ranks join, until all have joined.

use std::time::Instant;

use super::{Joining, PeerState, Phase, Root};
use crate::acceptor::AuthenticatedPeer;
use crate::address::loopback_ip;
use crate::error::Error;
use crate::frame::{Frame, Malformed};
use crate::options::Options;
use crate::protocol::Purpose;
use crate::rank_info::RankInfo;
use crate::router::Router;

impl Root {
    pub(super) fn accept_peer(&mut self, AuthenticatedPeer { purpose, conn }: AuthenticatedPeer) {
        match purpose {
            Purpose::Join { rank, ranks, generation } => self.joining.push(Joining { rank, ranks, generation, conn }),
            Purpose::Stream { .. } | Purpose::Continue { .. } => self.inbox.accept_stream(0, purpose, conn),
            Purpose::Observe => self.observers.add(conn),
            // The id of this job is not that of a rendezvous.
            Purpose::Locate { .. } => {}
        }
    }

    /// Fails the job that forms if the rendezvous has rejected a rank, for which the ranks that joined here would wait in vain.
    pub(super) fn serve_rendezvous(&mut self) {
        let Some(conn) = &mut self.rendezvous else { return };
        let is_open = conn.read().unwrap_or(false);
        match conn.next() {
            Ok(None) if is_open => return,
            Ok(Some(Frame::Rejected(error))) if matches!(self.phase, Phase::Joining) => self.fail(error),
            // The ranks that have found rank 0 need the rendezvous no more: its end is no failure.
            _ => {}
        }
        self.rendezvous = None;
    }

    /// Reads the identities of authenticated ranks.
    pub(super) fn join(&mut self, now: Instant) {
        for mut one in std::mem::take(&mut self.joining) {
            let open = one.conn.read().unwrap_or(false);
            let rank = one.rank;
            match one.conn.next() {
                Ok(Some(Frame::Join(member))) if member.rank == rank && member.is_within_limits() => {
                    self.admit(member, one);
                }
                Ok(None) if open => self.joining.push(one),
                // It cannot join.
                Ok(Some(Frame::Failed(error))) if matches!(self.phase, Phase::Joining) && rank < self.ranks => {
                    self.fail(error);
                }
                Err(malformed @ Malformed::Unauthenticated { .. })
                    if matches!(self.phase, Phase::Joining) && rank < self.ranks =>
                {
                    let error = malformed.of("");
                    self.close_after(one.conn, &Frame::Rejected(error.clone()), now);
                    self.fail(error);
                }
                // It authenticated, so it is a rank of this job.
                _ if matches!(self.phase, Phase::Joining) && rank < self.ranks => {
                    let who = Box::new(RankInfo::unnamed(rank));
                    self.fail(Error::Died { who, how: "its connection closed before it sent its rank info".into() });
                }
                _ => {}
            }
        }
    }

    /// Returns the reply to a rank that joins another generation of the job than this one.
    fn reply_to_other_generation(&self, rank: u32, generation: Option<u32>) -> Option<Frame> {
        match (&self.phase, generation, self.generation) {
            (Phase::Failed(_), ..) => None,
            (Phase::Joining, None, _) | (Phase::Joining, _, None) => None,
            (Phase::Joining, Some(theirs), Some(ours)) if theirs == ours => None,
            (Phase::Joining, Some(theirs), Some(ours)) if theirs > ours => Some(Frame::Retry),
            (Phase::Connected(router), Some(theirs), _) if theirs == self.inbox.generation() => {
                router.has_failed().then_some(Frame::Retry)
            }
            _ => Some(self.inbox.reply_to_join(0, rank, generation)),
        }
    }

    fn admit(&mut self, member: RankInfo, Joining { ranks, generation, mut conn, .. }: Joining) {
        let rank = member.rank as usize;
        if let Some(reply) = self.reply_to_other_generation(member.rank, generation) {
            return conn.push(&reply);
        }
        if let Phase::Failed(error) = &self.phase {
            conn.push(&Frame::Rejected(error.clone()));
            // This rank has been notified of the failure.
            if let Some(place @ None) = self.members.get_mut(rank) {
                *place = Some(member);
            }
            return;
        }
        let wrong = if ranks != self.ranks {
            Some(Error::WorldSize { who: Box::new(member.clone()), theirs: ranks, peer: 0, ours: self.ranks })
        } else {
            match self.members.get(rank) {
                None => Some(Error::NoSuchRank { rank: member.rank, num_ranks: self.ranks }),
                Some(Some(first)) => {
                    Some(Error::DuplicateRank { first: Box::new(first.clone()), second: Box::new(member.clone()) })
                }
                Some(None) => None,
            }
        };
        if let Some(error) = wrong {
            conn.push(&Frame::Rejected(error.clone()));
            // A process that joins too late does not end a running job.
            if matches!(self.phase, Phase::Joining) {
                self.fail(error);
            }
            return;
        }
        self.generation = self.generation.max(generation);
        let Options { timeout, heartbeat_timeout, .. } = self.options;
        let remaining = self.active_clock.remaining();
        conn.raise_limit();
        conn.push(&Frame::Admitted { remaining, timeout, heartbeat_timeout, job: self.job });
        self.members[rank] = Some(member.in_zone_of(conn.peer));
        self.peers[rank] = Some(PeerState { conn, held: None, unacknowledged: 0, left: false, leave_acked: false });
        self.complete_join();
    }

    /// Sends the identities of all ranks to all ranks, if all have joined.
    pub(super) fn complete_join(&mut self) {
        if let Some(members) = self.members.iter().cloned().collect::<Option<Vec<_>>>() {
            let generation = self.generation.unwrap_or_default();
            // Before the ranks learn that the job has formed, so that none that continues it asks there.
            self.continuation = None;
            self.rendezvous = None;
            self.phase = Phase::Connected(Router::new(members.clone().into()));
            self.push_to_all(&Frame::Roster(members.clone(), generation));
            let here = loopback_ip();
            let resolved = |one: RankInfo| if one.rank == 0 { one } else { one.with_root_ip(here) };
            let members = members.into_iter().map(resolved).collect();
            self.inbox.deliver(Frame::Roster(members, generation));
        }
    }
}
