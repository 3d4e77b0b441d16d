//! Constraints of an algorithm, and its rejections.

use std::fmt;
use std::ops::RangeInclusive;

use mscclpp_core::types::ReduceOp;

use super::choice::Config;
use super::order::OrderPolicy;
use super::request::{Backend, Bytes, Request};
use mscclpp_algorithms::{BufferMode, OrderScope};
use mscclpp_base::dtype::DataType;
use mscclpp_base::numeric::{SwitchResult, switch_result};

/// Constraints on requests. The default accepts every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraints {
    /// Numbers of ranks.
    pub num_ranks: RangeInclusive<u32>,
    /// Numbers of nodes.
    pub num_nodes: RangeInclusive<u32>,
    /// Bytes of the larger of a rank's input and output.
    pub bytes: RangeInclusive<u64>,
    /// Whether input and output may be one buffer.
    pub buffer_mode: BufferMode,
    /// Types of elements; `None` for all.
    pub dtypes: Option<Vec<DataType>>,
    /// Reductions; `None` for all.
    pub ops: Option<Vec<ReduceOp>>,
    /// Required alignment of every buffer's address, in bytes.
    pub alignment: u32,
    /// Whether buffers must be registered.
    pub registered: bool,
    /// Whether multicast hardware is needed.
    pub multicast: bool,
    /// What the order of reduction depends on, so that results may differ in the last bit; `None` if every element is
    /// reduced in the order of ranks. Plans are checked for that when they are built for a request that demands it.
    pub order_varies_across: Option<OrderScope>,
    /// The only backend on which it runs; `None` for all.
    pub backend: Option<Backend>,
}

impl Default for Constraints {
    fn default() -> Self {
        Self {
            num_ranks: 1..=u32::MAX,
            num_nodes: 1..=u32::MAX,
            bytes: 0..=u64::MAX,
            buffer_mode: BufferMode::Any,
            dtypes: None,
            ops: None,
            alignment: 1,
            registered: false,
            multicast: false,
            order_varies_across: Some(OrderScope::Elements),
            backend: None,
        }
    }
}

/// Why an algorithm is not eligible for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The number of ranks is not supported.
    Ranks {
        /// Supported numbers: `2 to 4 ranks`.
        expected: String,
        /// The request's.
        found: u32,
    },
    /// The number or the size of the nodes is not supported.
    Nodes {
        /// Supported numbers: `2 nodes or more`.
        expected: String,
        /// The request's.
        found: String,
    },
    /// It works in place only, or out of place only.
    BufferMode {
        /// Whether it works in place.
        in_place: bool,
    },
    /// The plans have another root.
    Root {
        /// The request's.
        found: u32,
    },
    /// The message is too short or too long.
    Bytes {
        /// Supported sizes.
        expected: RangeInclusive<u64>,
        /// The request's.
        found: u64,
    },
    /// The plan takes dividing counts only.
    NotDividing {
        /// Of which it takes multiples, in elements.
        multiple: u64,
        /// The request's elements.
        found: u64,
    },
    /// The data type is not supported.
    DataType {
        /// The request's.
        found: DataType,
    },
    /// The reduction is not supported.
    Op {
        /// The request's.
        found: ReduceOp,
    },
    /// The buffers are not sufficiently aligned.
    Alignment {
        /// Required alignment of addresses.
        expected: u32,
        /// Alignment of the buffers.
        found: u32,
    },
    /// The buffers are not registered.
    NotRegistered,
    /// There is no multicast hardware.
    NoMulticast,
    /// Results may differ in the last bit between ranks, and the request requires equal bits.
    OrderVaries,
    /// A switch reduces floats, with bits that are unspecified, which the request does not allow.
    SwitchOrder,
    /// An element's bits depend on its place in the message, and the request requires one order.
    NotInRankOrder,
    /// Switches do not reduce this type in this way.
    NotBySwitch {
        /// The request's type.
        dtype: DataType,
        /// The request's reduction.
        op: ReduceOp,
    },
    /// No algorithm is built with this number of thread blocks.
    BlockCount {
        /// The chosen number.
        found: u32,
    },
    /// The backend is not supported.
    Backend {
        /// The only supported backend.
        expected: Backend,
    },
}

