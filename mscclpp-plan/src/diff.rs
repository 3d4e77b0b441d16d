//! Differences in meaning between two plans.
//!
//! Lists that represent sets (channels of signals, waits and flushes, access kinds of remote buffers) are compared as
//! sets. Source locations are ignored, and so is the chunk factor, which follows from the chunk counts.

use std::fmt::{self, Display, Formatter};

use super::text::{BlockNames, Operation, RankNames};
use super::{BlockTable, ChannelTable, IdList, Op, PlanTree, RankPlan, RemoteBuffer};
use crate::types::ChannelKind;

/// Maximum length of lists of operations that are aligned to each other; longer lists are compared position by
/// position.
const ALIGNED: usize = 2000;

/// One difference between two plans.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The rank that differs, if the difference is in one rank.
    pub rank: Option<u32>,
    /// The thread block that differs, if the difference is in one thread block.
    pub block: Option<u32>,
    /// Flat index of the operation in the left plan, or in the right plan if only that one has the operation.
    pub op: Option<u32>,
    /// What differs, such as `max message size`, `scratch chunks` or `operation`.
    pub what: &'static str,
    /// The left plan's value; `None` if it has none.
    pub left: Option<String>,
    /// The right plan's value; `None` if it has none.
    pub right: Option<String>,
}

impl Display for Difference {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, number) in [("rank", self.rank), ("thread block", self.block), ("operation", self.op)] {
            if let Some(number) = number {
                let last = name == "operation";
                write!(f, "{name} {number}{}", if last { "" } else { " / " })?;
            }
        }
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
        // The path of an operation already names what differs.
        let what = if self.op.is_some() { "" } else { self.what };
        write!(f, "{what}: {} | {}", value(&self.left), value(&self.right))
    }
}

/// Returns all differences, from the top level down; empty if and only if the plans have the same meaning.
pub fn diff(left: &PlanTree, right: &PlanTree) -> Vec<Difference> {
    let mut found = Differences::default();
    let pair = [left, right];
    found.field("name", pair.map(|plan| &plan.name));
    found.field("collective", pair.map(|plan| format!("{:?}", plan.collective.kind)));
    found.field("in place", pair.map(|plan| plan.collective.in_place));
    found.field("dividing", pair.map(|plan| plan.collective.dividing));
    found.field("rows", pair.map(|plan| plan.collective.rows));
    found.field("root", pair.map(|plan| plan.collective.root));
    found.field("protocol", pair.map(|plan| plan.protocol.name()));
    found.field("shared scratch", pair.map(|plan| plan.reuse_resources));
    found.field("threads per block", pair.map(|plan| plan.threads_per_block));
    found.field("double scratch", pair.map(|plan| plan.double_scratch));
    found.field("buffer alignment", pair.map(|plan| plan.buffer_alignment));
    found.field("min message size", pair.map(|plan| plan.min_message_size));
    found.field("max message size", pair.map(|plan| plan.max_message_size));
    found.field("ranks per node", pair.map(|plan| plan.ranks_per_node));
    found.field("tags", pair.map(|plan| format!("{:?}", plan.tags)));
    found.field("ranks", pair.map(|plan| plan.ranks.len()));
    for (rank, (left, right)) in left.ranks.iter().zip(&right.ranks).enumerate() {
        found.rank = Some(rank as u32);
        found.ranks([left, right]);
    }
    found.list
}

#[derive(Default)]
struct Differences {
    rank: Option<u32>,
    block: Option<u32>,
    list: Vec<Difference>,
}

impl Differences {
    fn add(&mut self, op: Option<u32>, what: &'static str, [left, right]: [Option<String>; 2]) {
        let Self { rank, block, .. } = *self;
        self.list.push(Difference { rank, block, op, what, left, right });
    }

    fn field<T: PartialEq + Display>(&mut self, what: &'static str, [left, right]: [T; 2]) {
        if left != right {
            self.add(None, what, [Some(left.to_string()), Some(right.to_string())]);
        }
    }

    /// Compares a list entry by entry.
    fn entries<T: PartialEq + Entry>(&mut self, what: &'static str, [left, right]: [&[T]; 2]) {
        for i in 0..left.len().max(right.len()) {
            let pair = [left.get(i), right.get(i)];
            if pair[0] != pair[1] {
                self.add(None, what, pair.map(|entry| entry.map(|entry| format!("{i}: {}", entry.text()))));
            }
        }
    }

