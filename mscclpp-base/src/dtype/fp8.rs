//! 8-bit floats in software.

use bytemuck::{Pod, Zeroable};
use half::f16;

/// An 8-bit float with 4 exponent and 3 stored mantissa bits, as on NVIDIA and AMD (OCP) devices: no infinity, one NaN
/// per sign, largest finite value 448.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E4m3(pub u8);

/// An 8-bit float with 5 exponent and 2 stored mantissa bits: the upper half of an IEEE half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E5m2(pub u8);

/// The 8-bit float of the Triton compiler and the reference system with 4 exponent and 3 stored mantissa bits, whose exponent has
/// IEEE half's bias: every value is that half whose bits it has, shifted. No infinity and no NaN, largest value 1.875, smallest
/// positive one 2^-17. No device converts it in hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct E4m3B15(pub u8);

impl E4m3 {
    /// Returns the exact value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        E4M3[self.0 as usize]
    }

    /// Returns the nearest value, ties to even. Values above the largest finite value become that value, as in CUDA's
    /// conversions, and so do infinities; NaN stays NaN.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        Self(encode::<4, 3, 0x7e>(value))
    }

    /// Returns what [`from_f64`](Self::from_f64) returns. Without branches, so that it vectorizes.
    #[inline(always)]
    pub fn from_f32(value: f32) -> Self {
        let (sign, magnitude) = (value.to_bits() >> 24 & 0x80, value.to_bits() & 0x7fff_ffff);
        // At most 448.
        let capped = magnitude.min(0x43e0_0000);
        let normal = ((capped + 0x7_ffff + (capped >> 20 & 1)) >> 20).wrapping_sub((127 - 7) << 3);
        // Below 2^-6, steps are 2^-9: adding 2^14 rounds to them.
        let subnormal = (f32::from_bits(capped) + 16384.0).to_bits() - 0x4680_0000;
        let rounded = if capped < 0x3c80_0000 { subnormal } else { normal };
        Self((sign | if magnitude > 0x7f80_0000 { 0x7f } else { rounded }) as u8)
    }
}

impl E5m2 {
    /// Returns the exact value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        E5M2[self.0 as usize]
    }

    /// Returns the nearest value, ties to even. Values above the largest finite value become that value, as in CUDA's
    /// conversions, and so do infinities; NaN stays NaN.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        Self(encode::<5, 2, 0x7b>(value))
    }
}

impl E4m3B15 {
    /// Returns the exact value.
    #[inline]
    pub fn to_f32(self) -> f32 {
        E4M3B15[self.0 as usize]
    }

    /// Rounds as the reference system does: to the nearest half, ties to even, and that to the nearest value, ties away from zero.
    /// Values above the largest one become that value, and so do infinities; NaN becomes 1.875.
    #[inline]
    pub fn from_f64(value: f64) -> Self {
        let half = f16::from_f32(to_odd(value)).to_bits();
        // 1.875 as a half: adding half of a step to it does not reach the next one.
        let magnitude = (half & 0x7fff).min(0x3f80);
        // A device's conversion of NaN has no sign.
        let sign = if value.is_nan() { 0 } else { half >> 8 & 0x80 };
        Self((sign | (2 * magnitude + 0x80) >> 8) as u8)
    }
}

/// Returns the f32 next to a value towards zero, with its last bit set if it is not the value itself. Rounding that
/// once more to at most 22 bits gives the same result as rounding the value itself.
#[inline(always)]
pub fn to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    let towards_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(towards_zero | u32::from(back != value))
}

static E4M3: [f32; 256] = table::<4, 3, 7, 0x7e>();
static E5M2: [f32; 256] = table::<5, 2, 15, 0x7b>();
static E4M3B15: [f32; 256] = table::<4, 3, 15, 0x7f>();

const fn table<const E: u32, const M: u32, const BIAS: u32, const MAX: u8>() -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        values[bits] = decode::<E, M, BIAS, MAX>(bits as u8);
        bits += 1;
    }
    values
}

/// Decodes a value. `MAX`: bits of the largest finite value. The bits above it are infinity in E5M2, NaN in E4M3.
const fn decode<const E: u32, const M: u32, const BIAS: u32, const MAX: u8>(bits: u8) -> f32 {
    let sign = (bits as u32 >> 7) << 31;
    let magnitude = bits & 0x7f;
    if magnitude > MAX {
        let infinity = E == 5 && magnitude == MAX + 1;
        return f32::from_bits(sign | if infinity { 0x7f80_0000 } else { 0x7fc0_0000 });
    }
    let (exponent, mantissa) = ((magnitude >> M) as u32, (magnitude & ((1 << M) - 1)) as u32);
    if exponent == 0 {
        // mantissa × 2^(1 - BIAS - M), exact in f32.
        let scale = f32::from_bits((127 + 1 - BIAS - M) << 23);
        let value = mantissa as f32 * scale;
        return if sign == 0 { value } else { -value };
    }
    f32::from_bits(sign | (exponent + 127 - BIAS) << 23 | mantissa << (23 - M))
}

