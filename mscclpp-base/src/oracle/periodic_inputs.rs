//! Inputs that are fast to write and results that are fast to compute, for measurements in which every launch gets new
//! inputs.

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::types::ReduceOp;

use super::expected::{Expected, ExpectedElement};
use super::pattern::{Inputs, Pattern};
use super::value::{read, write};
use crate::dtype::DataType;

/// Number of elements after which inputs repeat: a prime, so that swapped chunks are detected.
const PERIOD: usize = 251;
/// Number of elements by which inputs move from one launch to the next.
const SHIFT: u64 = 13;

/// Inputs and outputs of one rank in a series of launches. Every rank, element and launch has other values, up to a
/// period of 251 elements; their reductions are exact.
#[derive(Clone, Debug)]
pub struct PeriodicInputs {
    kind: CollectiveKind,
    dtype: DataType,
    rank: u32,
    root: u32,
    /// Values of each rank's input.
    rows: Vec<Row>,
    /// Their reduction.
    reduced: Row,
}

/// A period of elements, twice, so that a range can begin at any element.
#[derive(Clone, Debug)]
struct Row {
    bytes: Vec<u8>,
    covers: Vec<ExpectedElement>,
}

impl Row {
    fn new(dtype: DataType, expected_element: impl Fn(u64) -> ExpectedElement) -> Self {
        let covers: Vec<_> = (0..PERIOD as u64).map(expected_element).collect();
        let mut bytes = vec![0; 2 * PERIOD * dtype.size()];
        for (element, expected_element) in bytes.chunks_exact_mut(dtype.size()).zip(covers.iter().cycle()) {
            write(dtype, expected_element.value, element);
        }
        Self { bytes, covers }
    }
}

impl PeriodicInputs {
    /// Creates the data of `rank` in launches of a collective. `op` is its reduction, if it has one.
    pub fn new(collective: Collective, dtype: DataType, op: Option<ReduceOp>, num_ranks: u32, rank: u32) -> Self {
        let inputs = Inputs { seed: 1, pattern: Pattern::Exact, dtype, op, ranks: num_ranks };
        let exact = |value| ExpectedElement { value, tolerance: 0.0 };
        let rows = (0..num_ranks).map(|rank| Row::new(dtype, |index| exact(inputs.value(rank, index)))).collect();
        // The output of an all-reduce is the reduction, which other collectives distribute differently.
        let all = Collective::new(CollectiveKind::AllReduce);
        let expected = Expected { collective: all, inputs, input_len: 0, output_len: 0, distance: 1 };
        let reduced = Row::new(dtype, |index| expected.element(0, index));
        Self { kind: collective.kind, dtype, rank, root: collective.root, rows, reduced }
    }

    /// Writes the rank's input of a launch.
    pub fn fill(&self, launch: u64, input: &mut [u8]) {
        let period = PERIOD * self.dtype.size();
        let begin = self.begin(launch, 0);
        let row = &self.rows[self.rank as usize].bytes[begin..begin + period];
        input.chunks_mut(period).for_each(|chunk| chunk.copy_from_slice(&row[..chunk.len()]));
    }

    /// Returns how many elements of the rank's output of a launch differ from the postcondition.
    pub fn count_wrong(&self, launch: u64, output: &[u8]) -> u64 {
        use CollectiveKind as K;
        let ranks = self.rows.len();
        let (size, rank) = (self.dtype.size(), self.rank as usize);
        let elements = output.len() / size;
        let part = elements / ranks;
        match self.kind {
            K::AllReduce => self.compare(launch, &self.reduced, 0, output),
            K::Reduce if self.rank == self.root => self.compare(launch, &self.reduced, 0, output),
            K::ReduceScatter => self.compare(launch, &self.reduced, rank * elements, output),
            K::Broadcast => self.compare(launch, &self.rows[self.root as usize], 0, output),
            K::SendRecv => self.compare(launch, &self.rows[(rank + ranks - 1) % ranks], 0, output),
            K::AllGather | K::AllToAll => {
                let first = if self.kind == K::AllToAll { rank * part } else { 0 };
                // Without elements there are no parts.
                let parts = output.chunks_exact((part * size).max(1));
                parts.zip(&self.rows).map(|(part, row)| self.compare(launch, row, first, part)).sum()
            }
            K::Reduce | K::AllToAllV | K::Custom { .. } | K::Test { .. } => 0,
        }
    }

    /// Compares elements with a row, starting at its element `first`.
    fn compare(&self, launch: u64, row: &Row, first: usize, found: &[u8]) -> u64 {
        let size = self.dtype.size();
        let begin = self.begin(launch, first);
        let mut wrong = 0;
        for chunk in found.chunks(PERIOD * size) {
            if *chunk == row.bytes[begin..begin + chunk.len()] {
                continue;
            }
            for (index, element) in chunk.chunks_exact(size).enumerate() {
                let expected_element = row.covers[(begin / size + index) % PERIOD];
                let right = (read(self.dtype, element) - expected_element.value).abs() <= expected_element.tolerance;
                wrong += u64::from(!right);
            }
        }
        wrong
    }

    /// Returns the offset of an element of a launch in a row, in bytes.
    fn begin(&self, launch: u64, element: usize) -> usize {
        (element + ((launch % PERIOD as u64) * SHIFT) as usize) % PERIOD * self.dtype.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_expected_outputs_are_accepted() {
        let (ranks, part) = (3_usize, 700_usize);
        let cycles = |kind, dtype, op| -> Vec<PeriodicInputs> {
            (0..3)
                .map(|rank| PeriodicInputs::new(Collective { root: 1, ..Collective::new(kind) }, dtype, op, 3, rank))
                .collect()
        };
        let gather = cycles(CollectiveKind::AllGather, DataType::I32, None);
        let mut output = vec![0; ranks * part * 4];
        for (cycle, part) in gather.iter().zip(output.chunks_mut(part * 4)) {
            cycle.fill(5, part);
        }
        assert_eq!(gather[2].count_wrong(5, &output), 0);
        assert!(gather[2].count_wrong(6, &output) > 2000);
        output[4 * 777] ^= 1;
        assert_eq!(gather[2].count_wrong(5, &output), 1);
        // Two swapped parts, and one that is moved by a power of two.
        output[4 * 777] ^= 1;
        output.rotate_left(4 * 256);
        assert!(gather[0].count_wrong(5, &output) > 2000);

        for &dtype in DataType::ALL {
            let scatter = cycles(CollectiveKind::ReduceScatter, dtype, Some(ReduceOp::Max));
            let size = dtype.size();
            let inputs: Vec<Vec<u8>> = scatter
                .iter()
                .map(|cycle| {
                    let mut input = vec![0; ranks * part * size];
                    cycle.fill(2, &mut input);
                    input
                })
                .collect();
            let mut output = vec![0; part * size];
            for (index, element) in output.chunks_exact_mut(size).enumerate() {
                let at = (part + index) * size;
                let max_magnitude =
                    inputs.iter().map(|input| read(dtype, &input[at..at + size])).fold(f64::MIN, f64::max);
                write(dtype, max_magnitude, element);
            }
            assert_eq!(scatter[1].count_wrong(2, &output), 0, "{dtype}");
            assert!(scatter[0].count_wrong(2, &output) > 100, "{dtype}");
        }
        let empty = &cycles(CollectiveKind::AllToAll, DataType::F64, None)[0];
        assert_eq!(empty.count_wrong(0, &[]), 0);
    }
}
