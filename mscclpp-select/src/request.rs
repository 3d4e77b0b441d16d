//! Properties of a call that all ranks share.

use std::fmt;
use std::hash::{Hash, Hasher};

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;

use super::order::OrderPolicy;
use mscclpp_base::dtype::{DataType, ElementName, ElementType};
use mscclpp_base::message::{Message, PacketType};

/// A call of a collective, as input of the selection of an algorithm.
///
/// Every field must be the same on all ranks: the selection may depend on nothing else, or ranks would run different
/// plans. Whether buffers are registered or how they are aligned is therefore an assumption about all ranks, not a
/// property of one of them.
///
/// ```
/// use mscclpp_core::collective::CollectiveKind;
/// use mscclpp_exec::DataType;
/// use mscclpp_select::Request;
///
/// let request = Request { in_place: true, ..Request::new(CollectiveKind::AllReduce, 8, DataType::F32, 1 << 20) };
/// assert_eq!(request.to_string(), "allreduce of 1 MiB f32, sum, in place, 8 ranks on 1 node");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The collective.
    pub collective: CollectiveKind,
    /// Bytes of the larger of a rank's input and output.
    pub bytes: u64,
    /// Type of the elements.
    pub dtype: DataType,
    /// Name of the program's type of the elements, if it is another one. No algorithm depends on it.
    pub element_name: Option<ElementName>,
    /// The reduction; `None` if the collective does not reduce.
    pub op: Option<ReduceOp>,
    /// Root of a broadcast or reduce; 0 for all others.
    pub root: u32,
    /// Number of ranks.
    pub num_ranks: u32,
    /// Number of ranks per node: ranks that access each other's memory. Rank r is on node r / `ranks_per_node`, and all
    /// nodes are full; 1 if that does not hold, and for devices that cannot access each other's memory.
    pub ranks_per_node: u32,
    /// Maximum number of thread blocks of a rank, so that those of all ranks on a device are co-resident
    /// ([`cuda::Executor::max_blocks`](mscclpp_exec::cuda::Executor::max_blocks)); `u32::MAX` where nothing limits them.
    pub max_blocks: u32,
    /// Whether input and output are one buffer.
    pub in_place: bool,
    /// Whether all buffers of all ranks are registered: memory that peers access directly.
    pub registered: bool,
    /// A power of two that divides the address of every buffer, in bytes.
    pub alignment: u32,
    /// Whether the ranks of a node have multicast hardware.
    pub multicast: bool,
    /// The demand on the order of reduction, where rounding depends on it.
    pub order: OrderPolicy,
    /// The packets of plans that use packets. The selection does not depend on it.
    pub packet: PacketType,
    /// The backend that runs the plan.
    pub backend: Backend,
    /// The built-in [machine description](crate::Machine) that the devices of all ranks were recognized as.
    pub machine: Option<&'static str>,
    /// Whether all ranks are agents of one launch, which share its threads: a [`cpu::Executor`](mscclpp_exec::cpu::Executor).
    pub virtual_ranks: bool,
}

impl Hash for Request {
    /// Hashes what differs among the requests of a communicator, in few words: each call looks its request up.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let op = self.op.map_or(0, |op| 1 + op as u64);
        let kind = [self.dtype as u64, op, u64::from(self.in_place), u64::from(self.registered)];
        let kind = kind.into_iter().fold(u64::from(self.root), |words, field| words << 6 | field);
        state.write_u64(self.bytes);
        state.write_u64(kind);
        self.collective.hash(state);
    }
}

/// A backend that runs plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Backend {
    /// Cores of the host, which share memory.
    #[default]
    Cpu,
    /// CUDA devices.
    Cuda,
}

impl Backend {
    /// Returns the name used in tables and messages.
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// Returns the backend with a name.
    #[doc(hidden)]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Cpu, Self::Cuda].into_iter().find(|backend| backend.name() == name)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Request {
    /// Creates a request out of place on one node, with unregistered buffers, on the CPU; a reducing one sums. All
    /// ranks must get the same bits, and a switch may sum.
    pub const fn new(collective: CollectiveKind, num_ranks: u32, dtype: DataType, bytes: u64) -> Self {
        Self {
            collective,
            bytes,
            dtype,
            element_name: None,
            op: if collective.is_reduction() { Some(ReduceOp::Sum) } else { None },
            root: 0,
            num_ranks,
            ranks_per_node: num_ranks,
            max_blocks: u32::MAX,
            in_place: false,
            registered: false,
            alignment: dtype.size() as u32,
            multicast: false,
            order: OrderPolicy::InSwitch,
            packet: PacketType::LL16,
            backend: Backend::Cpu,
            machine: None,
            virtual_ranks: false,
        }
    }

    /// Returns the number of nodes; 0 if the ranks do not fill them.
    #[doc(hidden)]
    pub const fn num_nodes(&self) -> u32 {
        match self.num_ranks.checked_rem(self.ranks_per_node) {
            Some(0) => self.num_ranks / self.ranks_per_node,
            _ => 0,
        }
    }

