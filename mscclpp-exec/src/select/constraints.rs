//! Where an algorithm can be used, and how it says no.

use std::fmt;
use std::ops::RangeInclusive;

use mscclpp_core::types::ReduceOp;

use super::choice::Config;
use super::request::{Backend, Bytes, Request};
use crate::dtype::DataType;
use mscclpp_algorithms::{BufferMode, OrderScope};

/// What a request must be like. The default takes everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraints {
    /// Numbers of ranks.
    pub ranks: RangeInclusive<u32>,
    /// Numbers of nodes.
    pub nodes: RangeInclusive<u32>,
    /// Bytes of the larger of a rank's input and output.
    pub bytes: RangeInclusive<u64>,
    /// Whether input and output may be one memory.
    pub placement: BufferMode,
    /// Types of elements; `None` for all.
    pub dtypes: Option<Vec<DataType>>,
    /// Ways to combine; `None` for all.
    pub ops: Option<Vec<ReduceOp>>,
    /// What every buffer's address must be a multiple of, in bytes.
    pub alignment: u32,
    /// Whether buffers must be registered.
    pub registered: bool,
    /// Whether multicast hardware is needed.
    pub multicast: bool,
    /// Whose results are combined in an order of their own, so that they may differ in the last bit.
    pub order_varies_across: Option<OrderScope>,
    /// The only backend that it runs on; `None` for all.
    pub backend: Option<Backend>,
}

impl Default for Constraints {
    fn default() -> Self {
        Self {
            ranks: 1..=u32::MAX,
            nodes: 1..=u32::MAX,
            bytes: 0..=u64::MAX,
            placement: BufferMode::Any,
            dtypes: None,
            ops: None,
            alignment: 1,
            registered: false,
            multicast: false,
            order_varies_across: None,
            backend: None,
        }
    }
}

/// Why an algorithm is not used for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Another number of ranks.
    Ranks {
        /// What would do: `2 to 4 ranks`.
        expected: String,
        /// The request's.
        found: u32,
    },
    /// Another number of nodes, or nodes of another size.
    Nodes {
        /// What would do: `2 nodes or more`.
        expected: String,
        /// The request's.
        found: String,
    },
    /// In place where that does not work, or the other way round.
    BufferMode {
        /// Whether it works in place.
        in_place: bool,
    },
    /// Another root than the plans have.
    Root {
        /// The request's.
        found: u32,
    },
    /// A message that is too short or too long.
    Bytes {
        /// Sizes that would do.
        expected: RangeInclusive<u64>,
        /// The request's.
        found: u64,
    },
    /// A type that it does not handle.
    DataType {
        /// The request's.
        found: DataType,
    },
    /// A reduction that it does not do.
    Op {
        /// The request's.
        found: ReduceOp,
    },
    /// Buffers that lie elsewhere.
    Alignment {
        /// What addresses must be a multiple of.
        expected: u32,
        /// What they are a multiple of.
        found: u32,
    },
    /// Private buffers.
    NotRegistered,
    /// No multicast hardware.
    NoMulticast,
    /// Results may differ in the last bit between ranks, and the request wants the same bits.
    OwnOrder,
    /// A number of thread blocks that nothing is built with.
    BlockCount {
        /// What was chosen.
        found: u32,
    },
    /// Another backend.
    Backend {
        /// The only one that it runs on.
        expected: Backend,
    },
}

impl Constraints {
    /// Whether a request may be served; collectives are not compared here.
    ///
    /// # Errors
    /// The first of the constraints, in the order of the fields, that the request does not meet.
    pub fn check_request(&self, request: &Request) -> Result<(), Rejection> {
        let &Request { ranks, bytes, dtype, in_place, alignment, .. } = request;
        let nodes = request.nodes();
        if !self.ranks.contains(&ranks) {
            return Err(Rejection::Ranks { expected: span(&self.ranks, "rank"), found: ranks });
        }
        if !self.nodes.contains(&nodes) {
            return Err(Rejection::Nodes { expected: span(&self.nodes, "node"), found: machine(request) });
        }
        if !self.bytes.contains(&bytes) {
            return Err(Rejection::Bytes { expected: self.bytes.clone(), found: bytes });
        }
        placed(self.placement, in_place)?;
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
        let operands = match self.order_varies_across {
            None => 1,
            Some(OrderScope::FirstTwo) => 2,
            Some(OrderScope::Ranks) => ranks,
            Some(OrderScope::Nodes) => nodes,
        };
        // Two operands commute, bit by bit; more do not associate.
        if operands > 2 && request.same_bits && request.rounds() {
            return Err(Rejection::OwnOrder);
        }
        match self.backend {
            Some(expected) if expected != request.backend => Err(Rejection::Backend { expected }),
            _ => Ok(()),
        }
    }
}

