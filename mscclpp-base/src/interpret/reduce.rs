//! Reductions of tiles: one set of functions for each type, operation and accumulator.

use half::{bf16, f16};
use mscclpp_core::types::ReduceOp;

use crate::dtype::{DataType, E4m3, E4m3B15, E5m2};
use crate::memory::{Lines, fuse};
use crate::numeric::{
    AccumType, Accumulator, LINE, LINES, Line, MAX, MIN, Number, PROD, SUM, Tile, Via, combine, zeroed,
};

/// Functions that combine sources: `start` with the first, `add` each other one, `finish`. Elements past the end of the data
/// in a caller's last tile are computed as well and have no meaning.
#[derive(Clone, Copy)]
pub struct Reducer {
    pub start: fn(&mut Accumulator, &Tile, usize),
    pub add: fn(&mut Accumulator, &Tile, usize),
    /// `None` if the accumulator's first lines are the result.
    pub finish: Option<fn(&Accumulator, &mut Tile, usize)>,
    /// Combines everything at once, from memory to memory, for types that are their own accumulators: see [`fuse`].
    pub fuse: Option<Fuse>,
}

/// Combines lines of sources into lines of destinations, with or without non-temporal stores.
pub(super) type Fuse = fn(&[Lines<'_>], &[Lines<'_>]);

/// Divides the elements of a tile by the number of ranks.
pub(super) type Divider = fn(&mut Tile, u32);

impl Reducer {
    /// Returns the functions for a type; `None` if it cannot be combined in that accumulator. An average is added up.
    pub fn new(dtype: DataType, op: ReduceOp, accumulate: AccumType) -> Option<Self> {
        if !accumulate.supports(dtype) {
            return None;
        }
        let wide = accumulate == AccumType::F64;
        Some(match dtype {
            DataType::I8 => native::<i8>(op),
            DataType::U8 => native::<u8>(op),
            DataType::I32 => native::<i32>(op),
            DataType::U32 => native::<u32>(op),
            DataType::I64 => native::<i64>(op),
            DataType::U64 => native::<u64>(op),
            DataType::F64 => native::<f64>(op),
            DataType::F32 if wide => via::<f32, f64>(op),
            DataType::F32 => native::<f32>(op),
            DataType::F16 => small::<f16>(op, accumulate),
            DataType::BF16 => small::<bf16>(op, accumulate),
            DataType::F8E4M3 => small::<E4m3>(op, accumulate),
            DataType::F8E5M2 => small::<E5m2>(op, accumulate),
            DataType::F8E4M3B15 => small::<E4m3B15>(op, accumulate),
        })
    }
}

/// Returns the division that ends an average.
pub(super) fn divider(dtype: DataType) -> Divider {
    match dtype {
        DataType::I8 => divide::<i8>,
        DataType::U8 => divide::<u8>,
        DataType::I32 => divide::<i32>,
        DataType::U32 => divide::<u32>,
        DataType::I64 => divide::<i64>,
        DataType::U64 => divide::<u64>,
        DataType::F32 => divide::<f32>,
        DataType::F64 => divide::<f64>,
        DataType::F16 => divide_small::<f16>,
        DataType::BF16 => divide_small::<bf16>,
        DataType::F8E4M3 => divide_small::<E4m3>,
        DataType::F8E5M2 => divide_small::<E5m2>,
        DataType::F8E4M3B15 => divide_small::<E4m3B15>,
    }
}

/// Selects the functions for an operation.
macro_rules! by_op {
    ($op:expr, $add:ident::<$($type:ty),*>) => {
        match $op {
            ReduceOp::Sum | ReduceOp::Avg => $add::<$($type,)* SUM>,
            ReduceOp::Prod => $add::<$($type,)* PROD>,
            ReduceOp::Min => $add::<$($type,)* MIN>,
            ReduceOp::Max => $add::<$($type,)* MAX>,
        }
    };
}

/// Returns the functions for types that are their own accumulators.
fn native<T: Number>(op: ReduceOp) -> Reducer {
    Reducer { start, add: by_op!(op, add::<T>), finish: None, fuse: Some(by_op!(op, fuse::<T>)) }
}

/// Returns the functions for types that are combined in a wider one.
fn small<T: Via<f32> + Via<f64>>(op: ReduceOp, accumulate: AccumType) -> Reducer {
    match accumulate {
        AccumType::Native => Reducer { start, add: by_op!(op, add_rounding::<T>), finish: None, fuse: None },
        AccumType::F32 => via::<T, f32>(op),
        AccumType::F64 => via::<T, f64>(op),
    }
}