    /// Returns the type of the elements as ranks compare it.
    pub const fn element_type(&self) -> ElementType {
        ElementType { dtype: self.dtype, name: self.element_name }
    }

    /// Returns the message of the call.
    #[doc(hidden)]
    pub fn message(&self) -> Message {
        let mut message = Message::new(self.dtype, self.bytes / self.dtype.size() as u64);
        (message.op, message.packet) = (self.op, self.packet);
        message
    }

    /// Returns how its plan is prepared for devices: whether switches reduce floats is what its order states.
    #[cfg(feature = "cuda")]
    #[doc(hidden)]
    pub fn prepare_options(&self) -> mscclpp_exec::cuda::PrepareOptions {
        let accepts_switches = self.order <= OrderPolicy::InSwitch;
        mscclpp_exec::cuda::PrepareOptions::default().in_switch_floats(accepts_switches)
    }

    /// Returns the bytes of a rank's input and output.
    #[doc(hidden)]
    pub fn input_and_output_bytes(&self) -> [u64; 2] {
        let part = self.bytes / u64::from(self.num_ranks.max(1));
        match self.collective {
            CollectiveKind::AllGather => [part, self.bytes],
            CollectiveKind::ReduceScatter => [self.bytes, part],
            _ => [self.bytes; 2],
        }
    }

    /// Returns the request with its size rounded up to a power of two: requests of one class mostly have the same
    /// decision.
    #[must_use]
    #[doc(hidden)]
    pub fn class(&self) -> Self {
        Self { bytes: self.bytes.checked_next_power_of_two().unwrap_or(u64::MAX), ..*self }
    }

    /// Returns whether the order of reduction affects the result.
    #[doc(hidden)]
    pub fn rounds(&self) -> bool {
        match self.op {
            None | Some(ReduceOp::Min | ReduceOp::Max) => false,
            Some(_) => !self.dtype.is_integer(),
        }
    }
}

/// The collectives that a communicator has calls for, with the calls' names.
pub const CALLS: [(&str, CollectiveKind); 7] = [
    ("all_reduce", CollectiveKind::AllReduce),
    ("all_gather", CollectiveKind::AllGather),
    ("reduce_scatter", CollectiveKind::ReduceScatter),
    ("all_to_all", CollectiveKind::AllToAll),
    ("broadcast", CollectiveKind::Broadcast),
    ("reduce", CollectiveKind::Reduce),
    ("send_recv", CollectiveKind::SendRecv),
];

/// In the alternate form reductions of floats on devices with switches always have their order: ranks that demand different ones, which get
/// different plans there, read both.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collective, num_ranks: ranks, .. } = self;
        write!(f, "{} of {} {}", collective.name(), Bytes(self.bytes), self.element_type())?;
        if let Some(op) = self.op {
            write!(f, ", {op}")?;
        }
        if matches!(collective, CollectiveKind::Broadcast | CollectiveKind::Reduce) {
            write!(f, ", root {}", self.root)?;
        }
        f.write_str(if self.in_place { ", in place" } else { ", out of place" })?;
        if self.registered {
            f.write_str(", registered")?;
        }
        let may_differ = f.alternate() && self.multicast && self.op.is_some() && !self.dtype.is_integer();
        if self.order != OrderPolicy::default() || may_differ {
            write!(f, ", order {}", self.order)?;
        }
        if self.packet != PacketType::default() {
            write!(f, ", packets {:?}", self.packet)?;
        }
        let plural = |n: u32| if n == 1 { "" } else { "s" };
        write!(f, ", {ranks} rank{} on ", plural(*ranks))?;
        match self.num_nodes() {
            0 => write!(f, "nodes of {}", self.ranks_per_node),
            nodes => write!(f, "{nodes} node{}", plural(nodes)),
        }
    }
}

/// Bytes formatted for messages: exact where a unit divides them.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let request = |bytes| Request::new(CollectiveKind::AllGather, 4, DataType::I8, bytes);
        assert_eq!(request(1025).class(), request(2048));
        assert_eq!(request(4096).class(), request(4096));
        assert_eq!(request(0).class(), request(1));
        assert_eq!(request(u64::MAX).class(), request(u64::MAX));
    }

    #[test]
    fn number_of_nodes_is_zero_if_they_are_not_full() {
        let on = |ranks, ranks_per_node| Request {
            ranks_per_node,
            ..Request::new(CollectiveKind::Reduce, ranks, DataType::F64, 64)
        };
        assert_eq!(
            (on(8, 4).num_nodes(), on(8, 3).num_nodes(), on(8, 0).num_nodes(), on(1, 1).num_nodes()),
            (2, 0, 0, 1)
        );
        assert_eq!(on(8, 3).to_string(), "reduce of 64 bytes f64, sum, root 0, out of place, 8 ranks on nodes of 3");
    }
}
