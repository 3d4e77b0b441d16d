//! Values that identify their sources, and the postconditions of a collective.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::raw::{Expectation, PlanTree};
use mscclpp_core::types::ReduceOp;

use super::program::{Program, Sized, of_launch};
use crate::random::Random;

/// Returns the value that a rank writes into a cell of its input for a launch. Sums of different sets of these differ,
/// except with probability 2⁻⁶⁴.
pub(super) fn token(launch: u32, rank: u32, cell: u64) -> u64 {
    Random::new(cell ^ u64::from(rank) << 24 ^ u64::from(launch) << 48).next()
}

/// Returns the value of uninitialized memory, or of memory that a caller has overwritten with poison.
pub(super) fn poison(launch: u32, cell: u32) -> u64 {
    Random::new(!(u64::from(cell) ^ u64::from(launch) << 48)).next()
}

/// Returns the value that plain operations read from the bytes of a packet.
pub(super) fn packet_bytes_as_plain(value: u64, flag: u32) -> u64 {
    Random::new(value ^ u64::from(flag) << 32 ^ 0x5bd1_e995).next()
}

/// Returns what a row norm makes of a value: no sum of tokens, except with probability 2⁻⁶⁴.
pub(super) fn normalized(value: u64) -> u64 {
    Random::new(value ^ 0x6e6f_726d).next()
}

/// Returns whether the collective has no postconditions.
pub(super) fn is_free(plan: &PlanTree) -> bool {
    matches!(plan.collective.kind, CollectiveKind::Custom { .. } | CollectiveKind::Test { .. })
}

/// Returns whether only the plan determines what it should compute, or how far it sends.
pub(super) fn needs_expected_results(plan: &PlanTree) -> bool {
    is_free(plan) || plan.collective.kind == CollectiveKind::SendRecv
}

/// The expected results.
pub(super) struct Oracle<'p> {
    plan: &'p PlanTree,
    program: &'p Program,
    sizes: &'p [Sized],
    /// Over how many ranks a send-receive sends.
    distance: u32,
    /// Results of a round-robin run: per launch and rank.
    expected_results: Option<Vec<Vec<u64>>>,
    reductions: Vec<ReduceOp>,
}

impl<'p> Oracle<'p> {
    pub(super) fn new(plan: &'p PlanTree, sizes: &'p [Sized], expected_results: Option<Vec<Vec<u64>>>) -> Self {
        let reductions = if plan.expectations.is_empty() { Vec::new() } else { plan.reductions() };
        let mut oracle = Self { plan, program: &sizes[0].program, sizes, distance: 1, expected_results, reductions };
        let ranks = plan.ranks.len() as u32;
        if plan.collective.kind == CollectiveKind::SendRecv
            && let Some(expected_results) = oracle.expected_results.take()
        {
            let is_padding = |cell: u64| oracle.program.is_padding(oracle.program.ranks[0].output + cell as u32);
            // The plan may send to the same position of the next node; it must do so on all ranks.
            let fits = |&distance: &u32| {
                (0..)
                    .zip(&expected_results[0])
                    .all(|(cell, &found)| is_padding(cell) || found == token(1, (ranks - distance) % ranks, cell))
            };
            oracle.distance = (1..ranks).find(fits).unwrap_or(1);
        }
        oracle
    }

