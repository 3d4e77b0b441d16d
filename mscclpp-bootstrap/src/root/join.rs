//! How ranks join, until all have joined.

use std::net::Ipv4Addr;
use std::time::Instant;

use super::{PeerState, Phase, Root};
use crate::acceptor::AuthenticatedPeer;
use crate::conn::Conn;
use crate::error::Error;
use crate::frame::{Frame, Malformed};
use crate::options::Options;
use crate::protocol::Purpose;
use crate::rank_info::RankInfo;
use crate::router::Router;

impl Root {
    pub(super) fn accept_peer(&mut self, AuthenticatedPeer { purpose, conn }: AuthenticatedPeer) {
        match purpose {
            Purpose::Join { rank, ranks } => self.joining.push((rank, ranks, conn)),
            Purpose::Stream { .. } => self.inbox.accept_stream(purpose, conn),
        }
    }

    /// Reads the identities of authenticated ranks.
    pub(super) fn join(&mut self, now: Instant) {
        for (rank, ranks, mut conn) in std::mem::take(&mut self.joining) {
            let open = conn.read().unwrap_or(false);
            match conn.next() {
                Ok(Some(Frame::Join(member))) if member.rank == rank && member.is_within_limits() => {
                    self.admit(member, ranks, conn);
                }
                Ok(None) if open => self.joining.push((rank, ranks, conn)),
                Err(malformed @ Malformed::Unauthenticated { .. })
                    if matches!(self.phase, Phase::Joining) && rank < self.ranks =>
                {
                    let error = malformed.of("");
                    self.close_after(conn, &Frame::Rejected(error.clone()), now);
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

    fn admit(&mut self, member: RankInfo, ranks: u32, mut conn: Conn) {
        let rank = member.rank as usize;
        if let Phase::Failed(error) = &self.phase {
            conn.push(&Frame::Rejected(error.clone()));
            // This rank has been notified of the failure.
            if let Some(place @ None) = self.members.get_mut(rank) {
                *place = Some(member);
            }
            return;
        }
        if matches!(&self.phase, Phase::Connected(router) if router.has_failed()) {
            return conn.push(&Frame::Retry);
        }
        let wrong = if ranks != self.ranks {
            Some(Error::WorldSize { who: Box::new(member.clone()), theirs: ranks, ours: self.ranks })
        } else {
            match self.members.get(rank) {
                None => Some(Error::NoSuchRank { rank: member.rank, ranks: self.ranks }),
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
        let Options { timeout, heartbeat_timeout, .. } = self.options;
        let remaining = self.active_clock.remaining();
        conn.raise_limit();
        conn.push(&Frame::Admitted { remaining, timeout, heartbeat_timeout, job: self.job });
        self.members[rank] = Some(member);
        self.peers[rank] = Some(PeerState { conn, held: None, left: false, leave_acked: false });
        self.complete_join();
    }

    /// Sends the identities of all ranks to all ranks, if all have joined.
    pub(super) fn complete_join(&mut self) {
        if let Some(members) = self.members.iter().cloned().collect::<Option<Vec<_>>>() {
            let router = Router::new(members.clone().into(), self.options.timeout);
            self.phase = Phase::Connected(router);
            self.push_to_all(&Frame::Roster(members.clone()));
            let here = Ipv4Addr::LOCALHOST.into();
            let resolved = |one: RankInfo| if one.rank == 0 { one } else { one.with_root_ip(here) };
            self.inbox.deliver(Frame::Roster(members.into_iter().map(resolved).collect()));
        }
    }
}
