//! Reductions as PyTorch names them, and how they are made on elements of each type.

use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;

use crate::failure::Failure;
use crate::tensor::Kind;

/// `torch.distributed.ReduceOp`, by its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TorchOp {
    Sum,
    Avg,
    Product,
    Min,
    Max,
    BitAnd,
    BitOr,
    BitXor,
}

impl TorchOp {
    const ALL: [Self; 8] =
        [Self::Sum, Self::Avg, Self::Product, Self::Min, Self::Max, Self::BitAnd, Self::BitOr, Self::BitXor];

    /// Returns the reduction with a number.
    pub(crate) fn new(number: u8) -> Result<Self, Failure> {
        Self::ALL.get(usize::from(number)).copied().ok_or_else(|| {
            Failure::invalid("reduction", format!("expected a reduction of PyTorch, found the number {number}"))
        })
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Sum => "SUM",
            Self::Avg => "AVG",
            Self::Product => "PRODUCT",
            Self::Min => "MIN",
            Self::Max => "MAX",
            Self::BitAnd => "BAND",
            Self::BitOr => "BOR",
            Self::BitXor => "BXOR",
        }
    }
}

/// A reduction of elements of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    /// By the algorithms, on elements of a data type.
    Plain(ReduceOp, DataType),
    /// By this rank, of what all ranks have gathered: algorithms do not have it.
    Fold(TorchOp, Kind),
}

impl Operator {
    /// Returns how a reduction is made on elements of a type.
    ///
    /// # Errors
    /// An invalid input for a reduction that the type does not have.
    pub(crate) fn new(op: TorchOp, kind: Kind) -> Result<Self, Failure> {
        use TorchOp::{Avg, BitAnd, BitOr, BitXor, Max, Min, Product, Sum};
        let plain = match op {
            Sum => Some(ReduceOp::Sum),
            Avg => Some(ReduceOp::Avg),
            Product => Some(ReduceOp::Prod),
            Min => Some(ReduceOp::Min),
            Max => Some(ReduceOp::Max),
            BitAnd | BitOr | BitXor => None,
        };
        let invalid = || {
            let found = format!("{} of {}", op.name(), kind.name());
            Err(Failure::invalid("reduction", format!("expected a reduction that the type has, found {found}")))
        };
        match (kind, plain) {
            (Kind::Plain(dtype), Some(op)) => Ok(Self::Plain(op, dtype)),
            (Kind::Plain(dtype), None) if dtype.is_integer() => Ok(Self::Fold(op, kind)),
            (Kind::Complex(dtype), Some(plain)) if matches!(op, Sum | Avg) => Ok(Self::Plain(plain, dtype)),
            // Sums and products of values that are 0 or 1 are "or" and "and".
            (Kind::Bool, _) => match op {
                Sum | Max | BitOr => Ok(Self::Plain(ReduceOp::Max, DataType::U8)),
                Product | Min | BitAnd => Ok(Self::Plain(ReduceOp::Min, DataType::U8)),
                BitXor => Ok(Self::Fold(op, Kind::Plain(DataType::U8))),
                Avg => invalid(),
            },
            (Kind::Short { .. }, _) => Ok(Self::Fold(op, kind)),
            _ => invalid(),
        }
    }
}
