//! The numbers of chunks within their parts, at the ranks that representatives represent.

use super::super::counts::parts;
use super::postconditions::{Renumbering, UNKNOWN};
use mscclpp_plan::raw::PlanTree;

/// The real numbers within parts of the chunks of all inputs, by the numbers at the representatives.
///
/// Exists only if the numbers at every rank result from those at the previous rank of its class by one permutation,
/// which is the same for all classes and for inputs and outputs: then chunks of any ranks that have equal numbers have
/// equal ones in every rotation.
pub(in super::super) struct Numbers {
    inputs: Vec<u32>,
    /// Chunks of an input.
    input: usize,
    equal: bool,
}

impl Numbers {
    /// Returns the numbers of a plan in which ranks are rotated by `own`. `None` if there is no such permutation.
    pub(super) fn of(plan: &PlanTree, own: u32, renumbering: &Renumbering) -> Option<Self> {
        let (parts, chunks) = parts(plan);
        let within = |chunk: usize| if parts == 1 { chunk } else { chunk % chunks.max(1) as usize };
        let ranks = plan.ranks.len();
        let mut permutation = vec![None; chunks as usize];
        let mut equal = true;
        let mut real = |names: &[u32], count: usize| {
            let mut real = vec![UNKNOWN; names.len()];
            for (rank, names) in names.chunks(count.max(1)).enumerate() {
                for (chunk, name) in names.iter().enumerate() {
                    *real[rank * count..][..count].get_mut(*name as usize)? = within(chunk) as u32;
                }
            }
            for rank in 0..if count == 0 { 0 } else { ranks } {
                let next = (rank + own as usize) % ranks;
                for name in 0..count {
                    let (from, to) = (real[rank * count + name], real[next * count + name]);
                    equal &= from == within(name) as u32;
                    if *permutation.get_mut(from as usize)?.get_or_insert(to) != to {
                        return None;
                    }
                }
            }
            Some(real)
        };
        let (inputs, outputs, (input, output)) = renumbering.tables();
        let inputs = real(inputs, input)?;
        real(outputs, output)?;
        Some(Self { inputs, input, equal })
    }

    /// Returns whether all ranks have the numbers of their representatives.
    pub(in super::super) fn are_equal(&self) -> bool {
        self.equal
    }

    /// Returns the number within its part of a rank's input chunk, given by the number at the rank's representative.
    pub(in super::super) fn input(&self, rank: u32, chunk: u64) -> Option<u32> {
        let chunk = usize::try_from(chunk).ok().filter(|chunk| *chunk < self.input)?;
        self.inputs.get(rank as usize * self.input + chunk).copied()
    }
}
