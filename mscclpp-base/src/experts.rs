//! Rows of tokens that travel to experts: their layouts there, and the arithmetic of rows of fp8.

use half::{bf16, f16};

use crate::dtype::{E4m3, Element};

/// Elements of a row that share a scale.
pub const SCALE_GROUP: usize = 128;

/// Maximum alignment of the rows of an expert.
pub const MAX_ALIGNMENT: usize = 1 << 16;

/// The smallest magnitude for which a scale is computed.
const MIN_LARGEST: f32 = 1e-4;

/// Sizes of the calls of expert parallelism, the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExpertShape {
    /// Elements of a row.
    pub hidden: usize,
    /// Number of experts, a multiple of the number of ranks: expert e of E is on rank e / (E / P).
    pub num_experts: usize,
    /// Choices of a token.
    pub top_k: usize,
    /// Maximum number of tokens of a rank.
    pub max_tokens: usize,
}

impl ExpertShape {
    /// Returns the maximum number of rows from a rank to another one: the choices of a token are different.
    pub fn rows_of_pair(&self, ranks: u32) -> usize {
        self.max_tokens.saturating_mul(self.top_k.min(self.num_experts / (ranks as usize).max(1)))
    }

    /// Returns the number of rows of [`RowLayout::Slots`].
    pub fn slots(&self, ranks: u32) -> usize {
        // Of as many experts, a place for every token of every rank.
        let experts = self.num_experts / (ranks as usize).max(1);
        experts.saturating_mul(ranks as usize).saturating_mul(self.max_tokens)
    }
}

/// Where the rows for the experts of a rank are. In all layouts the rows of an expert are in the order of ranks, then of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowLayout {
    /// As many places for each expert, one for every token of every rank: those of the first expert, then those of the next one, …
    Slots,
    /// The rows of the rank's first expert, then those of the next one, … The first row of each is at a multiple of `alignment`; rows between
    /// are zero.
    ByExpert {
        /// 1 to [`MAX_ALIGNMENT`].
        alignment: usize,
    },
    /// The rows of rank 0, by expert, then those of rank 1, …
    ByRank,
}

impl RowLayout {
    /// Returns its alignment, if that is not supported.
    pub fn wrong_alignment(self) -> Option<usize> {
        match self {
            Self::ByExpert { alignment } => (!(1..=MAX_ALIGNMENT).contains(&alignment)).then_some(alignment),
            _ => None,
        }
    }
}

/// Elements of rows that are combined, in `f32`.
pub trait RowElement: Element {
    /// Returns the exact value.
    fn to_f32(self) -> f32;
    /// Returns the nearest value, ties to even.
    fn from_f32(value: f32) -> Self;
}

macro_rules! row_elements {
    ($($type:ty),*) => { $(
        impl RowElement for $type {
            fn to_f32(self) -> f32 {
                <$type>::to_f32(self)
            }
            fn from_f32(value: f32) -> Self {
                <$type>::from_f32(value)
            }
        }
    )* };
}
row_elements!(bf16, f16);

impl RowElement for f32 {
    fn to_f32(self) -> f32 {
        self
    }
    fn from_f32(value: f32) -> Self {
        value
    }
}

/// Rounds rows to e4m3, and returns them with a scale for every [`SCALE_GROUP`] elements, of which the rows have whole groups.
///
/// With a, the largest magnitude of a group, at least 1e-4, its scale is a / 448, and an element x becomes e4m3(x · (448 / a)): every step is
/// rounded to `f32`, and the last one to nearest even, at most 448. NaN is left out of the largest magnitude, and stays NaN.
pub fn quantize_rows<T: RowElement>(rows: &[T]) -> (Vec<E4m3>, Vec<f32>) {
    let mut quantized = Vec::with_capacity(rows.len());
    let scales = rows.chunks(SCALE_GROUP).map(|group| {
        let largest = group.iter().map(|x| x.to_f32().abs()).fold(MIN_LARGEST, f32::max);
        let factor = 448.0 / largest;
        quantized.extend(group.iter().map(|x| E4m3::from_f32(x.to_f32() * factor)));
        largest / 448.0
    });
    let scales = scales.collect();
    (quantized, scales)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_scales_of_their_own() {
        let mut rows = vec![0.0_f32; 3 * SCALE_GROUP];
        rows[5] = -896.0;
        rows[6] = 2.0;
        rows[SCALE_GROUP] = f32::NAN;
        rows[SCALE_GROUP + 1] = 1.0;
        let (quantized, scales) = quantize_rows(&rows);
        assert_eq!(scales, [2.0, 1.0 / 448.0, MIN_LARGEST / 448.0]);
        assert_eq!([quantized[5], quantized[6]].map(E4m3::to_f32), [-448.0, 1.0]);
        assert!(quantized[SCALE_GROUP].to_f32().is_nan());
        assert_eq!(quantized[SCALE_GROUP + 1].to_f32(), 448.0);
        assert!(quantized[2 * SCALE_GROUP..].iter().all(|x| x.to_f32() == 0.0));
    }
}
