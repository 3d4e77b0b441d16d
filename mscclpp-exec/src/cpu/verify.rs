//! Buffers of all ranks, as a verifier fills and compares them.

use super::Buffers;
use crate::verify::{FILL_BYTE, Verifier, VerifyReport};

impl Verifier {
    /// Fills all inputs, and everything else with bytes that no result has.
    pub fn fill(&self, buffers: &mut Buffers) {
        for rank in 0..buffers.num_ranks() {
            buffers.output_mut(rank).fill(FILL_BYTE);
        }
        for rank in 0..buffers.num_ranks() {
            self.write_input(rank, buffers.input_mut(rank));
        }
    }

    /// Compares all outputs.
    pub fn check(&self, buffers: &Buffers) -> VerifyReport {
        self.compare_outputs(&(0..buffers.num_ranks()).map(|rank| (rank, buffers.output(rank))).collect::<Vec<_>>())
    }
}
