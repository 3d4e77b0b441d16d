//! Communicators of some of a communicator's ranks.

use std::panic::Location;
use std::sync::Arc;

use super::context;
use super::error::Error;
use super::frame::Call;
use super::group::Bootstrap;

/// Number of a call in the numbers of pairs, the largest one of several: no communicator makes as many calls.
const PAIRS: u64 = u64::MAX;

impl Bootstrap {
    /// Splits the communicator: ranks with the same `color` form a communicator, ordered by `key` and then by their
    /// rank here. A rank without a color gets `None`.
    ///
    /// All ranks of this communicator call it. The new communicator shares connections and timeouts with this one. If this
    /// one fails, the new one fails too, but not the other way round.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    #[track_caller]
    pub fn split(&self, color: Option<u32>, key: u32) -> Result<Option<Self>, Error> {
        let mut choice = [0; 9];
        if let Some(color) = color {
            choice[0] = 1;
            choice[1..5].copy_from_slice(&color.to_le_bytes());
            choice[5..].copy_from_slice(&key.to_le_bytes());
        }
        let (call, parts) = self.gather_numbered(Call::Split, &choice, Location::caller())?;
        let Some(color) = color else { return Ok(None) };
        let mut ranks = Vec::new();
        for (rank, part) in parts.iter().enumerate() {
            let [has, c0, c1, c2, c3, k0, k1, k2, k3] = part[..] else { continue };
            if has == 1 && u32::from_le_bytes([c0, c1, c2, c3]) == color {
                ranks.push((u32::from_le_bytes([k0, k1, k2, k3]), rank as u32));
            }
        }
        ranks.sort_unstable();
        let group: Arc<[u32]> = ranks.iter().map(|(_, rank)| self.group[*rank as usize]).collect();
        let position = ranks.iter().position(|(_, rank)| *rank == self.rank);
        // The ranks include this one, because its own choice is among the parts.
        let rank = position.map_or(0, |position| position as u32);
        let contexts = self.child_contexts(call, color);
        Ok(Some(Self::subset(rank, self.link.clone(), self.world.clone(), group, &contexts)))
    }

    /// Returns the communicator of `ranks` of this communicator, in that order; `None` on the other ranks. All ranks of
    /// this communicator call it with the same list.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for a rank that is not in this communicator or is listed twice; otherwise as
    /// [`all_gather`](Self::all_gather).
    #[track_caller]
    pub fn subgroup(&self, ranks: &[u32]) -> Result<Option<Self>, Error> {
        for (index, rank) in ranks.iter().enumerate() {
            self.rank_info(*rank)?;
            if ranks[..index].contains(rank) {
                return Err(Error::NoSuchRank { rank: *rank, num_ranks: self.num_ranks() });
            }
        }
        let position = ranks.iter().position(|rank| *rank == self.rank);
        self.split(position.map(|_| 0), position.unwrap_or(0) as u32)
    }

    /// Returns the communicator of this rank and another one, in the order of ranks: for all that travels between them, or with
    /// `is_sent` for one direction, which is that from this rank to the other one if it is true. No rank waits: the other one gets
    /// the same communicator when it calls this for the same direction. Two handles of one rank to it must not be used both.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for this rank itself and for ranks that do not exist.
    #[doc(hidden)]
    pub fn pair(&self, peer: u32, is_sent: Option<bool>) -> Result<Self, Error> {
        self.rank_info(peer)?;
        if peer == self.rank {
            return Err(Error::NoSuchRank { rank: peer, num_ranks: self.num_ranks() });
        }
        let (low, high) = (peer.min(self.rank), peer.max(self.rank));
        let call = PAIRS - is_sent.map_or(0, |is_sent| if is_sent == (self.rank == high) { 2 } else { 1 });
        let mut contexts = vec![context::number(self.context, call, u64::from(low) << 32 | u64::from(high))];
        contexts.extend_from_slice(self.contexts());
        let group = [low, high].map(|rank| self.group[rank as usize]);
        Ok(Self::subset(u32::from(self.rank == high), self.link.clone(), self.world.clone(), group.into(), &contexts))
    }

    /// Returns the number of a new communicator, then those of the communicators that it is split from.
    fn child_contexts(&self, call: u64, color: u32) -> Vec<u64> {
        let mut contexts = vec![context::number(self.context, call, u64::from(color))];
        contexts.extend_from_slice(self.contexts());
        contexts
    }
}
