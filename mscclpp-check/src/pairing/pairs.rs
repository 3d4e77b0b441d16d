//! Pairs of channel ends, and the counters between them.

use crate::place::LocatedOp;
use mscclpp_plan::raw::{PlanTree, RankPlan};
use mscclpp_plan::types::ChannelKind;

/// The channels of a plan, paired. Signals on one end of a pair raise a counter, and waits on the other end lower it.
pub(crate) struct Pairs {
    ends: Vec<End>,
    /// Per rank and kind (memory, port), the first of its ends.
    first: Vec<[usize; 2]>,
    /// Per end, its partner's number; none if the peer has too few channels.
    partners: Vec<Option<usize>>,
}

/// A channel of a rank.
struct End {
    rank: u32,
    peer: u32,
    kind: ChannelKind,
    /// Its number among the rank's channels of the kind to that peer.
    number: u32,
}

/// What a counter counts: signals from one rank to another on a kind's channel of some number between them.
pub(crate) struct Direction {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) kind: ChannelKind,
    pub(crate) number: u32,
}

impl Pairs {
    pub(crate) fn of(plan: &PlanTree) -> Self {
        let ends = |tables: &RankPlan| tables.peers(ChannelKind::Memory).len() + tables.peers(ChannelKind::Port).len();
        let ends = Vec::with_capacity(plan.ranks.iter().map(ends).sum());
        let mut found = Self { ends, first: Vec::with_capacity(plan.ranks.len()), partners: Vec::new() };
        // Per peer, the number of channels of this rank and kind to it.
        let mut seen = vec![0; plan.ranks.len()];
        for (rank, tables) in (0..).zip(&plan.ranks) {
            found.first.push([ChannelKind::Memory, ChannelKind::Port].map(|kind| {
                let first = found.ends.len();
                for &peer in tables.peers(kind) {
                    let number = &mut seen[peer as usize];
                    found.ends.push(End { rank, peer, kind, number: *number });
                    *number += 1;
                }
                tables.peers(kind).iter().for_each(|&peer| seen[peer as usize] = 0);
                first
            }));
        }
        found.partners = found.partners();
        found
    }

    /// Returns the partner of every end.
    fn partners(&self) -> Vec<Option<usize>> {
        // By rank, then by peer, kind and number: ends of a rank in that order.
        let key = |end: &End| (end.peer, end.kind, end.number);
        let mut sorted: Vec<u32> = (0..self.ends.len() as u32).collect();
        let rank = |rank: usize| {
            let end = self.first.get(rank + 1).map_or(self.ends.len(), |[memory, _]| *memory);
            self.first[rank][0]..end
        };
        for number in 0..self.first.len() {
            let own = &mut sorted[rank(number)];
            if !own.is_sorted_by_key(|&end| key(&self.ends[end as usize])) {
                own.sort_unstable_by_key(|&end| key(&self.ends[end as usize]));
            }
        }
        let partner = |end: &End| {
            let (wanted, own) = ((end.rank, end.kind, end.number), &sorted[rank(end.peer as usize)]);
            let place = own.binary_search_by_key(&wanted, |&other| key(&self.ends[other as usize])).ok()?;
            Some(own[place] as usize)
        };
        self.ends.iter().map(partner).collect()
    }

    /// Returns the number of counters.
    pub(crate) fn counters(&self) -> usize {
        2 * self.ends.len()
    }

    /// Returns, by an operation's channel, the counter that a signal on it raises.
    pub(crate) fn outgoing<'a>(&self, plan: &'a PlanTree, at: &LocatedOp) -> impl Fn(u32) -> Option<usize> + use<'a> {
        let kind = at.op.channel;
        let numbers = kind.map_or(&[][..], |kind| plan.ranks[at.rank].blocks[at.block].channels(kind));
        let first = self.first[at.rank][usize::from(kind == Some(ChannelKind::Port))];
        move |id| Some(first + *numbers.get(id as usize)? as usize)
    }

    /// Returns, by an operation's channel, the counter that a wait on it lowers. If the peer has no such channel, no
    /// signal raises the counter.
    pub(crate) fn incoming<'a>(
        &'a self,
        plan: &'a PlanTree,
        at: &LocatedOp,
    ) -> impl Fn(u32) -> Option<usize> + use<'a> {
        let end = self.outgoing(plan, at);
        move |id| {
            let end = end(id)?;
            Some(self.partners[end].unwrap_or(self.ends.len() + end))
        }
    }

    /// Returns the counters that signals of a rank to a peer raise on channels of a kind, in the order of the channels.
    pub(crate) fn ends(&self, rank: u32, peer: u32, kind: ChannelKind) -> impl Iterator<Item = usize> {
        let first = self.first.get(rank as usize).map_or(0, |[first, _]| *first);
        let end = self.first.get(rank as usize + 1).map_or(self.ends.len(), |[first, _]| *first);
        (first..end).filter(move |&end| self.ends[end].peer == peer && self.ends[end].kind == kind)
    }

    pub(crate) fn direction(&self, counter: usize) -> Direction {
        match self.ends.get(counter) {
            Some(&End { rank, peer, kind, number }) => Direction { from: rank, to: peer, kind, number },
            None => {
                let End { rank, peer, kind, number } = self.ends[counter - self.ends.len()];
                Direction { from: peer, to: rank, kind, number }
            }
        }
    }
}
