//! Groups of some of a group's ranks.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::error::Error;
use super::frame::Call;
use super::group::Bootstrap;

impl Bootstrap {
    /// Divides the group: ranks with one `colour` become a group, ordered by `key` and then by their rank here. A rank
    /// without colour gets none.
    ///
    /// All ranks of this group call it. The new group shares connections, deadlines and failures with this one: what ends
    /// one of them ends all.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather).
    pub fn split(&self, colour: Option<u32>, key: u32) -> Result<Option<Self>, Error> {
        let mut wish = [0; 9];
        if let Some(colour) = colour {
            wish[0] = 1;
            wish[1..5].copy_from_slice(&colour.to_le_bytes());
            wish[5..].copy_from_slice(&key.to_le_bytes());
        }
        let (call, parts) = self.numbered(Call::Split, &wish)?;
        let Some(colour) = colour else { return Ok(None) };
        let mut ranks = Vec::new();
        for (rank, part) in parts.iter().enumerate() {
            let [has, c0, c1, c2, c3, k0, k1, k2, k3] = part[..] else { continue };
            if has == 1 && u32::from_le_bytes([c0, c1, c2, c3]) == colour {
                ranks.push((u32::from_le_bytes([k0, k1, k2, k3]), rank as u32));
            }
        }
        ranks.sort_unstable();
        let group: Arc<[u32]> = ranks.iter().map(|(_, rank)| self.group[*rank as usize]).collect();
        let position = ranks.iter().position(|(_, rank)| *rank == self.rank);
        // This rank's own wish is among the parts.
        let rank = position.map_or(0, |position| position as u32);
        let context = self.child(call, colour);
        Ok(Some(Self::part(rank, self.link.clone(), self.world.clone(), group, context)))
    }

    /// The group of `ranks` of this group, in that order; `None` on the others. All ranks of this group call it with the
    /// same list.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`] for a rank that is not in this group or comes twice; otherwise as
    /// [`all_gather`](Self::all_gather).
    pub fn subgroup(&self, ranks: &[u32]) -> Result<Option<Self>, Error> {
        for (index, rank) in ranks.iter().enumerate() {
            self.rank_info(*rank)?;
            if ranks[..index].contains(rank) {
                return Err(Error::NoSuchRank { rank: *rank, ranks: self.num_ranks() });
            }
        }
        let place = ranks.iter().position(|rank| *rank == self.rank);
        self.split(place.map(|_| 0), place.unwrap_or(0) as u32)
    }

    /// A number for a new group that its ranks find alike and that no other group has.
    fn child(&self, call: u64, colour: u32) -> u64 {
        let mut hash = Sha256::new();
        for field in [self.context, call, u64::from(colour)] {
            hash.update(field.to_le_bytes());
        }
        // The whole job has number 0.
        let digest: [u8; 32] = hash.finalize().into();
        digest.first_chunk().map_or(1, |bytes| u64::from_le_bytes(*bytes)).max(1)
    }
}