fn via<T: Via<A>, A: Number>(op: ReduceOp) -> Reducer {
    Reducer { start: start_via::<T, A>, add: by_op!(op, add_via::<T, A>), finish: Some(finish_via::<T, A>), fuse: None }
}

fn elements<T: bytemuck::Pod>(lines: &[Line]) -> &[T] {
    bytemuck::cast_slice(lines)
}

fn elements_mut<T: bytemuck::Pod>(lines: &mut [Line]) -> &mut [T] {
    bytemuck::cast_slice_mut(lines)
}

fn start(acc: &mut Accumulator, block: &Tile, lines: usize) {
    acc[..lines].copy_from_slice(&block[..lines]);
}

fn add<T: Number, const OP: u8>(acc: &mut Accumulator, block: &Tile, lines: usize) {
    for (acc, line) in acc.iter_mut().zip(&block[..lines]) {
        let acc = elements_mut::<T>(std::slice::from_mut(acc));
        for (acc, &value) in acc.iter_mut().zip(elements::<T>(std::slice::from_ref(line))) {
            *acc = combine::<T, OP>(*acc, value);
        }
    }
}

/// Performs every step in f32, and rounds its result back.
fn add_rounding<T: Via<f32>, const OP: u8>(acc: &mut Accumulator, block: &Tile, lines: usize) {
    for (acc, line) in acc.iter_mut().zip(&block[..lines]) {
        let acc = elements_mut::<T>(std::slice::from_mut(acc));
        let (mut left, mut right) = ([0.0; LINE], [0.0; LINE]);
        let (left, right) = (&mut left[..acc.len()], &mut right[..acc.len()]);
        T::widen(acc, left);
        T::widen(elements::<T>(std::slice::from_ref(line)), right);
        for (left, &right) in left.iter_mut().zip(&*right) {
            *left = combine::<f32, OP>(*left, right);
        }
        T::narrow(left, acc);
    }
}

/// Returns the number of lines that the elements of `lines` lines fill in an accumulator of another width.
fn widened<T, A>(lines: usize) -> usize {
    lines * size_of::<A>() / size_of::<T>()
}

fn start_via<T: Via<A>, A: Number>(acc: &mut Accumulator, block: &Tile, lines: usize) {
    T::widen(elements(&block[..lines]), elements_mut(&mut acc[..widened::<T, A>(lines)]));
}

fn add_via<T: Via<A>, A: Number, const OP: u8>(acc: &mut Accumulator, block: &Tile, lines: usize) {
    let each = widened::<T, A>(1);
    for (acc, line) in acc.chunks_exact_mut(each).zip(&block[..lines]) {
        let mut wide = zeroed::<LINES>();
        let wide: &mut [A] = elements_mut(&mut wide[..each]);
        T::widen(elements(std::slice::from_ref(line)), wide);
        for (acc, &value) in elements_mut::<A>(acc).iter_mut().zip(&*wide) {
            *acc = combine::<A, OP>(*acc, value);
        }
    }
}

fn finish_via<T: Via<A>, A: Number>(acc: &Accumulator, block: &mut Tile, lines: usize) {
    T::narrow(elements(&acc[..widened::<T, A>(lines)]), elements_mut(&mut block[..lines]));
}

fn divide<T: Number>(block: &mut Tile, ranks: u32) {
    for value in elements_mut::<T>(block) {
        *value = value.divide_by(ranks);
    }
}

