//! Conversions between floats narrower than 32 bits and accumulator types.

use bytemuck::Pod;
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use super::number::Number;
use crate::dtype::{E4m3, E4m3B15, E5m2, to_odd};

/// A float type that is combined in `A`. Slices of one call have equal lengths.
pub trait Via<A: Number>: Pod {
    /// Converts exactly.
    fn widen(from: &[Self], to: &mut [A]);
    /// Rounds to the nearest value, ties to even where the type does not say otherwise.
    fn narrow(from: &[A], to: &mut [Self]);
}

#[inline(always)]
fn each<S: Copy, D>(from: &[S], to: &mut [D], convert: impl Fn(S) -> D) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = convert(from);
    }
}

impl Via<f32> for f16 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f32]) {
        from.convert_to_f32_slice(to);
    }
    #[inline]
    fn narrow(from: &[f32], to: &mut [Self]) {
        to.convert_from_f32_slice(from);
    }
}

impl Via<f64> for f16 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f64]) {
        from.convert_to_f64_slice(to);
    }
    #[inline]
    fn narrow(from: &[f64], to: &mut [Self]) {
        each(from, to, |value| Self::from_f32(to_odd(value)));
    }
}

/// Converts exactly.
#[inline(always)]
pub(super) fn widen_bf16(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// Rounds to nearest, ties to even: without branches, so that loops are vectorized.
#[inline(always)]
pub(super) fn narrow_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
    bf16::from_bits(if value.is_nan() { bits >> 16 | 0x40 } else { rounded } as u16)
}

impl Via<f32> for bf16 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f32]) {
        each(from, to, widen_bf16);
    }
    #[inline]
    fn narrow(from: &[f32], to: &mut [Self]) {
        each(from, to, narrow_bf16);
    }
}

impl Via<f64> for bf16 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f64]) {
        each(from, to, |value| f64::from(f32::from_bits(u32::from(value.to_bits()) << 16)));
    }
    #[inline]
    fn narrow(from: &[f64], to: &mut [Self]) {
        each(from, to, |value| Self::from_f32(to_odd(value)));
    }
}

macro_rules! fp8 {
    ($($type:ty),*) => { $(
        impl Via<f32> for $type {
            #[inline]
            fn widen(from: &[Self], to: &mut [f32]) {
                each(from, to, Self::to_f32);
            }
            #[inline]
            fn narrow(from: &[f32], to: &mut [Self]) {
                each(from, to, |value| Self::from_f64(value.into()));
            }
        }
        impl Via<f64> for $type {
            #[inline]
            fn widen(from: &[Self], to: &mut [f64]) {
                each(from, to, |value| Self::to_f32(value).into());
            }
            #[inline]
            fn narrow(from: &[f64], to: &mut [Self]) {
                each(from, to, Self::from_f64);
            }
        }
    )* };
}

fp8!(E4m3, E5m2, E4m3B15);

impl Via<f64> for f32 {
    #[inline]
    fn widen(from: &[Self], to: &mut [f64]) {
        each(from, to, f64::from);
    }
    #[inline]
    fn narrow(from: &[f64], to: &mut [Self]) {
        each(from, to, |value| value as Self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every value of a 16-bit type, the midpoint between it and its neighbor, and values just below and above
    /// that.
    fn rounds_to_nearest<T: Via<f64> + Via<f32> + PartialEq + std::fmt::Debug>(of: impl Fn(u16) -> T, infinity: u16) {
        for bits in 0..infinity - 1 {
            let (mut pair, mut out) = ([0.0_f64; 2], [of(0)]);
            T::widen(&[of(bits), of(bits + 1)], &mut pair);
            let middle = (pair[0] + pair[1]) / 2.0;
            let even = of(bits + (bits & 1));
            for (value, expected) in
                [(pair[0], of(bits)), (middle, even), (middle.next_down(), of(bits)), (middle.next_up(), of(bits + 1))]
            {
                T::narrow(&[value], &mut out);
                assert_eq!(out[0], expected, "{value:e} at {bits:#x}");
                let single = value as f32;
                if f64::from(single) == value {
                    T::narrow(&[single], &mut out);
                    assert_eq!(out[0], expected, "{single:e} at {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn f16_rounds_to_nearest() {
        rounds_to_nearest(f16::from_bits, f16::INFINITY.to_bits());
    }

    #[test]
    fn bf16_rounds_to_nearest() {
        rounds_to_nearest(bf16::from_bits, bf16::INFINITY.to_bits());
    }

    #[test]
    fn conversion_of_nan_is_nan() {
        let mut out = [bf16::ZERO; 2];
        bf16::narrow(&[f32::NAN, f32::from_bits(0xff80_0001)], &mut out);
        assert!(out.iter().all(|value| value.is_nan()));
    }
}
