//! Expected outputs of a collective, element by element.

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::types::ReduceOp;

use super::pattern::{Inputs, Pattern};
use super::value::as_element;
use crate::dtype::DataType;

/// The oracle of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub collective: Collective,
    pub inputs: Inputs,
    /// Number of elements of a rank's input and output.
    pub input_len: u64,
    pub output_len: u64,
    /// Rank distance over which a send-receive sends.
    pub distance: u32,
}

/// An expected element: its value, and the tolerance of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedElement {
    pub value: f64,
    pub tolerance: f64,
}

impl ExpectedElement {
    /// Returns whether a result is the expected one. NaN is one value whatever its payload, which devices do not keep.
    pub fn is_met_by(self, found: f64) -> bool {
        // An infinity has no difference to itself.
        found == self.value || found.is_nan() && self.value.is_nan() || (found - self.value).abs() <= self.tolerance
    }
}

impl Expected {
    /// Returns whether the postcondition covers a rank's output.
    pub fn covers(&self, rank: u32) -> bool {
        match self.collective.kind {
            CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => false,
            CollectiveKind::Reduce => rank == self.collective.root,
            _ => true,
        }
    }

    /// Returns whether all ranks have the same expected output.
    pub fn is_uniform(&self) -> bool {
        matches!(
            self.collective.kind,
            CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::Broadcast
        )
    }

    /// Returns the expected element `index` of a rank's output. Only for ranks that the postcondition covers.
    pub fn element(&self, rank: u32, index: u64) -> ExpectedElement {
        let ranks = u64::from(self.inputs.ranks);
        let copied =
            |from: u64, index: u64| ExpectedElement { value: self.inputs.value(from as u32, index), tolerance: 0.0 };
        match self.collective.kind {
            CollectiveKind::AllReduce | CollectiveKind::Reduce => self.reduced(index),
            CollectiveKind::ReduceScatter => self.reduced(u64::from(rank) * self.output_len + index),
            CollectiveKind::AllGather => copied(index / self.input_len, index % self.input_len),
            CollectiveKind::AllToAll => {
                let part = self.output_len / ranks;
                copied(index / part, u64::from(rank) * part + index % part)
            }
            CollectiveKind::SendRecv => {
                copied((u64::from(rank) + ranks - u64::from(self.distance) % ranks) % ranks, index)
            }
            CollectiveKind::Broadcast => copied(self.collective.root.into(), index),
            CollectiveKind::AllToAllV | CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => {
                ExpectedElement { value: 0.0, tolerance: f64::INFINITY }
            }
        }
    }

    fn reduced(&self, index: u64) -> ExpectedElement {
        self.combined((0..self.inputs.ranks).map(|rank| (rank, Some(index))))
    }

    /// Returns the reduction of some elements of inputs, each as often as it is named, or a copy of the only one. A `None` element is past the end of its input, where zeros are.
    pub fn combined(&self, elements: impl ExactSizeIterator<Item = (u32, Option<u64>)> + Clone) -> ExpectedElement {
        let Inputs { dtype, op, ranks, pattern, .. } = self.inputs;
        let count = elements.len();
        let value = |(rank, index): (u32, Option<u64>)| index.map_or(0.0, |index| self.inputs.value(rank, index));
        let values = || elements.clone().map(value);
        let op = if count == 1 { ReduceOp::Sum } else { op.unwrap_or_default() };
        let (value, scale) = match op {
            ReduceOp::Sum | ReduceOp::Avg => (values().sum::<f64>(), values().map(f64::abs).sum()),
            // Integers wrap at every step, so that large products stay exact.
            ReduceOp::Prod if dtype.is_integer() => {
                (values().fold(1.0, |product, value| as_element(dtype, product * value)), 0.0)
            }
            ReduceOp::Prod => (values().product(), values().map(f64::abs).product()),
            ReduceOp::Min => (values().fold(f64::INFINITY, f64::min), 0.0),
            ReduceOp::Max => (values().fold(f64::NEG_INFINITY, f64::max), 0.0),
        };
        // Integers wrap before they are divided.
        let value = if dtype.is_integer() { as_element(dtype, value) } else { value };
        let divisor = if op == ReduceOp::Avg { f64::from(ranks) } else { 1.0 };
        let quotient = if dtype.is_integer() { (value / divisor).trunc() } else { value / divisor };
        let roundings = if dtype.is_integer() {
            0.0
        } else {
            // Inputs are chosen so that combining one element of each rank is exact.
            let exact = count == 1 || pattern == Pattern::Exact && count <= ranks as usize;
            let steps = if exact { 0.0 } else { count as f64 };
            // The division itself rounds, in narrow types once in f32 and once more.
            steps + if op == ReduceOp::Avg { 1.0 } else { 0.0 }
        };
        ExpectedElement { value: quotient, tolerance: roundings * step(dtype, scale / divisor) }
    }
}

