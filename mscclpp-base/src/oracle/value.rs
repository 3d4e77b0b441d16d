//! Elements as f64.

use half::{bf16, f16};

use crate::dtype::{DataType, E4m3, E4m3B15, E5m2};

/// Expands a macro arm for the Rust type of a data type.
macro_rules! with_type {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            DataType::I8 => {
                type $type = i8;
                $body
            }
            DataType::U8 => {
                type $type = u8;
                $body
            }
            DataType::I32 => {
                type $type = i32;
                $body
            }
            DataType::U32 => {
                type $type = u32;
                $body
            }
            DataType::I64 => {
                type $type = i64;
                $body
            }
            DataType::U64 => {
                type $type = u64;
                $body
            }
            DataType::F16 => {
                type $type = f16;
                $body
            }
            DataType::BF16 => {
                type $type = bf16;
                $body
            }
            DataType::F32 => {
                type $type = f32;
                $body
            }
            DataType::F64 => {
                type $type = f64;
                $body
            }
            DataType::F8E4M3 => {
                type $type = E4m3;
                $body
            }
            DataType::F8E5M2 => {
                type $type = E5m2;
                $body
            }
            DataType::F8E4M3B15 => {
                type $type = E4m3B15;
                $body
            }
        }
    };
}

/// Conversion from and to f64. Integers beyond 2^53 lose their last bits.
trait Value: bytemuck::Pod {
    fn of(value: f64) -> Self;
    fn value(self) -> f64;
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Value for $type {
            fn of(value: f64) -> Self {
                // Through a type that holds every sum, so that this wraps as the elements do.
                value as i128 as Self
            }
            fn value(self) -> f64 {
                self as f64
            }
        }
    )* };
}

integers!(i8, u8, i32, u32, i64, u64);

macro_rules! floats {
    ($($type:ty: $of:expr, $value:expr;)*) => { $(
        impl Value for $type {
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn value(self) -> f64 {
                f64::from($value(self))
            }
        }
    )* };
}

floats! {
    f16: f16::from_f64, f16::to_f32;
    bf16: bf16::from_f64, bf16::to_f32;
    f32: |value| value as f32, |value| value;
    f64: |value| value, |value| value;
    E4m3: E4m3::from_f64, E4m3::to_f32;
    E5m2: E5m2::from_f64, E5m2::to_f32;
    E4m3B15: E4m3B15::from_f64, E4m3B15::to_f32;
}

/// Writes a value as an element: floats rounded, integers wrapped.
pub fn write(dtype: DataType, value: f64, element: &mut [u8]) {
    with_type!(dtype, T => element.copy_from_slice(bytemuck::bytes_of(&T::of(value))));
}

/// Reads an element.
pub fn read(dtype: DataType, element: &[u8]) -> f64 {
    with_type!(dtype, T => bytemuck::pod_read_unaligned::<T>(element).value())
}

/// Returns a value after conversion to an element.
pub(super) fn as_element(dtype: DataType, value: f64) -> f64 {
    with_type!(dtype, T => T::of(value).value())
}
