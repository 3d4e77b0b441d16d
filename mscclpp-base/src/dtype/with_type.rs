//! From a data type to the Rust type of its elements.

/// Evaluates an expression in which a name is the Rust type of a data type's elements. It is compiled for each of them.
///
/// ```
/// use mscclpp_exec::{DataType, Element, with_type};
///
/// fn zeros<T: Element>(count: usize) -> usize {
///     vec![T::zeroed(); count].len() * size_of::<T>()
/// }
/// assert_eq!(with_type!(DataType::BF16, T => zeros::<T>(3)), 6);
/// ```
#[macro_export]
macro_rules! with_type {
    ($dtype:expr, $name:ident => $run:expr) => {{
        macro_rules! run {
            ($type:ty) => {{
                type $name = $type;
                $run
            }};
        }
        match $dtype {
            $crate::DataType::I8 => run!(i8),
            $crate::DataType::U8 => run!(u8),
            $crate::DataType::I32 => run!(i32),
            $crate::DataType::U32 => run!(u32),
            $crate::DataType::I64 => run!(i64),
            $crate::DataType::U64 => run!(u64),
            $crate::DataType::F16 => run!($crate::__half::f16),
            $crate::DataType::BF16 => run!($crate::__half::bf16),
            $crate::DataType::F32 => run!(f32),
            $crate::DataType::F64 => run!(f64),
            $crate::DataType::F8E4M3 => run!($crate::E4m3),
            $crate::DataType::F8E5M2 => run!($crate::E5m2),
            $crate::DataType::F8E4M3B15 => run!($crate::E4m3B15),
        }
    }};
}
