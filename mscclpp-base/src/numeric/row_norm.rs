//! Arithmetic of row norms: one definition, whose bits all executors have.
//!
//! For a row of h elements x, which are the sums over the ranks, of a type T:
//!
//! 1. r = T(x + residual), added in f32.
//! 2. The squares of r, in f32, in [`PARTIALS`] partial sums: partial j takes the 16-byte vectors j, j + 256, … of the row,
//!    element by element, multiplication and addition each rounded. Then the second half of the partials is added to the
//!    first, until one is left: q.
//! 3. inv = 1 / sqrt(q / h + eps), every step rounded to nearest.
//! 4. y = T((r · inv) · (bias + gamma)); T(r · inv) without gamma.
//! 5. Quantized, e4m3(y · (1 / scale)), to nearest even, and at most 448. With a scale for each row, the scale is the
//!    larger of max |y| / 448 and 1 / (512 · 448); NaN is left out of the maximum.
//!
//! Nothing depends on the number of rows, on threads, or on where in a message a row is.

use half::{bf16, f16};

use super::small::{narrow_bf16, widen_bf16};
use super::{LINE, Line, Via};
use crate::dtype::{DataType, E4m3};

/// Number of partial sums of squares.
pub const PARTIALS: usize = 256;

/// Bytes of the vectors that partial sums take.
pub const VECTOR: usize = 16;

/// Lines whose squares are added at once, and their vectors.
pub const GROUP: usize = 4;
const GROUP_VECTORS: usize = GROUP * LINE / VECTOR;

/// Elements of a line of the narrowest type.
const MAX_ELEMENTS: usize = LINE / 2;

/// The smallest scale of a row.
pub const MIN_SCALE: f32 = 1.0 / (512.0 * 448.0);

/// Returns whether rows of a type are normalized.
pub const fn has_rows(dtype: DataType) -> bool {
    matches!(dtype, DataType::F32 | DataType::F16 | DataType::BF16)
}

/// Partial sums of the squares of a row.
#[derive(Debug)]
pub struct Partials([[f32; GROUP_VECTORS]; PARTIALS / GROUP_VECTORS]);

impl Partials {
    pub const ZERO: Self = Self([[0.0; GROUP_VECTORS]; PARTIALS / GROUP_VECTORS]);

    /// Adds the squares of a group of lines, which has a number in the row. Lines past the end of the row are zero.
    #[inline(always)]
    pub fn add_squares<T: RowElement>(&mut self, group: usize, lines: &[Line; GROUP]) {
        let vector = VECTOR / size_of::<T>();
        let mut squares = [0.0; GROUP * MAX_ELEMENTS];
        let squares = &mut squares[..GROUP_VECTORS * vector];
        T::widen(bytemuck::cast_slice::<Line, T>(lines), squares);
        squares.iter_mut().for_each(|value| *value *= *value);
        let partials = &mut self.0[group % (PARTIALS / GROUP_VECTORS)];
        for (partial, squares) in partials.iter_mut().zip(squares.chunks_exact(vector)) {
            squares.iter().for_each(|square| *partial += square);
        }
    }

    /// Returns the sum.
    pub fn sum(mut self) -> f32 {
        let partials = self.0.as_flattened_mut();
        let mut half = PARTIALS / 2;
        while half > 0 {
            let (first, second) = partials.split_at_mut(half);
            for (one, &other) in first.iter_mut().zip(&*second) {
                *one += other;
            }
            half /= 2;
        }
        partials[0]
    }
}

/// Returns the factor of a row of `hidden` elements, of which the squares add up to `sum`.
pub fn inverse(sum: f32, hidden: u64, eps: f32) -> f32 {
    1.0 / (sum / hidden as f32 + eps).sqrt()
}

/// Returns the scale of a row whose largest magnitude is given.
pub fn row_scale(largest: f32) -> f32 {
    (largest / 448.0).max(MIN_SCALE)
}

impl Via<f32> for f32 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
    #[inline]
    fn narrow(from: &[f32], to: &mut [Self]) {
        to.copy_from_slice(from);
    }
}

/// Types of rows, whose elements are mapped in f32. Where elements are converted one by one, loops over them are vectorized
/// without memory between the conversions.
pub trait RowElement: Via<f32> {
    /// Replaces each element by what `f` returns for it and for that of the other slice, which are those of a group of lines.
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32);
}

impl RowElement for f32 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        elements.iter_mut().zip(others).for_each(|(element, other)| *element = f(*element, *other));
    }
}

impl RowElement for bf16 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        for (element, other) in elements.iter_mut().zip(others) {
            *element = narrow_bf16(f(widen_bf16(*element), widen_bf16(*other)));
        }
    }
}

impl RowElement for f16 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        let (mut wide, mut factors) = ([0.0; GROUP * MAX_ELEMENTS], [0.0; GROUP * MAX_ELEMENTS]);
        Self::widen(elements, &mut wide);
        Self::widen(others, &mut factors);
        f32::map(&mut wide, &factors, f);
        Self::narrow(&wide, elements);
    }
}

/// Adds the elements of other lines.
#[inline(always)]
pub fn add_lines<T: RowElement>(lines: &mut [Line; GROUP], others: &[Line; GROUP]) {
    map::<T>(lines, others, |value, other| value + other);
}

/// Multiplies lines by the inverse, and by the sum of the bias and gamma.
#[inline(always)]
pub fn scale_lines<T: RowElement>(lines: &mut [Line; GROUP], gamma: Option<&[Line; GROUP]>, bias: f32, inverse: f32) {
    match gamma {
        None => map::<T>(lines, &[Line::ZERO; GROUP], |value, _| value * inverse),
        Some(gamma) => map::<T>(lines, gamma, |value, gamma| (value * inverse) * (bias + gamma)),
    }
}

/// Maps the elements of a group: loops over those of a line are unrolled before they are vectorized.
#[inline(always)]
fn map<T: RowElement>(lines: &mut [Line; GROUP], others: &[Line; GROUP], f: impl Fn(f32, f32) -> f32) {
    T::map(bytemuck::cast_slice_mut::<Line, T>(lines), bytemuck::cast_slice::<Line, T>(others), f);
}

/// Returns the largest magnitude of the first elements of lines, and of a number.
pub fn largest<T: RowElement>(lines: &[Line], count: usize, largest: f32) -> f32 {
    let values = bytemuck::cast_slice::<Line, T>(lines);
    let mut wide = [0.0; MAX_ELEMENTS];
    values[..count].chunks(LINE / size_of::<T>()).fold(largest, |largest, values| {
        let wide = &mut wide[..values.len()];
        T::widen(values, wide);
        wide.iter().fold(largest, |largest, value| largest.max(value.abs()))
    })
}

/// Quantizes the first elements of lines, multiplied by a factor.
pub fn quantize<T: RowElement>(lines: &[Line], count: usize, factor: f32, to: &mut [Line]) {
    let values = bytemuck::cast_slice::<Line, T>(lines);
    let each = LINE / size_of::<T>();
    let mut wide = [0.0; MAX_ELEMENTS];
    let to = bytemuck::cast_slice_mut::<Line, E4m3>(to);
    for (to, values) in to.chunks_mut(each).zip(values[..count].chunks(each)) {
        let wide = &mut wide[..values.len()];
        T::widen(values, wide);
        to.iter_mut().zip(&*wide).for_each(|(to, value)| *to = E4m3::from_f32(value * factor));
    }
}
