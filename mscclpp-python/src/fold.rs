//! Reductions that a rank makes itself, of the inputs of all ranks: in the order of ranks, so that all get the same bits.

use bytemuck::Pod;
use mscclpp_exec::DataType;

use crate::failure::Failure;
use crate::operator::TorchOp;
use crate::tensor::Kind;

/// Integers, with the operations of PyTorch's reductions.
trait Integer: Pod + Ord {
    fn add(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn bits(self, op: TorchOp, other: Self) -> Self;
    fn divide(self, by: u32) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn multiply(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }

            fn bits(self, op: TorchOp, other: Self) -> Self {
                match op {
                    TorchOp::BitAnd => self & other,
                    TorchOp::BitOr => self | other,
                    _ => self ^ other,
                }
            }

            fn divide(self, by: u32) -> Self {
                // Only 16-bit integers are divided here; the others by the algorithms.
                <$type>::try_from(by).map_or(0, |by| self / by.max(1))
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);

/// Combines `parts`, equally long and one per rank, into `result`.
///
/// # Errors
/// An invalid input for elements that are no integers.
pub(crate) fn fold(op: TorchOp, kind: Kind, parts: &[u8], result: &mut [u8]) -> Result<(), Failure> {
    match kind {
        Kind::Short { is_signed: true } => of_type::<i16>(op, parts, result),
        Kind::Short { is_signed: false } => of_type::<u16>(op, parts, result),
        Kind::Plain(DataType::I8) => of_type::<i8>(op, parts, result),
        Kind::Plain(DataType::U8) => of_type::<u8>(op, parts, result),
        Kind::Plain(DataType::I32) => of_type::<i32>(op, parts, result),
        Kind::Plain(DataType::U32) => of_type::<u32>(op, parts, result),
        Kind::Plain(DataType::I64) => of_type::<i64>(op, parts, result),
        Kind::Plain(DataType::U64) => of_type::<u64>(op, parts, result),
        _ => return Err(Failure::invalid("reduction", format!("expected integers, found {}", kind.name()))),
    }
    Ok(())
}

fn of_type<T: Integer>(op: TorchOp, parts: &[u8], result: &mut [u8]) {
    let len = result.len();
    let ranks = parts.len().checked_div(len).unwrap_or(0);
    let element = size_of::<T>();
    for (i, to) in result.chunks_exact_mut(element).enumerate() {
        let of_rank =
            |rank: usize| -> T { bytemuck::pod_read_unaligned(&parts[rank * len + i * element..][..element]) };
        let combine = |a: T, b: T| match op {
            TorchOp::Sum | TorchOp::Avg => a.add(b),
            TorchOp::Product => a.multiply(b),
            TorchOp::Min => a.min(b),
            TorchOp::Max => a.max(b),
            TorchOp::BitAnd | TorchOp::BitOr | TorchOp::BitXor => a.bits(op, b),
        };
        let all = (1..ranks).map(of_rank).fold(of_rank(0), combine);
        let all = if op == TorchOp::Avg { all.divide(ranks as u32) } else { all };
        to.copy_from_slice(bytemuck::bytes_of(&all));
    }
}
