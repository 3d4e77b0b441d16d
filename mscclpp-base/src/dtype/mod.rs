//! Data types of messages.

mod element_name;
mod fp8;
mod with_type;

pub use element_name::{ElementName, ElementType};
pub use fp8::to_odd;
pub use fp8::{E4m3, E4m3B15, E5m2};

use std::fmt;
use std::str::FromStr;

use bytemuck::Pod;
use half::{bf16, f16};

/// Declares [`DataType`] and implements [`Element`] for the Rust type of each.
macro_rules! data_types {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal $(| $alias:literal)*: $type:ty, $size:literal;)*) => {
        /// The type of a message's elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DataType { $($(#[doc = $doc])* $name,)* }

        impl DataType {
            /// All types, in the order of their discriminants.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the bytes per element: 1, 2, 4 or 8.
            pub const fn size(self) -> usize {
                match self { $(Self::$name => $size,)* }
            }

            /// Returns the name used on the command line and in messages.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Returns the type with a name, of this library or of nccl-tests: `f32` and `float`, `bf16` and
            /// `bfloat16`.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text $(| $alias)* => Some(Self::$name),)* _ => None }
            }
        }

        $(
            impl sealed::Sealed for $type {}
            impl Element for $type { const TYPE: DataType = DataType::$name; }
            const _: () = assert!(size_of::<$type>() == $size && align_of::<$type>() == $size);
        )*
    };
}

data_types! {
    /// 8-bit signed integer; sums and products wrap.
    I8 = "i8" | "int8": i8, 1;
    /// 8-bit unsigned integer; sums and products wrap.
    U8 = "u8" | "uint8": u8, 1;
    /// 32-bit signed integer; sums and products wrap.
    I32 = "i32" | "int32" | "int": i32, 4;
    /// 32-bit unsigned integer; sums and products wrap.
    U32 = "u32" | "uint32": u32, 4;
    /// 64-bit signed integer; sums and products wrap.
    I64 = "i64" | "int64": i64, 8;
    /// 64-bit unsigned integer; sums and products wrap.
    U64 = "u64" | "uint64": u64, 8;
    /// IEEE half precision: 11 significant bits.
    F16 = "f16" | "half" | "float16": f16, 2;
    /// The upper half of a single: 8 significant bits.
    BF16 = "bf16" | "bfloat16": bf16, 2;
    /// IEEE single precision: 24 significant bits.
    F32 = "f32" | "float" | "float32": f32, 4;
    /// IEEE double precision: 53 significant bits.
    F64 = "f64" | "double" | "float64": f64, 8;
    /// 8-bit float with 4 exponent bits: 4 significant bits, largest finite value 448, no infinity.
    F8E4M3 = "f8e4m3" | "fp8_e4m3" | "e4m3": E4m3, 1;
    /// 8-bit float with 5 exponent bits: 3 significant bits, largest finite value 57344.
    F8E5M2 = "f8e5m2" | "fp8_e5m2" | "e5m2": E5m2, 1;
    /// 8-bit float with 4 exponent bits of bias 15: 4 significant bits, largest value 1.875, neither infinity nor NaN.
    F8E4M3B15 = "f8e4m3b15" | "fp8_e4m3b15" | "e4m3b15": E4m3B15, 1;
}

impl DataType {
    /// Returns whether values are integers.
    #[doc(hidden)]
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I8 | Self::U8 | Self::I32 | Self::U32 | Self::I64 | Self::U64)
    }

    /// Returns whether there are no negative values.
    #[doc(hidden)]
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U32 | Self::U64)
    }

    /// Returns the number of significant bits: every integer up to 2 to this power is exact, or every 16th up to 1 where 1.875 is the
    /// largest value. For integers, the bits of the largest value.
    #[doc(hidden)]
    pub const fn significant_bits(self) -> u32 {
        match self {
            Self::I8 => 7,
            Self::U8 | Self::BF16 => 8,
            Self::I32 => 31,
            Self::U32 => 32,
            Self::I64 => 63,
            Self::U64 => 64,
            Self::F16 => 11,
            Self::F32 => 24,
            Self::F64 => 53,
            Self::F8E4M3 | Self::F8E4M3B15 => 4,
            Self::F8E5M2 => 3,
        }
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataType {
    type Err = ParseDataTypeError;

    fn from_str(name: &str) -> Result<Self, ParseDataTypeError> {
        Self::from_name(name).ok_or_else(|| ParseDataTypeError(name.to_owned()))
    }
}

/// The text is not the name of a data type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDataTypeError(String);

impl fmt::Display for ParseDataTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown data type `{}`, expected one of", self.0)?;
        for (i, dtype) in DataType::ALL.iter().enumerate() {
            write!(f, "{} {dtype}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl std::error::Error for ParseDataTypeError {}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices can be messages.
///
/// Every bit pattern of such a type is a value, and it is aligned to its size.
pub trait Element: Pod + Send + Sync + sealed::Sealed {
    /// The corresponding data type.
    const TYPE: DataType;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_to_types() {
        for &dtype in DataType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("bfloat16".parse(), Ok(DataType::BF16));
        let error = "f33".parse::<DataType>().unwrap_err().to_string();
        assert!(error.starts_with("unknown data type `f33`, expected one of i8, u8"), "{error}");
    }
}
