//! The size of the miniature.

use mscclpp_core::plan::PlanTree;

use crate::cpu::Random;

/// Cells that one thread moves at a time in plain operations, and the granularity of every boundary.
pub(super) const VECTOR: u64 = 2;

/// Cells per chunk above which a loop just runs once.
const MOST_VECTORS: u64 = 40;

/// How large things are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Cells of a chunk.
    pub(super) chunk: u64,
    /// Threads of a block, where no operation needs more.
    pub(super) threads: u32,
    /// Bytes of a plan's windows that are one vector here.
    pub(super) grain: u64,
    /// Whether multicast instructions take cells rather than vectors.
    pub(super) narrow_multicast: bool,
    /// Whether callers write rubbish to the outputs.
    pub(super) poisons: bool,
}

impl Scale {
    pub(super) fn random(plan: &PlanTree, random: &mut Random) -> Self {
        let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
        let loops: Vec<_> = ops.filter_map(|op| op.body.as_ref()).map(|body| (body.unit, body.num_chunks)).collect();
        let grain = loops.iter().fold(0, |all, &(unit, _)| gcd(all, unit)).max(1);
        let threads = 2 + random.below(4) as u32;
        let mut vectors = [1, 1, 2, 2, 3, 4, 5][random.below(7) as usize];
        if let Some(&(unit, chunks)) = loops.get(random.below(loops.len().max(1) as u64) as usize) {
            let trips = 1 + random.below(4);
            vectors = (trips * (unit / grain)).div_ceil(u64::from(chunks.max(1))) + random.below(3) / 2;
        }
        Self {
            chunk: vectors.clamp(1, MOST_VECTORS) * VECTOR,
            threads,
            grain,
            narrow_multicast: random.below(2) == 0,
            poisons: random.below(2) == 0,
        }
    }

    /// Cells of a window of so many bytes.
    pub(super) fn window(&self, unit: u64) -> u64 {
        (unit / self.grain).max(1).saturating_mul(VECTOR)
    }

    /// The part `index` of `of` of a range of `len` cells, as first cell and length: whole vectors, the first parts one
    /// longer where they do not divide.
    pub(super) fn slice(len: u64, index: u32, of: u32) -> (u64, u64) {
        let (units, of) = (len / VECTOR, u64::from(of.max(1)));
        let boundary = |i: u64| (i * (units / of) + i.min(units % of)) * VECTOR;
        let (start, end) = (boundary(index.into()), boundary(u64::from(index) + 1));
        (start, end - start)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    x
}
