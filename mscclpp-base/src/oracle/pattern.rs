//! Inputs: the same for the same seed, different for every rank and element.

use mscclpp_core::types::ReduceOp;

use super::value::as_element;
use crate::dtype::DataType;
use crate::random::Random;

/// Kind of input values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Pattern {
    /// Values whose reduction is exact in the message's type in any order, so that results must be equal: small
    /// integers for sums, few factors other than ±1 for products. Integer types also wrap.
    #[default]
    Exact,
    /// For floats: fractions between -1 and 1, whose sums round. Results may differ by a bound on the rounding error.
    Real,
}

/// The inputs of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    pub seed: u64,
    pub pattern: Pattern,
    pub dtype: DataType,
    /// `None` if nothing is reduced.
    pub op: Option<ReduceOp>,
    pub ranks: u32,
}

/// Number of ranks of a product whose factor is not ±1, for one element.
const FACTORS: u64 = 8;

impl Inputs {
    /// Returns element `index` of a rank's input, exactly as represented in the message's type.
    pub fn value(&self, rank: u32, index: u64) -> f64 {
        let of_element = Random(self.seed ^ index.wrapping_mul(0xd6e8_feb8_6659_fd93)).next();
        let bits = Random(of_element ^ u64::from(rank) << 32).next();
        if self.pattern == Pattern::Real && !self.dtype.is_integer() {
            // Converts 53 bits to a fraction in -1 .. 1.
            let fraction = (bits >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
            return as_element(self.dtype, fraction);
        }
        // Position of this rank in an order of the ranks that differs from element to element.
        let position = (u64::from(rank) + of_element % u64::from(self.ranks)) % u64::from(self.ranks);
        match self.op {
            Some(ReduceOp::Sum | ReduceOp::Avg) => self.term(bits, position) * self.unit(),
            Some(ReduceOp::Prod) => self.factor(bits, position),
            Some(ReduceOp::Min | ReduceOp::Max) | None => self.integer(bits, self.max_magnitude()) * self.unit(),
        }
    }

    /// Returns what integers are multiplied by so that the largest one is a value of the type.
    fn unit(&self) -> f64 {
        if self.dtype == DataType::F8E4M3B15 { 0.0625 } else { 1.0 }
    }

    /// Returns an integer up to a magnitude, without sign for unsigned types.
    fn integer(&self, bits: u64, max_magnitude: u64) -> f64 {
        if self.dtype.is_unsigned() {
            return (bits % (max_magnitude + 1)) as f64;
        }
        (bits % (2 * max_magnitude + 1)) as f64 - max_magnitude as f64
    }

    /// Returns the largest magnitude that is used: exact, and exact in f64 after summing over all ranks.
    fn max_magnitude(&self) -> u64 {
        let bits = self.dtype.significant_bits().min(40);
        // The largest integer of an integer type; for floats, the last of the consecutive integers.
        if self.dtype.is_integer() { (1 << bits) - 1 } else { 1 << bits }
    }

    fn term(&self, bits: u64, position: u64) -> f64 {
        // Integers may wrap; a sum of floats must stay exact.
        if self.dtype.is_integer() {
            return self.integer(bits, self.max_magnitude());
        }
        let each = self.max_magnitude() / u64::from(self.ranks);
        if each > 0 {
            return self.integer(bits, each);
        }
        // With more ranks than the type can count, only that many of them add a value.
        if position < self.max_magnitude() { self.integer(bits, 1) } else { 0.0 }
    }

    fn factor(&self, bits: u64, position: u64) -> f64 {
        let sign = if bits >> 63 != 0 && !self.dtype.is_unsigned() { -1.0 } else { 1.0 };
        let size = match (self.dtype.is_integer(), position) {
            (true, position) if position < FACTORS => [2.0, 3.0][bits as usize % 2],
            // Products of these have two significant bits, and every type has them.
            (false, 0) => [0.25, 0.5, 1.0][bits as usize % 3],
            (false, 1) => [1.0, 1.5][bits as usize % 2],
            _ => 1.0,
        };
        sign * size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_elements_and_sums_are_exact() {
        for &dtype in DataType::ALL {
            for op in [None, Some(ReduceOp::Sum), Some(ReduceOp::Prod), Some(ReduceOp::Max)] {
                for ranks in [1, 2, 5, 64] {
                    for pattern in [Pattern::Exact, Pattern::Real] {
                        let inputs = Inputs { seed: 3, pattern, dtype, op, ranks };
                        for index in 0..200 {
                            let values: Vec<f64> = (0..ranks).map(|rank| inputs.value(rank, index)).collect();
                            for &value in &values {
                                assert_eq!(as_element(dtype, value), value, "{dtype} {op:?} {ranks}");
                            }
                            if dtype.is_integer() || pattern == Pattern::Real {
                                continue;
                            }
                            let sum: f64 = values.iter().sum();
                            let product: f64 = values.iter().product();
                            let result = if op == Some(ReduceOp::Prod) { product } else { sum };
                            if matches!(op, Some(ReduceOp::Sum | ReduceOp::Prod)) {
                                assert_eq!(as_element(dtype, result), result, "{dtype} {op:?} {ranks}: {values:?}");
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn values_differ_between_ranks_and_elements() {
        let inputs =
            Inputs { seed: 1, pattern: Pattern::Exact, dtype: DataType::F32, op: Some(ReduceOp::Sum), ranks: 8 };
        let values: std::collections::BTreeSet<u64> =
            (0..8).flat_map(|rank| (0..100).map(move |index| inputs.value(rank, index).to_bits())).collect();
        assert!(values.len() > 790, "{} of 800 differ", values.len());
    }
}
