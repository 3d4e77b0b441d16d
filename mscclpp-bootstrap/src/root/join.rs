//! How ranks join, until all are together.

use std::net::Ipv4Addr;

use super::{PeerState, Phase, Root};
use crate::acceptor::AuthenticatedPeer;
use crate::conn::Conn;
use crate::error::Error;
use crate::frame::{Frame, Purpose};
use crate::options::Options;
use crate::rank_info::RankInfo;
use crate::router::Router;

impl Root {
    pub(super) fn visit(&mut self, AuthenticatedPeer { purpose, conn }: AuthenticatedPeer) {
        match purpose {
            Purpose::Join { rank, ranks } => self.joining.push((rank, ranks, conn)),
            Purpose::Stream { .. } => self.inbox.welcome(purpose, conn),
        }
    }

    /// Listens to those who say who they are.
    pub(super) fn join(&mut self) {
        for (rank, ranks, mut conn) in std::mem::take(&mut self.joining) {
            let open = conn.read().unwrap_or(false);
            match conn.next() {
                Ok(Some(Frame::Join(member))) if member.rank == rank && member.is_sane() => {
                    self.take_in(member, ranks, conn);
                }
                Ok(None) if open => self.joining.push((rank, ranks, conn)),
                // It knew the secret, so it was one of us.
                _ if matches!(self.phase, Phase::Gathering) && rank < self.ranks => {
                    let who = Box::new(RankInfo { rank, ..RankInfo::unknown() });
                    self.fail(Error::Died { who, how: "its connection closed before it sent its rank info".into() });
                }
                _ => {}
            }
        }
    }

    fn take_in(&mut self, member: RankInfo, ranks: u32, mut conn: Conn) {
        let rank = member.rank as usize;
        if let Phase::Failed(error) = &self.phase {
            conn.push(&Frame::Rejected(error.clone()));
            // Whoever it is, it has heard.
            if let Some(place @ None) = self.members.get_mut(rank) {
                *place = Some(member);
            }
            return;
        }
        if matches!(&self.phase, Phase::Together(router) if router.has_failed()) {
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
            // A job that runs is not ended by who comes too late.
            if matches!(self.phase, Phase::Gathering) {
                self.fail(error);
            }
            return;
        }
        let Options { timeout: deadline, heartbeat_timeout } = self.options;
        let remaining = self.clock.remaining();
        conn.trust();
        conn.push(&Frame::Admitted { remaining, deadline, heartbeat_timeout });
        self.members[rank] = Some(member);
        self.peers[rank] = Some(PeerState { conn, held: None, left: false, seen: false });
        self.complete_join();
    }

    /// Tells all who they are, if all are there.
    pub(super) fn complete_join(&mut self) {
        if let Some(members) = self.members.iter().cloned().collect::<Option<Vec<_>>>() {
            let router = Router::new(members.clone().into(), self.options.timeout);
            self.phase = Phase::Together(router);
            self.push_to_all(&Frame::Roster(members.clone()));
            let here = Ipv4Addr::LOCALHOST.into();
            let seen = |one: RankInfo| if one.rank == 0 { one } else { one.seen_by_way_of(here) };
            self.inbox.deliver(Frame::Roster(members.into_iter().map(seen).collect()));
        }
    }
}