/// Whether a placement is the request's.
pub(super) fn placed(placement: BufferMode, in_place: bool) -> Result<(), Rejection> {
    match (placement, in_place) {
        (BufferMode::InPlace, false) => Err(Rejection::BufferMode { in_place: true }),
        (BufferMode::OutOfPlace, true) => Err(Rejection::BufferMode { in_place: false }),
        _ => Ok(()),
    }
}

/// A request's nodes in words.
pub(super) fn machine(request: &Request) -> String {
    match request.nodes() {
        0 => format!("{} ranks on nodes of {}", request.ranks, request.ranks_per_node),
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes of {}", request.ranks_per_node),
    }
}

/// A range in words: `1 node`, `2 to 4 ranks`, `2 nodes or more`.
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
            Self::DataType { found } => write!(f, "does not support {found}"),
            Self::Op { found } => write!(f, "does not support reduction {found}"),
            Self::Alignment { expected, found } => {
                write!(f, "requires buffers aligned to {expected} bytes, found {found} bytes")
            }
            Self::NotRegistered => f.write_str("requires registered buffers"),
            Self::NoMulticast => f.write_str("requires multicast hardware"),
            Self::OwnOrder => f.write_str("rounds differently on different ranks, but the request requires equal bits"),
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
    fn every_constraint_refuses_what_it_names() {
        let request = Request { ranks_per_node: 4, ..Request::new(CollectiveKind::AllReduce, 8, DataType::F16, 4096) };
        let any = Constraints::default;
        assert_eq!(any().check_request(&request), Ok(()));
        for (constraints, text) in [
            (Constraints { ranks: 2..=4, ..any() }, "requires 2 to 4 ranks, found 8"),
            (Constraints { nodes: 1..=1, ..any() }, "for 1 node, found 2 nodes of 4"),
            (Constraints { bytes: 0..=1024, ..any() }, "requires at most 1 KiB, found 4 KiB"),
            (Constraints { bytes: 1 << 20..=u64::MAX, ..any() }, "requires at least 1 MiB, found 4 KiB"),
            (Constraints { placement: BufferMode::InPlace, ..any() }, "supports only in-place requests"),
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
    fn an_order_of_its_own_matters_only_where_it_shows() {
        let own = Constraints { order_varies_across: Some(OrderScope::Ranks), ..Constraints::default() };
        let request = |ranks, dtype| Request::new(CollectiveKind::AllReduce, ranks, dtype, 64);
        assert_eq!(own.check_request(&request(3, DataType::F32)), Err(Rejection::OwnOrder));
        assert_eq!(own.check_request(&request(2, DataType::F32)), Ok(()));
        assert_eq!(own.check_request(&request(3, DataType::I32)), Ok(()));
        assert_eq!(own.check_request(&Request { op: Some(ReduceOp::Max), ..request(3, DataType::F32) }), Ok(()));
        let of_nodes = Constraints { order_varies_across: Some(OrderScope::Nodes), ..Constraints::default() };
        let on = |ranks_per_node| Request { ranks_per_node, ..request(6, DataType::F16) };
        assert_eq!(
            (of_nodes.check_request(&on(3)), of_nodes.check_request(&on(2))),
            (Ok(()), Err(Rejection::OwnOrder))
        );
        assert_eq!(own.check_request(&Request { same_bits: false, ..request(3, DataType::F32) }), Ok(()));
    }
}
