//! Prebuilt images by data type and accumulator.

use crate::dtype::DataType;
use crate::numeric::AccumType;

pub(super) use mscclpp_kernels::{CAPABILITY, TOOLKIT};

/// Returns the name and code of the kernels of a type and accumulator; `None` if [`AccumType::supports`] rejects the
/// pair.
pub(super) fn image(dtype: DataType, accumulate: AccumType) -> Option<(&'static str, &'static [u8])> {
    let name = name(dtype, accumulate)?;
    Some((name, mscclpp_kernels::image(name)?))
}

fn name(dtype: DataType, accumulate: AccumType) -> Option<&'static str> {
    macro_rules! images {
        ($($dtype:ident $accumulate:ident = $file:literal,)*) => {
            match (dtype, accumulate) {
                $((DataType::$dtype, AccumType::$accumulate) => Some($file),)*
                _ => None,
            }
        };
    }
    images! {
        I8 Native = "i8", U8 Native = "u8", I32 Native = "i32", U32 Native = "u32", I64 Native = "i64", U64 Native = "u64",
        F64 Native = "f64", F64 F64 = "f64",
        F32 Native = "f32", F32 F32 = "f32", F32 F64 = "f32_f64",
        F16 Native = "f16", F16 F32 = "f16_f32", F16 F64 = "f16_f64",
        BF16 Native = "bf16", BF16 F32 = "bf16_f32", BF16 F64 = "bf16_f64",
        F8E4M3 Native = "f8e4m3", F8E4M3 F32 = "f8e4m3_f32", F8E4M3 F64 = "f8e4m3_f64",
        F8E5M2 Native = "f8e5m2", F8E5M2 F32 = "f8e5m2_f32", F8E5M2 F64 = "f8e5m2_f64",
        F8E4M3B15 Native = "f8e4m3b15", F8E4M3B15 F32 = "f8e4m3b15_f32", F8E4M3B15 F64 = "f8e4m3b15_f64",
    }
}
