//! Parameters of a launch.

use mscclpp_core::types::ReduceOp;

use crate::dtype::{DataType, Element};
use crate::numeric::AccumType;

/// A message: how many elements of which type, and how to combine them.
///
/// ```
/// use mscclpp_exec::Message;
/// use mscclpp_core::types::ReduceOp;
///
/// let message = Message::of::<f32>(1000).op(ReduceOp::Max);
/// assert_eq!(message.bytes(), Some(4000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    /// Elements of the larger of a rank's input and output, as in nccl-tests: of both in an all-reduce, of the output
    /// in an all-gather, of the input in a reduce-scatter. All-gather, reduce-scatter and all-to-all need a multiple of
    /// the number of ranks.
    pub count: u64,
    /// Elements of a row; 0 for a message that does not consist of rows.
    pub row: u64,
    /// Type of the elements.
    pub dtype: DataType,
    /// The reduction; `None` for the plan's own. A plan whose reductions are all sums accepts any, other plans only
    /// their own.
    pub op: Option<ReduceOp>,
    /// The type in which an operation combines its sources.
    pub accumulate: AccumType,
    /// Whether packets carry 4 bytes or 8.
    pub packet: PacketType,
    /// Whether the plan's range of message sizes is ignored.
    pub any_size: bool,
}

/// Payload size of packets. Packets of both kinds have the same layout in memory: 4 bytes of data, then 4 of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PacketType {
    /// 8 bytes: data, flag, data, flag. Read and written together.
    #[default]
    LL16,
    /// 4 bytes: data, flag.
    LL8,
}

impl Message {
    /// Creates a message with the plan's own reduction, combined in the elements' type, in packets of 16 bytes.
    pub const fn new(dtype: DataType, count: u64) -> Self {
        Self {
            count,
            row: 0,
            dtype,
            op: None,
            accumulate: AccumType::Native,
            packet: PacketType::LL16,
            any_size: false,
        }
    }

    /// Creates a message of elements of a Rust type.
    pub const fn of<T: Element>(count: usize) -> Self {
        Self::new(T::TYPE, count as u64)
    }

    /// Creates a message of rows of elements of a Rust type, for plans with
    /// [`rows`](mscclpp_core::collective::Collective::rows): no chunk, slice or window of the launch divides a row.
    pub const fn rows<T: Element>(rows: usize, hidden: usize) -> Self {
        // A count that does not fit is too large for every plan.
        Self { row: hidden as u64, ..Self::new(T::TYPE, (rows as u64).saturating_mul(hidden as u64)) }
    }

    /// Sets the reduction.
    #[must_use]
    pub const fn op(mut self, op: ReduceOp) -> Self {
        self.op = Some(op);
        self
    }

    /// Sets the type in which sources are combined.
    #[must_use]
    pub const fn accumulate(mut self, accumulate: AccumType) -> Self {
        self.accumulate = accumulate;
        self
    }

    /// Sets the kind of packets.
    #[must_use]
    pub const fn packet(mut self, packet: PacketType) -> Self {
        self.packet = packet;
        self
    }

    /// Accepts sizes outside of the plan's range.
    #[must_use]
    pub const fn any_size(mut self) -> Self {
        self.any_size = true;
        self
    }

    /// Returns the bytes of the larger of a rank's input and output; `None` if that exceeds 64 bits.
    pub const fn bytes(&self) -> Option<u64> {
        self.count.checked_mul(self.dtype.size() as u64)
    }

    /// Returns the bytes of a row; 0 for a message that does not consist of rows.
    #[doc(hidden)]
    pub const fn row_bytes(&self) -> u64 {
        self.row.saturating_mul(self.dtype.size() as u64)
    }
}

/// Returns the bytes of which every chunk of a message has a multiple: whole alignment units of a plan, whole elements and, in plans with
/// packets, whole packets; `None` if they exceed 64 bits.
pub fn alignment_unit(alignment: u32, packets: bool, dtype: DataType) -> Option<u64> {
    lcm(lcm(u64::from(alignment), dtype.size() as u64)?, if packets { 8 } else { 1 })
}

pub(crate) fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a.max(1), b.max(1));
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a.max(1) / x).checked_mul(b.max(1))
}