    /// Returns the expected value of a cell of a rank's output after a launch; none without a postcondition.
    pub(super) fn output(&self, launch: u32, rank: u32, cell: u64) -> Option<u64> {
        use CollectiveKind as K;
        let ranks = self.plan.ranks.len() as u32;
        let tables = &self.program.ranks[rank as usize];
        let size = self.chunk(launch);
        let sum = |cell| {
            let sum = (0..ranks).map(|rank| token(launch, rank, cell)).fold(0, u64::wrapping_add);
            if self.plan.collective.rows { normalized(sum) } else { sum }
        };
        let mine = |chunks: u32| u64::from(rank) * u64::from(chunks) * size + cell;
        Some(match self.plan.collective.kind {
            K::AllReduce => sum(cell),
            K::Reduce => return (rank == self.plan.collective.root).then(|| sum(cell)),
            K::ReduceScatter => sum(mine(tables.outputs)),
            K::AllGather => {
                let part = u64::from(tables.outputs / ranks).max(1) * size;
                let row = token(launch, (cell / part) as u32, cell % part);
                if self.plan.collective.rows { normalized(row) } else { row }
            }
            K::AllToAll | K::AllToAllV => {
                let part = u64::from(tables.outputs / ranks).max(1) * size;
                token(launch, (cell / part) as u32, u64::from(rank) * part + cell % part)
            }
            K::Broadcast => token(launch, self.plan.collective.root, cell),
            K::SendRecv => token(launch, (rank + ranks - self.distance) % ranks, cell),
            K::Custom { .. } | K::Test { .. } => {
                if let Some(expected) = self.stated(launch, rank, cell) {
                    return Some(expected);
                }
                let at = (launch - 1) as usize * ranks as usize + rank as usize;
                return self.expected_results.as_ref()?.get(at)?.get(cell as usize).copied();
            }
        })
    }

    /// Returns the value that an expectation states for a cell, as a sum. None where an input may count more than once.
    fn stated(&self, launch: u32, rank: u32, cell: u64) -> Option<u64> {
        let (size, program) = (self.chunk(launch), &of_launch(self.sizes, launch).program);
        let is_once = |op: &ReduceOp| !matches!(op, ReduceOp::Min | ReduceOp::Max);
        let chunk = (cell / size) as u32;
        let covers = |stated: &&Expectation| {
            stated.rank == rank && chunk.checked_sub(stated.chunk).is_some_and(|i| i < stated.len)
        };
        let stated = self.plan.expectations.iter().find(covers).filter(|_| self.reductions.iter().all(is_once))?;
        let sum = stated.inputs.iter().try_fold(0_u64, |sum, (from, first)| {
            let cell = u64::from(first + chunk - stated.chunk) * size + cell % size;
            let tables = program.ranks.get(*from as usize)?;
            let is_padding = program.is_padding(tables.input + cell as u32);
            Some(if is_padding { sum } else { sum.wrapping_add(token(launch, *from, cell)) })
        })?;
        Some(if self.plan.collective.rows { normalized(sum) } else { sum })
    }

    fn chunk(&self, launch: u32) -> u64 {
        of_launch(self.sizes, launch).scale.chunk
    }

    /// Returns a description of a wrong value.
    pub(super) fn explain(&self, launch: u32, found: u64, expected: u64) -> String {
        let inputs = |launch: u32| {
            let (chunk, ranks) = (self.chunk(launch), &self.program.ranks);
            (0..).zip(ranks).flat_map(move |(rank, tables)| {
                (0..u64::from(tables.inputs) * chunk).map(move |cell| (rank, cell / chunk, token(launch, rank, cell)))
            })
        };
        for past in (1..=launch + 1).rev() {
            let which = match past {
                _ if past == launch => String::new(),
                _ => format!(" of launch {past}"),
            };
            if let Some((rank, chunk, _)) = inputs(past).find(|(.., token)| *token == found) {
                return format!("probably holds rank {rank}'s input chunk {chunk}{which}");
            }
            let difference = expected.wrapping_sub(found);
            if let Some((rank, chunk, _)) = inputs(past).find(|(.., token)| *token == difference) {
                return format!("lacks rank {rank}'s input chunk {chunk}{which}");
            }
            let surplus = found.wrapping_sub(expected);
            if let Some((rank, chunk, _)) = inputs(past).find(|(.., token)| *token == surplus) {
                return format!("includes rank {rank}'s input chunk {chunk}{which} more than once");
            }
        }
        let poison =
            (0..=launch).any(|launch| (0..self.program.cells as u32).any(|cell| poison(launch, cell) == found));
        if poison { "was never written".to_owned() } else { "holds another combination".to_owned() }
    }
}
