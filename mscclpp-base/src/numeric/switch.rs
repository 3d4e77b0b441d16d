//! Reductions that switches perform: those for which devices from compute capability 9.0 on have an instruction on multicast addresses.

use mscclpp_core::types::ReduceOp;

use crate::dtype::DataType;

/// What a switch returns for a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SwitchResult {
    /// The bits of every other processor: of integers the order makes no difference.
    Exact,
    /// Sums of floats in an unspecified order, or minima and maxima of floats for which NaN and the sign of zero are unspecified.
    Unspecified,
}

/// Returns what switches return for a reduction of a type; `None` if they do not support it: products, bytes, fp8 (before compute
/// capability 10.0), minima and maxima of f32 and f64.
pub fn switch_result(dtype: DataType, op: ReduceOp) -> Option<SwitchResult> {
    use DataType::*;
    let is_sum = matches!(op, ReduceOp::Sum | ReduceOp::Avg);
    match dtype {
        _ if op == ReduceOp::Prod => None,
        I32 | U32 | I64 | U64 => Some(SwitchResult::Exact),
        F16 | BF16 => Some(SwitchResult::Unspecified),
        F32 | F64 if is_sum => Some(SwitchResult::Unspecified),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_of_multicast_addresses_are_known() {
        let supported = |op| {
            let of = |dtype: &DataType| switch_result(*dtype, op).map(|result| (*dtype, result));
            DataType::ALL.iter().filter_map(of).collect::<Vec<_>>()
        };
        use DataType::*;
        let integers = [I32, U32, I64, U64].map(|dtype| (dtype, SwitchResult::Exact));
        let floats = |dtypes: &[DataType]| {
            let of = dtypes.iter().map(|&dtype| (dtype, SwitchResult::Unspecified));
            integers.into_iter().chain(of).collect::<std::collections::HashSet<_>>()
        };
        for op in ReduceOp::ALL {
            let expected = match op {
                ReduceOp::Sum | ReduceOp::Avg => floats(&[F32, F64, F16, BF16]),
                ReduceOp::Min | ReduceOp::Max => floats(&[F16, BF16]),
                ReduceOp::Prod => Default::default(),
            };
            let found = supported(op);
            assert_eq!((found.len(), found.into_iter().collect()), (expected.len(), expected), "{op}");
        }
    }
}
