//! Operations on the same chunks of several ranks at once, through a switch.

use super::ChunkRef;
use crate::diag::Code;
use crate::dsl::SwitchChannel;
use crate::dsl::registry::ChunkValue;

impl<'c> ChunkRef<'c> {
    /// Reduces the chunks at the same index of other ranks into these, through the switch; returns these.
    ///
    /// # Errors
    /// Reports M0023 if the others are at another index.
    #[track_caller]
    pub fn group_load_reduce(&self, others: &[Self], recvtb: usize) -> Self {
        if self.is_poison() || others.iter().any(Self::is_poison) {
            return *self;
        }
        let here = |chunk: &Self| ChunkValue { rank: self.value.rank, ..chunk.value } == self.value;
        if let Some(apart) = others.iter().find(|other| !here(other)) {
            self.file(
                Code::NonContiguousChunks,
                format!("`group_load_reduce` expects chunks at the index of {self}, found {apart}"),
                "name the same chunks of the same buffer on every rank",
            );
            return *self;
        }
        let range = self.range();
        self.switch(others.iter().map(|other| other.value.rank)).at(self.rank()).reduce(self.plain(), range, recvtb);
        *self
    }

    /// Stores these chunks at the same index of other ranks, through the switch.
    #[track_caller]
    pub fn group_store(&self, dsts: &[usize], sendtb: usize) {
        let mut members = Vec::new();
        for &dst in dsts {
            let member = self.target(dst, None, -1);
            if member.is_poison() {
                return;
            }
            members.push(member.value.rank);
        }
        if !self.is_poison() {
            self.switch(members.into_iter()).at(self.rank()).broadcast(self.range(), self.plain(), sendtb);
        }
    }

    #[track_caller]
    fn switch(&self, others: impl Iterator<Item = u32>) -> SwitchChannel<'c> {
        let mut ranks: Vec<u32> = others.chain([self.value.rank]).collect();
        ranks.sort_unstable();
        ranks.dedup();
        SwitchChannel::new(self.program(), self.context.switch(self.buffer(), ranks))
    }
}