impl Constraints {
    /// Checks that a request meets the constraints; collectives are not compared here.
    ///
    /// # Errors
    /// The first of the constraints, in the order of the fields, that the request does not meet.
    pub fn check_request(&self, request: &Request) -> Result<(), Rejection> {
        let &Request { num_ranks: ranks, bytes, dtype, in_place, alignment, .. } = request;
        let nodes = request.num_nodes();
        if !self.num_ranks.contains(&ranks) {
            return Err(Rejection::Ranks { expected: span(&self.num_ranks, "rank"), found: ranks });
        }
        if !self.num_nodes.contains(&nodes) {
            return Err(Rejection::Nodes { expected: span(&self.num_nodes, "node"), found: machine(request) });
        }
        if !self.bytes.contains(&bytes) {
            return Err(Rejection::Bytes { expected: self.bytes.clone(), found: bytes });
        }
        check_buffer_mode(self.buffer_mode, in_place)?;
        if self.dtypes.as_ref().is_some_and(|dtypes| !dtypes.contains(&dtype)) {
            return Err(Rejection::DataType { found: dtype });
        }
        if let (Some(ops), Some(op)) = (&self.ops, request.op)
            && !ops.contains(&op)
        {
            return Err(Rejection::Op { found: op });
        }
        if !alignment.is_multiple_of(self.alignment.max(1)) {
            return Err(Rejection::Alignment { expected: self.alignment, found: alignment });
        }
        if self.registered && !request.registered {
            return Err(Rejection::NotRegistered);
        }
        if self.multicast && !request.multicast {
            return Err(Rejection::NoMulticast);
        }
        let scope = self.order_varies_across;
        let depends_on_order = match request.op.filter(|_| scope == Some(OrderScope::Launches)) {
            Some(op) => match switch_result(dtype, op) {
                Some(result) => result == SwitchResult::Unspecified,
                None => return Err(Rejection::NotBySwitch { dtype, op }),
            },
            None => request.rounds(),
        };
        if depends_on_order && !request.order.accepts(scope, ranks, nodes) {
            return Err(match (scope, request.order) {
                (Some(OrderScope::Launches), _) => Rejection::SwitchOrder,
                (_, OrderPolicy::RankOrder) => Rejection::NotInRankOrder,
                _ => Rejection::OrderVaries,
            });
        }
        match self.backend {
            Some(expected) if expected != request.backend => Err(Rejection::Backend { expected }),
            _ => Ok(()),
        }
    }
}

/// Checks that a buffer mode is the request's.
pub(super) fn check_buffer_mode(placement: BufferMode, in_place: bool) -> Result<(), Rejection> {
    match (placement, in_place) {
        (BufferMode::InPlace, false) => Err(Rejection::BufferMode { in_place: true }),
        (BufferMode::OutOfPlace, true) => Err(Rejection::BufferMode { in_place: false }),
        _ => Ok(()),
    }
}

/// Formats a request's nodes.
pub(super) fn machine(request: &Request) -> String {
    match request.num_nodes() {
        0 => format!("{} ranks on nodes of {}", request.num_ranks, request.ranks_per_node),
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes of {}", request.ranks_per_node),
    }
}