    fn ranks(&mut self, pair: [&RankPlan; 2]) {
        self.field("input chunks", pair.map(|rank| rank.input_chunks));
        self.field("output chunks", pair.map(|rank| rank.output_chunks));
        self.field("scratch chunks", pair.map(|rank| rank.scratch_chunks));
        self.entries("channels", pair.map(|rank| &rank.channels[..]));
        self.entries("remote buffers", pair.map(|rank| &rank.remote_buffers[..]));
        self.entries("semaphores", pair.map(|rank| &rank.semaphores[..]));
        self.field("thread blocks", pair.map(|rank| rank.blocks.len()));
        let names = pair.map(RankNames::new);
        for (number, (left, right)) in pair[0].blocks.iter().zip(&pair[1].blocks).enumerate() {
            self.block = Some(number as u32);
            self.entries("channels", [&left.channels[..], &right.channels[..]]);
            self.entries("remote buffers", [&left.remote_buffers[..], &right.remote_buffers[..]]);
            self.operations([0, 1].map(|side| BlockNames::new(&names[side], [left, right][side])));
        }
        self.block = None;
    }

    fn operations(&mut self, names: [BlockNames<'_>; 2]) {
        let [left, right] = names.each_ref().map(|names| {
            let mut ops = Vec::new();
            flatten(&names.block.ops, 0, &mut ops);
            ops
        });
        let text = |side: usize, op: &Flat<'_>| Some(Operation { op: op.op, names: &names[side] }.to_string());
        for step in align(&left, &right) {
            let (at, pair) = match step {
                (Some(l), Some(r)) => (l, [text(0, &left[l]), text(1, &right[r])]),
                (Some(l), None) => (l, [text(0, &left[l]), None]),
                (None, Some(r)) => (r, [None, text(1, &right[r])]),
                (None, None) => continue,
            };
            self.add(Some(at as u32), "operation", pair);
        }
    }
}

/// Formats numbers with commas between them.
struct Numbers<'a>(&'a [u32]);

impl Display for Numbers<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Formats an entry of a table for a message.
trait Entry {
    fn text(&self) -> String;
}

impl Entry for i64 {
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Entry for ChannelTable {
    fn text(&self) -> String {
        match self {
            Self::Memory(peers) => format!("memory to ranks {}", Numbers(peers)),
            Self::Port(peers) => format!("port to ranks {}", Numbers(peers)),
            Self::Switch { buffer, groups } => {
                let groups: Vec<_> = groups.iter().map(|group| format!("ranks {}", Numbers(group))).collect();
                format!("switch over {buffer} of {}", groups.join(" and of "))
            }
        }
    }
}

impl Entry for RemoteBuffer {
    fn text(&self) -> String {
        let kinds = match (self.memory, self.port) {
            (true, true) => "memory and port",
            (true, false) => "memory",
            (false, true) => "port",
            (false, false) => "no",
        };
        format!("rank {} {}, {kinds} access", self.rank, self.buffer)
    }
}

impl Entry for (ChannelKind, BlockTable) {
    fn text(&self) -> String {
        format!("{} {}", self.0, Numbers(&self.1))
    }
}

/// An operation and its nesting depth in pipelines.
struct Flat<'a> {
    op: &'a Op,
    depth: usize,
}

fn flatten<'a>(ops: &'a [Op], depth: usize, out: &mut Vec<Flat<'a>>) {
    for op in ops {
        out.push(Flat { op, depth });
        if let Some(body) = &op.body {
            flatten(&body.ops, depth + 1, out);
        }
    }
}

impl PartialEq for Flat<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.depth == other.depth && same(self.op, other.op)
    }
}

/// Returns whether two operations do the same. Bodies of pipelines are compared separately.
fn same(left: &Op, right: &Op) -> bool {
    let header = |op: &Op| op.body.as_ref().map(|body| (body.unit, body.num_chunks));
    left.kind == right.kind
        && left.channel == right.channel
        && left.reduce == right.reduce
        && left.sync == right.sync
        && left.slice == right.slice
        && left.count == right.count
        && left.srcs == right.srcs
        && left.dsts == right.dsts
        && left.num_blocks == right.num_blocks
        && header(left) == header(right)
        && if left.kind.ids() == IdList::Channels { sorted(left) == sorted(right) } else { left.ids == right.ids }
}