#[inline]
fn encode<const E: u32, const M: u32, const MAX: u8>(value: f64) -> u8 {
    let bits = value.to_bits();
    let sign = (bits >> 56) as u8 & 0x80;
    let magnitude = bits & (u64::MAX >> 1);
    if magnitude > f64::INFINITY.to_bits() {
        return sign | 0x7f;
    }
    let bias = (1_i64 << (E - 1)) - 1;
    // Minimum exponent of a normal number; below it the step between values stays the same.
    let exponent = ((magnitude >> 52) as i64 - 1023).max(1 - bias);
    let step = exponent - i64::from(M);
    if exponent > bias + 2 {
        return sign | MAX;
    }
    // In units of the step the result is an integer below 2^(M + 1); adding 2^52 rounds to it, ties to even.
    let scale = f64::from_bits(((1023 - step) as u64) << 52);
    let units = (f64::from_bits(magnitude) * scale + TWO_52).to_bits() - TWO_52.to_bits();
    // A mantissa that rounds up carries into the exponent without further work.
    let encoded = ((exponent - 1 + bias) as u64) << M;
    sign | (encoded + units).min(u64::from(MAX)) as u8
}

const TWO_52: f64 = 4_503_599_627_370_496.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nearest of all finite values, ties to the even encoding, by comparing with each.
    fn nearest(value: f64, of: impl Fn(u8) -> f32, max: u8) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        let distance = |bits: u8| (f64::from(of(bits)) - value.abs()).abs();
        let best = (0..=max).min_by(|&a, &b| distance(a).total_cmp(&distance(b)).then((a & 1).cmp(&(b & 1))));
        sign | best.unwrap()
    }

    #[test]
    fn conversions_match_known_values() {
        for (bits, value) in [(0x00, 0.0), (0x01, 0.001953125), (0x38, 1.0), (0x7e, 448.0), (0xb8, -1.0)] {
            assert_eq!(E4m3(bits).to_f32(), value, "{bits:#x}");
        }
        assert!(E4m3(0x7f).to_f32().is_nan() && E4m3(0xff).to_f32().is_nan());
        for bits in 0..=255 {
            let (value, half) = (E5m2(bits).to_f32(), half::f16::from_bits(u16::from(bits) << 8).to_f32());
            assert!(value.to_bits() == half.to_bits() || value.is_nan() && half.is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn conversions_with_bias_of_15_match_half() {
        for bits in 0..=255 {
            let half = f16::from_bits((u16::from(bits) & 0x80) << 8 | (u16::from(bits) & 0x7f) << 7);
            assert_eq!(E4m3B15(bits).to_f32().to_bits(), half.to_f32().to_bits(), "{bits:#x}");
            assert_eq!(E4m3B15::from_f64(E4m3B15(bits).to_f32().into()).0, bits);
        }
        // Ties go away from zero, where a half has rounded to one too.
        let two = |power: i32| 2_f64.powi(power);
        for (value, bits) in [
            (two(-19), 0),
            (two(-18), 1),
            (two(-18).next_down(), 1),
            (two(-18) * (1.0 - two(-8)), 1),
            (two(-18) * (1.0 - two(-6)), 0),
            (0.265625, 0x69),
            (0.265625 - two(-13), 0x69),
            (0.265625 - two(-12), 0x68),
            (1.75, 0x7e),
            (1.8125, 0x7f),
            (2.0, 0x7f),
            (f64::MAX, 0x7f),
            (f64::INFINITY, 0x7f),
        ] {
            assert_eq!(E4m3B15::from_f64(value).0, bits, "{value:e}");
            assert_eq!(E4m3B15::from_f64(-value).0, bits | 0x80, "{value:e}");
        }
        assert_eq!((E4m3B15::from_f64(f64::NAN).0, E4m3B15::from_f64(-f64::NAN).0), (0x7f, 0x7f));
    }

    #[test]
    fn encoding_rounds_to_nearest() {
        let mut values: Vec<f64> = (0..=255).flat_map(|b| [E4m3(b).to_f32().into(), E5m2(b).to_f32().into()]).collect();
        values.retain(|value: &f64| value.is_finite());
        values.sort_by(f64::total_cmp);
        let middles: Vec<f64> = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        values.extend(middles.iter().flat_map(|&middle| [middle, middle.next_up(), middle.next_down()]));
        values.extend([1e15, -1e15, 1e-300, f64::MIN_POSITIVE, 449.0, 464.0, 480.0, 60000.0, 61440.0, 1e9]);
        for value in values {
            assert_eq!(E4m3::from_f64(value).0, nearest(value, |bits| E4m3(bits).to_f32(), 0x7e), "{value:e}");
            assert_eq!(E5m2::from_f64(value).0, nearest(value, |bits| E5m2(bits).to_f32(), 0x7b), "{value:e}");
        }
    }

    #[test]
    fn encoding_of_f32_is_that_of_f64() {
        for high in 0..=0xffff_u32 {
            for low in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(high << 16 | low);
                assert_eq!(E4m3::from_f32(value), E4m3::from_f64(value.into()), "{value:e}");
            }
        }
    }

    #[test]
    fn special_values_are_converted() {
        assert!(E4m3::from_f64(f64::NAN).to_f32().is_nan() && E5m2::from_f64(f64::NAN).to_f32().is_nan());
        assert_eq!(E4m3::from_f64(f64::INFINITY).to_f32(), 448.0);
        assert_eq!(E4m3::from_f64(1e300).to_f32(), 448.0);
        assert_eq!(E5m2::from_f64(f64::NEG_INFINITY).to_f32(), -57344.0);
        assert_eq!(E4m3::from_f64(-0.0).0, 0x80);
    }
}
