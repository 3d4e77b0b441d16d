//! The element type of a data type.

/// Runs an expression for the element type of a data type.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $run:expr) => {{
        macro_rules! run {
            ($type:ty) => {{
                type $name = $type;
                $run
            }};
        }
        match $dtype {
            mscclpp_exec::DataType::I8 => run!(i8),
            mscclpp_exec::DataType::U8 => run!(u8),
            mscclpp_exec::DataType::I32 => run!(i32),
            mscclpp_exec::DataType::U32 => run!(u32),
            mscclpp_exec::DataType::I64 => run!(i64),
            mscclpp_exec::DataType::U64 => run!(u64),
            mscclpp_exec::DataType::F16 => run!(half::f16),
            mscclpp_exec::DataType::BF16 => run!(half::bf16),
            mscclpp_exec::DataType::F32 => run!(f32),
            mscclpp_exec::DataType::F64 => run!(f64),
            mscclpp_exec::DataType::F8E4M3 => run!(mscclpp_exec::E4m3),
            mscclpp_exec::DataType::F8E5M2 => run!(mscclpp_exec::E5m2),
            mscclpp_exec::DataType::F8E4M3B15 => run!(mscclpp_exec::E4m3B15),
        }
    }};
}

pub(crate) use with_type;
