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

use super::{LINE, LINES, Line, Tile, Via};
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

    fn of<T: Via<f32>>() -> Self {
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

fn add<T: Via<f32>>(tile: &mut Tile, other: &Tile) {
    let (mut left, mut right) = ([0.0; MAX_ELEMENTS], [0.0; MAX_ELEMENTS]);
    let (left, right) = (widen::<T>(tile, &mut left), widen::<T>(other, &mut right));
    left.iter_mut().zip(&*right).for_each(|(left, right)| *left += right);
    T::narrow(left, elements_mut(tile));
}

fn add_squares<T: Via<f32>>(partials: &mut [f32; PARTIALS], tile: &Tile, first: usize, vectors: usize) {
    let mut wide = [0.0; MAX_ELEMENTS];
    let wide = widen::<T>(tile, &mut wide);
    let first = first / TILE_VECTORS * TILE_VECTORS % PARTIALS;
    let partials = &mut partials[first..first + TILE_VECTORS];
    for (partial, vector) in partials.iter_mut().zip(wide.chunks_exact(VECTOR / size_of::<T>())).take(vectors) {
        for &value in vector {
            *partial += value * value;
        }
    }
}

fn normalize<T: Via<f32>>(tile: &mut Tile, gamma: Option<&Tile>, bias: f32, inverse: f32) {
    let mut wide = [0.0; MAX_ELEMENTS];
    let wide = widen::<T>(tile, &mut wide);
    match gamma {
        None => wide.iter_mut().for_each(|value| *value *= inverse),
        Some(gamma) => {
            let mut factors = [0.0; MAX_ELEMENTS];
            let factors = widen::<T>(gamma, &mut factors);
            for (value, &gamma) in wide.iter_mut().zip(&*factors) {
                *value = (*value * inverse) * (bias + gamma);
            }
        }
    }
    T::narrow(wide, elements_mut(tile));
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