/// Returns at least the distance between two neighboring values of a type around a magnitude.
fn step(dtype: DataType, magnitude: f64) -> f64 {
    let relative = 0.5_f64.powi(dtype.significant_bits() as i32 - 1);
    let smallest = match dtype {
        DataType::F16 => 0.5_f64.powi(24),
        DataType::F8E4M3 => 0.5_f64.powi(9),
        DataType::F8E5M2 => 0.5_f64.powi(16),
        DataType::F8E4M3B15 => 0.5_f64.powi(17),
        _ => 0.0,
    };
    (magnitude * relative).max(smallest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(kind: CollectiveKind, ranks: u32, input_len: u64, output_len: u64, op: Option<ReduceOp>) -> Expected {
        let inputs = Inputs { seed: 9, pattern: Pattern::Exact, dtype: DataType::I32, op, ranks };
        Expected { collective: Collective::new(kind), inputs, input_len, output_len, distance: 1 }
    }

    #[test]
    fn expected_outputs_of_data_movement() {
        let gather = expected(CollectiveKind::AllGather, 3, 5, 15, None);
        assert_eq!(gather.element(0, 11).value, gather.inputs.value(2, 1));
        let exchange = expected(CollectiveKind::AllToAll, 3, 15, 15, None);
        assert_eq!(exchange.element(1, 11).value, exchange.inputs.value(2, 6));
        let ring = expected(CollectiveKind::SendRecv, 3, 5, 5, None);
        assert_eq!(ring.element(0, 4).value, ring.inputs.value(2, 4));
    }

    #[test]
    fn expected_outputs_of_reductions() {
        let scatter = expected(CollectiveKind::ReduceScatter, 2, 6, 3, Some(ReduceOp::Max));
        assert_eq!(scatter.element(1, 2).value, scatter.inputs.value(0, 5).max(scatter.inputs.value(1, 5)));
        let average = expected(CollectiveKind::AllReduce, 3, 6, 6, Some(ReduceOp::Avg));
        let sum = (0..3).map(|rank| average.inputs.value(rank, 2) as i64).sum::<i64>() as i32;
        assert_eq!(average.element(1, 2), ExpectedElement { value: f64::from(sum / 3), tolerance: 0.0 });
        assert!(!Expected { collective: Collective::new(CollectiveKind::Reduce), ..average }.covers(1));
    }

    #[test]
    fn nan_meets_nan_alone() {
        let other_payload = f64::from_bits(f64::NAN.to_bits() | 1);
        let met = |value, found| ExpectedElement { value, tolerance: 1.0 }.is_met_by(found);
        assert!(met(f64::NAN, other_payload) && met(f64::INFINITY, f64::INFINITY) && met(1.0, 2.0));
        assert!(!met(f64::NAN, 1.0) && !met(1.0, f64::NAN) && !met(f64::INFINITY, f64::NEG_INFINITY) && !met(1.0, 2.5));
    }
}
