//! Arithmetic of single numbers.

use bytemuck::Pod;
use mscclpp_core::types::ReduceOp;

/// A type in which sources are combined.
pub trait Number: Pod {
    fn sum(self, other: Self) -> Self;
    fn prod(self, other: Self) -> Self;
    fn minimum(self, other: Self) -> Self;
    fn maximum(self, other: Self) -> Self;
    /// Divides by a number of ranks, which is at least 1.
    fn divide_by(self, ranks: u32) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                Ord::min(self, other)
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                Ord::max(self, other)
            }
            #[inline(always)]
            fn divide_by(self, ranks: u32) -> Self {
                // In a type that holds both; the quotient always fits into the original one.
                (i128::from(self) / i128::from(ranks)) as Self
            }
        }
    )* };
}

integers!(i8, u8, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty),*) => { $(
        impl Number for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn prod(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                // Of zeros -0.0, whatever their order.
                let equal = Self::from_bits(self.to_bits() | other.to_bits());
                if self < other || self.is_nan() { self } else if self == other { equal } else { other }
            }
            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                let equal = Self::from_bits(self.to_bits() & other.to_bits());
                if self > other || self.is_nan() { self } else if self == other { equal } else { other }
            }
            #[inline(always)]
            fn divide_by(self, ranks: u32) -> Self {
                self / ranks as Self
            }
        }
    )* };
}

floats!(f32, f64);

/// [`ReduceOp`] as a const argument, so that the selection is made outside of loops.
pub const SUM: u8 = ReduceOp::Sum as u8;
pub const PROD: u8 = ReduceOp::Prod as u8;
pub const MIN: u8 = ReduceOp::Min as u8;
pub const MAX: u8 = ReduceOp::Max as u8;

/// Combines two numbers.
#[inline(always)]
pub fn combine<N: Number, const OP: u8>(left: N, right: N) -> N {
    match OP {
        PROD => left.prod(right),
        MIN => left.minimum(right),
        MAX => left.maximum(right),
        _ => left.sum(right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_truncate() {
        assert_eq!(combine::<i8, SUM>(127, 1), -128);
        assert_eq!(combine::<u8, PROD>(16, 17), 16);
        assert_eq!((-7_i32).divide_by(2), -3);
        assert_eq!(u64::MAX.divide_by(3), u64::MAX / 3);
        assert_eq!((-100_i8).divide_by(200), 0);
    }

    #[test]
    fn minimum_and_maximum_of_zeros_do_not_depend_on_their_order() {
        for (left, right) in [(0.0, -0.0), (-0.0, 0.0)] {
            assert!(combine::<f32, MIN>(left, right).is_sign_negative());
            assert!(combine::<f32, MAX>(left, right).is_sign_positive());
            assert!(combine::<f64, MIN>(left.into(), right.into()).is_sign_negative());
            assert!(combine::<f64, MAX>(left.into(), right.into()).is_sign_positive());
        }
    }

    #[test]
    fn minimum_and_maximum_with_nan_are_nan() {
        for (left, right) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(combine::<f32, MIN>(left, right).is_nan());
            assert!(combine::<f32, MAX>(left, right).is_nan());
        }
        assert_eq!(combine::<f64, MIN>(-1.0, 2.0), -1.0);
        assert_eq!(combine::<f64, MAX>(-1.0, 2.0), 2.0);
    }
}
