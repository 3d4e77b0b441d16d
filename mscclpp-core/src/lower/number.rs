//! Conversion of rank-level numbers to indexes into the thread block's tables.

use crate::plan::raw::IdList;
use crate::plan::{BlockTable, BlockTables, BufferRef, Ids, Op, RankPlan, ThreadBlock};
use crate::types::ChannelKind;

/// Fills the tables of a rank's blocks in order of first use, pipelines' bodies included, and converts the numbers of
/// operations to indexes into them.
///
/// It also converts operations to the form that plan JSON can contain: the channels of memory puts, reductions and
/// switch operations are removed (their block's table still lists them), those of signals, waits and flushes are
/// sorted.
#[derive(Default)]
pub(super) struct Numbering {
    /// Per kind and rank-level number, the index in the current block.
    channels: Tables,
    remotes: Tables,
}

impl Numbering {
    pub(super) fn number(&mut self, rank: &mut RankPlan) {
        for block in &mut rank.blocks {
            let ThreadBlock { ops, channels, remote_buffers } = block;
            channels.clear();
            remote_buffers.clear();
            for op in ops.iter_mut() {
                for inner in op.body.iter_mut().flat_map(|body| &mut body.ops) {
                    self.renumber(inner, channels, remote_buffers);
                }
                self.renumber(op, channels, remote_buffers);
            }
            self.channels.reset(channels);
            self.remotes.reset(remote_buffers);
        }
    }

    fn renumber(&mut self, op: &mut Op, channels: &mut BlockTables, remote_buffers: &mut BlockTables) {
        let Some(kind) = op.channel else { return };
        for range in op.srcs.iter_mut().chain(&mut op.dsts) {
            match &mut range.buffer {
                BufferRef::Remote(number) => *number = self.remotes.index(kind, *number, remote_buffers),
                BufferRef::Switch(number) => *number = self.channels.index(ChannelKind::Switch, *number, channels),
                BufferRef::Local(_) => {}
            }
        }
        for id in &mut op.ids {
            *id = self.channels.index(kind, *id, channels);
        }
        sort_ids(op);
    }
}

/// Removes the channels that plan JSON does not contain, and sorts those whose order has no meaning.
fn sort_ids(op: &mut Op) {
    match op.kind.ids() {
        IdList::Channels => op.ids.sort_unstable(),
        IdList::ChannelPerPair | IdList::Semaphores | IdList::Barrier => {}
        IdList::ChannelPerPortDestination if op.channel == Some(ChannelKind::Port) => {}
        IdList::ChannelPerPortDestination | IdList::Nothing => op.ids = Ids::new(),
    }
}

/// The rank-level numbers that a block uses already: the inverse of its tables.
#[derive(Default)]
struct Tables {
    indexes: [Vec<Option<u32>>; ChannelKind::ALL.len()],
}

impl Tables {
    /// Returns the index of a rank-level number in the block's table, to which it is added at its first use.
    fn index(&mut self, kind: ChannelKind, number: u32, tables: &mut BlockTables) -> u32 {
        let indexes = &mut self.indexes[kind as usize];
        if indexes.len() <= number as usize {
            indexes.resize((number as usize + 1).next_power_of_two(), None);
        }
        *indexes[number as usize].get_or_insert_with(|| {
            let table = match tables.iter().position(|(k, _)| *k == kind) {
                Some(position) => &mut tables[position].1,
                None => {
                    tables.push((kind, BlockTable::new()));
                    &mut tables.last_mut().expect("just pushed").1
                }
            };
            table.push(number);
            table.len() as u32 - 1
        })
    }

    /// Resets the tables for the next block.
    fn reset(&mut self, tables: &[(ChannelKind, BlockTable)]) {
        for (kind, numbers) in tables {
            for &number in numbers {
                self.indexes[*kind as usize][number as usize] = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::BlockTable;
    use crate::testing::{plan, text};
    use crate::types::ChannelKind::{Memory, Port, Switch};

    #[test]
    fn tables_list_numbers_in_order_of_first_use() {
        let first = "wait.p#1; loop 16x1 { put.m#3 s0 > r2:0 }; signal.m#3,1,0; put.p#1 i0 > r2:0; \
                     get.m#1 r1:0 > o0; put.m#3 s1 > r1:1; gstore.w#2 s0 > w2:1";
        let mut plan = plan(&[&[first, "signal.m#1", ""], &[""]]);
        let mut numbering = super::Numbering::default();
        plan.ranks.iter_mut().for_each(|rank| numbering.number(rank));
        let blocks = &plan.ranks[0].blocks;
        let ids = BlockTable::from_slice;
        assert_eq!(blocks[0].channels[..], [(Port, ids(&[1])), (Memory, ids(&[3, 1, 0])), (Switch, ids(&[2]))]);
        assert_eq!(blocks[0].remote_buffers[..], [(Memory, ids(&[2, 1])), (Port, ids(&[2]))]);
        assert_eq!(
            text(&blocks[0].ops),
            "wait.p#0; loop 16x1 { put.m s0 > r0:0 }; signal.m#0,1,2; put.p#0 i0 > r0:0; \
             get.m#1 r1:0 > o0; put.m s1 > r1:1; gstore.w s0 > w0:1"
        );
        assert_eq!(blocks[1].channels[..], [(Memory, ids(&[1]))]);
        assert_eq!(text(&blocks[1].ops), "signal.m#0");
        assert!(blocks[2].channels.is_empty() && blocks[2].remote_buffers.is_empty());
    }

    #[test]
    fn channels_of_a_fused_signal_are_sorted_after_numbering() {
        let mut plan = plan(&[&["wait.m#2; wait.m#1; signal.m#1,2"], &[""]]);
        let mut numbering = super::Numbering::default();
        plan.ranks.iter_mut().for_each(|rank| numbering.number(rank));
        assert_eq!(text(&plan.ranks[0].blocks[0].ops), "wait.m#0; wait.m#1; signal.m#0,1");
    }
}
