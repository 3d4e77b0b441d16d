//! Rank-level numbers become indexes into the thread block's tables.

use crate::plan::{BlockTable, BlockTables, Ids, Op, OpKind, Place, RankPlan, ThreadBlock};
use crate::vocab::ChannelKind;

/// Fills the tables of a rank's blocks in order of first use, pipelines' bodies included, and makes operations point into them.
///
/// Also brings operations into the form that plan JSON can hold: the channels of memory puts, reductions and switch
/// operations are left out (their block's table still lists them), those of signals, waits and flushes are sorted.
pub(super) fn number(rank: &mut RankPlan) {
    // Per kind and rank-level number, the index in the block at hand.
    let mut channels = Tables::default();
    let mut remotes = Tables::default();
    for block in &mut rank.blocks {
        block.channels.clear();
        block.remote_buffers.clear();
        let mut ops = std::mem::take(&mut block.ops);
        ops.iter_mut().for_each(|op| renumber(op, block, &mut channels, &mut remotes));
        block.ops = ops;
        channels.forget(&block.channels);
        remotes.forget(&block.remote_buffers);
    }
}

fn renumber(op: &mut Op, block: &mut ThreadBlock, channels: &mut Tables, remotes: &mut Tables) {
    if let Some(body) = &mut op.body {
        body.ops.iter_mut().for_each(|inner| renumber(inner, block, channels, remotes));
    }
    let Some(kind) = op.channel else { return };
    for range in op.srcs.iter_mut().chain(&mut op.dsts) {
        match &mut range.place {
            Place::Remote(number) => *number = remotes.index(kind, *number, &mut block.remote_buffers),
            Place::Switch(number) => *number = channels.index(ChannelKind::Switch, *number, &mut block.channels),
            Place::Local(_) => {}
        }
    }
    for id in &mut op.ids {
        *id = channels.index(kind, *id, &mut block.channels);
    }
    match op.kind {
        OpKind::Signal | OpKind::Wait | OpKind::RelaxedSignal | OpKind::RelaxedWait | OpKind::Flush => {
            op.ids.sort_unstable();
        }
        OpKind::Get => {}
        kind if kind.is_data() && (op.channel != Some(ChannelKind::Port) || kind.is_reduce()) => op.ids = Ids::new(),
        _ => {}
    }
}

/// Which rank-level numbers a block uses already: the inverse of its tables.
#[derive(Default)]
struct Tables {
    indexes: [Vec<Option<u32>>; ChannelKind::ALL.len()],
}

impl Tables {
    /// The index of a rank-level number in the block's table, to which it is added at its first use.
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

    /// Makes ready for the next block.
    fn forget(&mut self, tables: &[(ChannelKind, BlockTable)]) {
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
    use crate::vocab::ChannelKind::{Memory, Port, Switch};

    #[test]
    fn tables_list_numbers_in_order_of_first_use() {
        let first = "wait.p#1; loop 16x1 { put.m#3 s0 > r2:0 }; signal.m#3,1,0; put.p#1 i0 > r2:0; \
                     get.m#1 r1:0 > o0; put.m#3 s1 > r1:1; gstore.w#2 s0 > w2:1";
        let mut plan = plan(&[&[first, "signal.m#1", ""], &[""]]);
        plan.ranks.iter_mut().for_each(super::number);
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
        plan.ranks.iter_mut().for_each(super::number);
        assert_eq!(text(&plan.ranks[0].blocks[0].ops), "wait.m#0; wait.m#1; signal.m#0,1");
    }
}