fn sorted(op: &Op) -> Vec<u32> {
    let mut ids = op.ids.to_vec();
    ids.sort_unstable();
    ids
}

/// Returns the positions of the operations that differ: pairs that replace each other, and operations of one side only.
fn align(left: &[Flat<'_>], right: &[Flat<'_>]) -> Vec<(Option<usize>, Option<usize>)> {
    let start = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    let rest = |ops: usize| ops - start;
    let same_end = left.iter().rev().zip(right.iter().rev()).take_while(|(l, r)| l == r).count();
    let end = same_end.min(rest(left.len())).min(rest(right.len()));
    let [l, r] = [&left[start..left.len() - end], &right[start..right.len() - end]];
    let mut steps = Vec::new();
    if l.len() == r.len() || l.len() > ALIGNED || r.len() > ALIGNED {
        for i in 0..l.len().max(r.len()) {
            if l.get(i) != r.get(i) {
                steps.push(((i < l.len()).then_some(start + i), (i < r.len()).then_some(start + i)));
            }
        }
        return steps;
    }
    // Longest common subsequence of the middle: `common[i][j]` is the length for l[i..] and r[j..].
    let width = r.len() + 1;
    let mut common = vec![0_u16; (l.len() + 1) * width];
    for i in (0..l.len()).rev() {
        for j in (0..r.len()).rev() {
            common[i * width + j] = if l[i] == r[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < l.len() || j < r.len() {
        if i < l.len() && j < r.len() && l[i] == r[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == r.len() || i < l.len() && common[(i + 1) * width + j] >= common[i * width + j + 1] {
            steps.push((Some(start + i), None));
            i += 1;
        } else {
            steps.push((None, Some(start + j)));
            j += 1;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OpKind;
    use crate::json::{ReadOptions, read};

    fn pair() -> PlanTree {
        read(include_str!("pair.json"), ReadOptions::default()).unwrap().0
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn a_plan_equals_itself_and_no_other(left in crate::arbitrary::tree(), right in crate::arbitrary::tree()) {
            prop_assert_eq!(diff(&left, &left), vec![]);
            let forth = diff(&left, &right);
            prop_assert_eq!(forth.is_empty(), left == right);
            prop_assert_eq!(forth.len(), diff(&right, &left).len());
        }
    }

    #[test]
    fn differences_name_place_and_both_values() {
        let (left, mut right) = (pair(), pair());
        right.max_message_size = 5;
        right.ranks[0].scratch_chunks = 3;
        right.ranks[0].remote_buffers.pop();
        right.ranks[0].blocks[0].channels[0].1.push(1);
        right.ranks[0].blocks[0].ops[3].kind = OpKind::RelaxedWait;
        let found: Vec<String> = diff(&left, &right).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "max message size: 1048576 | 5",
                "rank 0 / scratch chunks: 1 | 3",
                "rank 0 / remote buffers: 1: rank 1 input, memory access | none",
                "rank 0 / thread block 0 / channels: 0: memory 0 | 0: memory 0, 1",
                "rank 0 / thread block 0 / operation 3: wait memory rank 1 | rlxwait memory rank 1",
            ]
        );
    }

    #[test]
    fn an_operation_less_is_one_difference() {
        let (left, mut right) = (pair(), pair());
        right.ranks[0].blocks[0].ops.remove(1);
        let found = diff(&left, &right);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].op, found[0].left.as_deref(), found[0].right.as_deref()), (Some(1), Some("nop"), None));
        assert_eq!(diff(&right, &left)[0].right.as_deref(), Some("nop"));
    }

    #[test]
    fn sets_have_no_order_and_other_lists_have_one() {
        let (mut left, mut right) = (pair(), pair());
        for (plan, ids) in [(&mut left, [0, 1]), (&mut right, [1, 0])] {
            plan.ranks[0].blocks[0].ops[2].ids = ids.into_iter().collect();
        }
        assert_eq!(diff(&left, &right), []);
        for plan in [&mut left, &mut right] {
            plan.ranks[0].blocks[0].ops[2].kind = OpKind::Put;
            plan.ranks[0].blocks[0].ops[2].channel = Some(ChannelKind::Port);
        }
        assert_eq!(diff(&left, &right).len(), 1);
    }
}
