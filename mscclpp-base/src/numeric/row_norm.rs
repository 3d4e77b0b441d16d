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

use bytemuck::Pod;
use half::{bf16, f16};

use super::small::{narrow_bf16, widen_bf16};
use super::{LINE, LINES, Line, Tile, Via, zeroed};
use crate::dtype::{DataType, E4m3};

/// Number of partial sums of squares.
pub const PARTIALS: usize = 256;

/// Bytes of the vectors that partial sums take.
pub const VECTOR: usize = 16;

/// Vectors of a tile. Tiles begin at multiples of it, and it divides the number of partial sums.
const TILE_VECTORS: usize = LINE * LINES / VECTOR;

/// Elements of a tile of the narrowest type.
const MAX_ELEMENTS: usize = LINE * LINES / 2;

/// The smallest scale of a row.
pub const MIN_SCALE: f32 = 1.0 / (512.0 * 448.0);

/// The steps of a row norm on tiles, for a type.
#[derive(Clone, Copy)]
pub struct RowFunctions {
    /// Adds the second tile to the first.
    pub add: fn(&mut Tile, &Tile),
    /// Adds the squares of vectors of a tile to partial sums, of which the first vector has a number in the row.
    pub add_squares: fn(&mut [f32; PARTIALS], &Tile, usize, usize),
    /// Multiplies a tile by the inverse, and by the sum of the bias and gamma.
    pub normalize: fn(&mut Tile, Option<&Tile>, f32, f32),
    /// Returns the largest magnitude of the first elements of a tile, and of a number.
    pub largest: fn(&Tile, usize, f32) -> f32,
    /// Quantizes the first elements of a tile, multiplied by a factor.
    pub quantize: fn(&Tile, usize, f32, &mut Tile),
}

impl RowFunctions {
    /// Returns the functions for a type; `None` for types of which no rows are normalized.
    pub fn new(dtype: DataType) -> Option<Self> {
        match dtype {
            DataType::F32 => Some(Self::of::<f32>()),
            DataType::F16 => Some(Self::of::<f16>()),
            DataType::BF16 => Some(Self::of::<bf16>()),
            _ => None,
        }
    }

    fn of<T: Map>() -> Self {
        Self {
            add: add::<T>,
            add_squares: add_squares::<T>,
            normalize: normalize::<T>,
            largest: largest::<T>,
            quantize: quantize::<T>,
        }
    }
}

/// Returns the sum of partial sums, and sets them to zero.
pub fn take_sum(partials: &mut [f32; PARTIALS]) -> f32 {
    let mut half = PARTIALS / 2;
    while half > 0 {
        let (first, second) = partials.split_at_mut(half);
        for (one, &other) in first.iter_mut().zip(&*second) {
            *one += other;
        }
        half /= 2;
    }
    let sum = partials[0];
    partials.fill(0.0);
    sum
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

/// Types whose elements are mapped in f32. Where elements are converted one by one, loops over them are vectorized without memory between
/// the conversions.
trait Map: Via<f32> {
    /// Replaces each element by what `f` returns for it and for that of the other slice.
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32);
}

impl Map for f32 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        elements.iter_mut().zip(others).for_each(|(element, other)| *element = f(*element, *other));
    }
}

impl Map for bf16 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        for (element, other) in elements.iter_mut().zip(others) {
            *element = narrow_bf16(f(widen_bf16(*element), widen_bf16(*other)));
        }
    }
}

impl Map for f16 {
    #[inline(always)]
    fn map(elements: &mut [Self], others: &[Self], f: impl Fn(f32, f32) -> f32) {
        let (mut wide, mut factors) = ([0.0; MAX_ELEMENTS], [0.0; MAX_ELEMENTS]);
        let (wide, factors) = (&mut wide[..elements.len()], &mut factors[..others.len()]);
        Self::widen(elements, wide);
        Self::widen(others, factors);
        f32::map(wide, factors, f);
        Self::narrow(wide, elements);
    }
}

type Wide = [f32; MAX_ELEMENTS];

/// Returns the elements of a tile, in the first places.
#[inline(always)]
fn widen<'w, T: Via<f32>>(tile: &Tile, wide: &'w mut Wide) -> &'w mut [f32] {
    let elements: &[T] = elements(tile);
    let wide = &mut wide[..elements.len()];
    T::widen(elements, wide);
    wide
}

#[inline(always)]
fn elements<T: Pod>(tile: &Tile) -> &[T] {
    bytemuck::cast_slice::<Line, T>(tile)
}

#[inline(always)]
fn elements_mut<T: Pod>(tile: &mut Tile) -> &mut [T] {
    bytemuck::cast_slice_mut::<Line, T>(tile)
}

fn add<T: Map>(tile: &mut Tile, other: &Tile) {
    T::map(elements_mut(tile), elements(other), |value, other| value + other);
}

fn add_squares<T: Via<f32>>(partials: &mut [f32; PARTIALS], tile: &Tile, first: usize, vectors: usize) {
    let first = first / TILE_VECTORS * TILE_VECTORS % PARTIALS;
    let partials = &mut partials[first..first + TILE_VECTORS];
    let vector = VECTOR / size_of::<T>();
    for (partial, values) in partials.iter_mut().zip(elements(tile).chunks_exact(vector)).take(vectors) {
        let mut squares = [0.0; VECTOR / 2];
        T::widen(values, &mut squares[..vector]);
        // The products of a vector are computed at once, and added one after the other.
        squares.iter_mut().for_each(|value| *value *= *value);
        squares[..vector].iter().for_each(|square| *partial += square);
    }
}

fn normalize<T: Map>(tile: &mut Tile, gamma: Option<&Tile>, bias: f32, inverse: f32) {
    match gamma {
        None => T::map(elements_mut(tile), elements(&zeroed::<LINES>()), |value, _| value * inverse),
        Some(gamma) => {
            T::map(elements_mut(tile), elements(gamma), |value, gamma| (value * inverse) * (bias + gamma));
        }
    }
}

fn largest<T: Via<f32>>(tile: &Tile, count: usize, largest: f32) -> f32 {
    let mut wide = [0.0; MAX_ELEMENTS];
    let wide = widen::<T>(tile, &mut wide);
    wide.iter().take(count).fold(largest, |largest, value| largest.max(value.abs()))
}

fn quantize<T: Via<f32>>(tile: &Tile, count: usize, factor: f32, to: &mut Tile) {
    let mut wide = [0.0; MAX_ELEMENTS];
    let wide = widen::<T>(tile, &mut wide);
    for (to, &value) in elements_mut::<E4m3>(to).iter_mut().zip(&*wide).take(count) {
        *to = E4m3::from_f32(value * factor);
    }
}