fn divide_small<T: Via<f32>>(block: &mut Tile, ranks: u32) {
    for line in block {
        let line = elements_mut::<T>(std::slice::from_mut(line));
        let mut wide = [0.0; LINE];
        let wide = &mut wide[..line.len()];
        T::widen(line, wide);
        wide.iter_mut().for_each(|value| *value = value.divide_by(ranks));
        T::narrow(wide, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Element;

    fn block<T: Element>(value: impl Fn(usize) -> T) -> Tile {
        let mut block = zeroed();
        elements_mut(&mut block).iter_mut().enumerate().for_each(|(i, element)| *element = value(i));
        block
    }

    fn reduce<T: Element>(op: ReduceOp, accumulate: AccumType, sources: &[Tile]) -> Vec<T> {
        let reducer = Reducer::new(T::TYPE, op, accumulate).unwrap();
        let (mut acc, mut out) = (zeroed(), zeroed());
        (reducer.start)(&mut acc, &sources[0], LINES);
        sources[1..].iter().for_each(|source| (reducer.add)(&mut acc, source, LINES));
        match reducer.finish {
            Some(finish) => finish(&acc, &mut out, LINES),
            None => out.copy_from_slice(&acc[..LINES]),
        }
        elements::<T>(&out).to_vec()
    }

    #[test]
    fn every_type_and_operation_is_exact_on_small_integers() {
        fn check<T: Element + PartialEq + std::fmt::Debug>(of: impl Fn(i32) -> T) {
            // Three values whose sum and product stay exact in every type.
            let values = |i: usize| [[1, 2, 0], [2, 1, 2], [0, 3, 1], [2, 2, 2]][i % 4];
            let sources: Vec<_> = (0..3).map(|s| block(|i| of(values(i)[s]))).collect();
            for accumulate in [AccumType::Native, AccumType::F32, AccumType::F64] {
                for op in ReduceOp::ALL {
                    let Some(_) = Reducer::new(T::TYPE, op, accumulate) else {
                        assert!(!accumulate.supports(T::TYPE));
                        continue;
                    };
                    let expected: Vec<T> = (0..LINES * LINE / size_of::<T>())
                        .map(|i| {
                            let [a, b, c] = values(i);
                            of(match op {
                                ReduceOp::Sum | ReduceOp::Avg => a + b + c,
                                ReduceOp::Prod => a * b * c,
                                ReduceOp::Min => a.min(b).min(c),
                                ReduceOp::Max => a.max(b).max(c),
                            })
                        })
                        .collect();
                    assert_eq!(reduce::<T>(op, accumulate, &sources), expected, "{} {op} {accumulate}", T::TYPE);
                }
            }
        }
        check(|v| v as i8);
        check(|v| v as u8);
        check(|v| v);
        check(|v| v as u32);
        check(i64::from);
        check(|v| v as u64);
        check(|v| f16::from_f32(v as f32));
        check(|v| bf16::from_f32(v as f32));
        check(|v| v as f32);
        check(f64::from);
        check(|v| E4m3::from_f64(v.into()));
        check(|v| E5m2::from_f64(v.into()));
    }

    #[test]
    fn floats_with_bias_of_15_round_at_every_step_or_once() {
        let sum = |accumulate, values: [f64; 3]| {
            let sources = values.map(|value| block(|_| E4m3B15::from_f64(value)));
            reduce::<E4m3B15>(ReduceOp::Sum, accumulate, &sources)[0].to_f32()
        };
        for accumulate in [AccumType::Native, AccumType::F32, AccumType::F64] {
            assert_eq!(sum(accumulate, [0.5, 0.75, 0.125]), 1.375, "{accumulate}");
        }
        // The largest value, or the sum as it is.
        assert_eq!(sum(AccumType::Native, [1.75, 1.75, -1.5]), 0.375);
        assert_eq!(sum(AccumType::F32, [1.75, 1.75, -1.75]), 1.75);
        // Halves of a step: lost or gained twice natively, once in f64.
        assert_eq!(sum(AccumType::Native, [1.0, 0.0625, 0.0625]), 1.25);
        assert_eq!(sum(AccumType::F64, [1.0, 0.0625, 0.0625]), 1.125);
    }

    #[test]
    fn wider_accumulator_rounds_once() {
        // 2048 + 1 + 1: in f16 each addition of 1 is lost, in f32 their sum is not.
        let sources = [2048.0, 1.0, 1.0].map(|value| block(|_| f16::from_f32(value)));
        assert_eq!(reduce::<f16>(ReduceOp::Sum, AccumType::Native, &sources)[0].to_f32(), 2048.0);
        assert_eq!(reduce::<f16>(ReduceOp::Sum, AccumType::F32, &sources)[0].to_f32(), 2050.0);
        assert_eq!(reduce::<f16>(ReduceOp::Sum, AccumType::F64, &sources)[0].to_f32(), 2050.0);
    }

    #[test]
    fn division_rounds_floats_and_truncates_integers() {
        let mut floats = block(|i| f16::from_f32(i as f32));
        divider(DataType::F16)(&mut floats, 4);
        assert_eq!(elements::<f16>(&floats)[7].to_f32(), 1.75);
        let mut integers = block(|_| -7_i64);
        divider(DataType::I64)(&mut integers, 2);
        assert_eq!(elements::<i64>(&integers)[0], -3);
    }
}
