//! Arithmetic of reductions, and the units in which their data is processed.
//!
//! Sums and products of integers wrap. Minimum and maximum of floats are NaN as soon as one operand is, and -0.0 is less than 0.0, whatever
//! the order. `Avg` adds, and divides once at the end of a launch: floats round that division like any other operation,
//! integers truncate it towards zero (and a sum that wrapped stays wrapped). For sums of f16, bf16 and e5m2 beyond the
//! largest finite value: f16 and bf16 become infinite, both fp8 types stay at the largest finite value.

mod block;
mod number;
pub mod row_norm;
mod small;
mod switch;

pub use block::{Accumulator, LINE, LINES, Line, Tile, zeroed};
pub use number::{MAX, MIN, Number, PROD, SUM, combine};
pub use small::Via;
pub use switch::{SwitchResult, switch_result};

use std::fmt;

use crate::dtype::DataType;

/// Type in which an operation combines several sources.
///
/// An operation loads one element of each source, combines them from left to right in this type, and rounds the result
/// to the message's type once. Between two operations a value is always in the message's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AccumType {
    /// The message's own type: every step rounds, as on the device. The only one for integers.
    #[default]
    Native,
    /// Single precision, for floats of at most 32 bits.
    F32,
    /// Double precision, for all floats.
    F64,
}

impl AccumType {
    /// Returns the name used in messages.
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns whether elements of a type can be combined in this type.
    #[doc(hidden)]
    pub const fn supports(self, dtype: DataType) -> bool {
        match self {
            Self::Native => true,
            Self::F32 => !dtype.is_integer() && !matches!(dtype, DataType::F64),
            Self::F64 => !dtype.is_integer(),
        }
    }

    /// Returns whether this type is wider than elements of `dtype`.
    #[doc(hidden)]
    pub const fn is_wider_than(self, dtype: DataType) -> bool {
        match self {
            Self::Native => false,
            Self::F32 => dtype.size() < 4,
            Self::F64 => dtype.size() < 8,
        }
    }
}

impl fmt::Display for AccumType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