/// Formats a range: `1 node`, `2 to 4 ranks`, `2 nodes or more`.
fn span(range: &RangeInclusive<u32>, what: &str) -> String {
    match (*range.start(), *range.end()) {
        (1, 1) => format!("1 {what}"),
        (least, most) if least == most => format!("{least} {what}s"),
        (least, u32::MAX) => format!("at least {least} {what}s"),
        (least, most) => format!("{least} to {most} {what}s"),
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ranks { expected, found } => write!(f, "requires {expected}, found {found}"),
            Self::Nodes { expected, found } => write!(f, "requires {expected}, found {found}"),
            Self::BufferMode { in_place: true } => f.write_str("supports only in-place requests"),
            Self::BufferMode { in_place: false } => f.write_str("supports only out-of-place requests"),
            Self::Root { found } => write!(f, "has no plan for root {found}"),
            Self::Bytes { expected, found } => match (*expected.start(), *expected.end()) {
                (0, most) => write!(f, "requires at most {}, found {}", Bytes(most), Bytes(*found)),
                (least, u64::MAX) => write!(f, "requires at least {}, found {}", Bytes(least), Bytes(*found)),
                (least, most) => write!(f, "requires {} to {}, found {}", Bytes(least), Bytes(most), Bytes(*found)),
            },
            Self::NotDividing { multiple, found } => {
                write!(f, "takes dividing counts only: requires a multiple of {multiple} elements, found {found}")
            }
            Self::DataType { found } => write!(f, "does not support {found}"),
            Self::Op { found } => write!(f, "does not support reduction {found}"),
            Self::Alignment { expected, found } => {
                write!(f, "requires buffers aligned to {expected} bytes, found {found} bytes")
            }
            Self::NotRegistered => f.write_str("requires registered buffers"),
            Self::NoMulticast => f.write_str("requires multicast hardware"),
            Self::OrderVaries => {
                f.write_str("rounds differently on different ranks, but the request requires equal bits")
            }
            Self::SwitchOrder => f.write_str(
                "reduces floats in a switch, which the request does not allow: its order is not `in-switch`",
            ),
            Self::NotInRankOrder => f.write_str(
                "reduces elements in an order that depends on their place, but the request requires that of ranks",
            ),
            Self::NotBySwitch { dtype, op } => write!(f, "reduces in switches, which do not support {op} of {dtype}"),
            Self::BlockCount { found } => write!(f, "supports 1 to {} blocks, found {found}", Config::MAX_BLOCKS),
            Self::Backend { expected } => write!(f, "runs only on {expected}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_core::collective::CollectiveKind;

    use super::*;

    #[test]
    fn every_constraint_rejects_its_requests() {
        let request = Request { ranks_per_node: 4, ..Request::new(CollectiveKind::AllReduce, 8, DataType::F16, 4096) };
        let any = Constraints::default;
        assert_eq!(any().check_request(&request), Ok(()));
        for (constraints, text) in [
            (Constraints { num_ranks: 2..=4, ..any() }, "requires 2 to 4 ranks, found 8"),
            (Constraints { num_nodes: 1..=1, ..any() }, "requires 1 node, found 2 nodes of 4"),
            (Constraints { bytes: 0..=1024, ..any() }, "requires at most 1 KiB, found 4 KiB"),
            (Constraints { bytes: 1 << 20..=u64::MAX, ..any() }, "requires at least 1 MiB, found 4 KiB"),
            (Constraints { buffer_mode: BufferMode::InPlace, ..any() }, "supports only in-place requests"),
            (Constraints { dtypes: Some(vec![DataType::F32]), ..any() }, "does not support f16"),
            (Constraints { ops: Some(vec![ReduceOp::Max]), ..any() }, "does not support reduction sum"),
            (Constraints { alignment: 16, ..any() }, "requires buffers aligned to 16 bytes, found 2 bytes"),
            (Constraints { registered: true, ..any() }, "requires registered buffers"),
            (Constraints { multicast: true, ..any() }, "requires multicast hardware"),
            (Constraints { backend: Some(Backend::Cuda), ..any() }, "runs only on cuda"),
        ] {
            assert_eq!(constraints.check_request(&request).expect_err(text).to_string(), text);
        }
    }

    #[test]
    fn varying_order_matters_only_where_results_round() {
        let own = Constraints { order_varies_across: Some(OrderScope::Ranks), ..Constraints::default() };
        let request = |ranks, dtype| Request::new(CollectiveKind::AllReduce, ranks, dtype, 64);
        assert_eq!(own.check_request(&request(3, DataType::F32)), Err(Rejection::OrderVaries));
        assert_eq!(own.check_request(&request(2, DataType::F32)), Ok(()));
        assert_eq!(own.check_request(&request(3, DataType::I32)), Ok(()));
        assert_eq!(own.check_request(&Request { op: Some(ReduceOp::Max), ..request(3, DataType::F32) }), Ok(()));
        let of_nodes = Constraints { order_varies_across: Some(OrderScope::Nodes), ..Constraints::default() };
        let on = |ranks_per_node| Request { ranks_per_node, ..request(6, DataType::F16) };
        assert_eq!(
            (of_nodes.check_request(&on(3)), of_nodes.check_request(&on(2))),
            (Ok(()), Err(Rejection::OrderVaries))
        );
        assert_eq!(own.check_request(&Request { order: OrderPolicy::Any, ..request(3, DataType::F32) }), Ok(()));
        let one = Request { order: OrderPolicy::RankOrder, ..request(3, DataType::F32) };
        assert_eq!(Constraints::default().check_request(&one), Err(Rejection::NotInRankOrder));
        let in_rank_order = Constraints { order_varies_across: None, ..Constraints::default() };
        assert_eq!(in_rank_order.check_request(&one), Ok(()));
    }

    #[test]
    fn switches_reduce_floats_only_if_the_request_allows_it() {
        let by_switch = Constraints { order_varies_across: Some(OrderScope::Launches), ..Constraints::default() };
        let request = |dtype, op| Request {
            op,
            order: OrderPolicy::SameOnAllRanks,
            ..Request::new(CollectiveKind::AllReduce, 4, dtype, 64)
        };
        for (dtype, op, expected) in [
            (DataType::I32, ReduceOp::Sum, Ok(())),
            (DataType::U64, ReduceOp::Max, Ok(())),
            (DataType::F32, ReduceOp::Sum, Err(Rejection::SwitchOrder)),
            (DataType::BF16, ReduceOp::Min, Err(Rejection::SwitchOrder)),
            (DataType::F32, ReduceOp::Max, Err(Rejection::NotBySwitch { dtype: DataType::F32, op: ReduceOp::Max })),
            (DataType::I8, ReduceOp::Sum, Err(Rejection::NotBySwitch { dtype: DataType::I8, op: ReduceOp::Sum })),
        ] {
            assert_eq!(by_switch.check_request(&request(dtype, Some(op))), expected, "{dtype} {op}");
        }
        for (order, expected) in [
            (OrderPolicy::Any, Ok(())),
            (OrderPolicy::InSwitch, Ok(())),
            (OrderPolicy::RankOrder, Err(Rejection::SwitchOrder)),
        ] {
            for op in [ReduceOp::Sum, ReduceOp::Max] {
                let call = Request { order, ..request(DataType::BF16, Some(op)) };
                assert_eq!(by_switch.check_request(&call), expected, "{order} {op}");
            }
        }
        assert_eq!(by_switch.check_request(&request(DataType::F16, None)), Ok(()));
    }
}
