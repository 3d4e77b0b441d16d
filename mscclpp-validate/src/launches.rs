//! Placement of the ranks of a launch, and the default launches with which a plan is validated.

use std::fmt;

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::types::ReduceOp;

use super::ValidationError;
use mscclpp_base::dtype::DataType;
use mscclpp_base::interpret::program::Reductions;
use mscclpp_base::interpret::resolve;
use mscclpp_base::message::Message;
use mscclpp_base::passes::place_in_caller_memory::SLOTS;

/// Memory in which peers access a rank's input or output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// The caller's memory: a registered buffer.
    Registered,
    /// A copy, which the next launch may overwrite.
    Staged,
    /// A copy that lasts for several launches. Only for plans in which peers do nothing but read; others use
    /// [`Staged`](Self::Staged) instead.
    Lasting,
}

/// A launch across processes, with the memory in which its ranks access each other's buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessLaunch {
    /// By rank: its node.
    pub nodes: Vec<u32>,
    /// By rank: its input, or the only buffer of an in-place plan, and its output.
    pub sharing: Vec<[Sharing; 2]>,
    /// Whether a rank that waits for its peers at the end of a launch serves its connections to other nodes meanwhile.
    /// The executor does; without it, plans whose progress may depend on it are rejected.
    pub waits_move_connections: bool,
}

impl ProcessLaunch {
    /// Returns a launch of ranks on consecutive nodes, all of whose buffers are shared in the same way.
    pub fn new(ranks: u32, ranks_per_node: u32, sharing: Sharing) -> Self {
        let nodes = (0..ranks).map(|rank| rank / ranks_per_node.max(1)).collect();
        Self { nodes, sharing: vec![[sharing; SLOTS]; ranks as usize], waits_move_connections: true }
    }

    /// Returns launches of ranks on consecutive nodes that share their buffers differently: each way for all buffers,
    /// and a different way for each rank and slot.
    pub fn variants(ranks: u32, ranks_per_node: u32) -> Vec<Self> {
        use Sharing::{Lasting, Registered, Staged};
        let mut launches: Vec<_> =
            [Registered, Staged, Lasting].map(|sharing| Self::new(ranks, ranks_per_node, sharing)).into();
        let mixed = [[Registered, Staged], [Lasting, Registered], [Staged, Lasting]];
        let mut launch = Self::new(ranks, ranks_per_node, Registered);
        launch.sharing.iter_mut().zip(mixed.iter().cycle()).for_each(|(sharing, mixed)| *sharing = *mixed);
        launches.push(launch);
        launches
    }

    /// Returns the [variants](Self::variants) on 1, 2 and 3 nodes of equally many ranks, and on the plan's own nodes.
    pub fn all(plan: &PlanTree) -> Vec<Self> {
        nodes(plan).into_iter().flat_map(|node| Self::variants(plan.ranks.len() as u32, node)).collect()
    }
}

impl fmt::Display for ProcessLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut slots = self.sharing.iter().flatten();
        let first = slots.next();
        let sharing = match first.filter(|first| slots.all(|other| other == *first)) {
            Some(Sharing::Registered) => "registered",
            Some(Sharing::Staged) => "staged",
            Some(Sharing::Lasting) => "lasting",
            None => "differently shared",
        };
        write!(f, "ranks on nodes {}, {sharing} buffers", Numbers(&self.nodes))
    }
}

/// Placement of the ranks of a launch on CUDA devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceLaunch {
    /// By rank: its device, counted from 0 over all nodes.
    pub devices: Vec<u32>,
    /// By device: its node. On several nodes every rank has a separate device.
    pub nodes: Vec<u32>,
}

impl DeviceLaunch {
    /// Returns launches of ranks on consecutive nodes: one device per rank; on one node, if there are more than two
    /// ranks, also devices that two ranks share, and two devices between which the ranks alternate.
    pub fn variants(ranks: u32, ranks_per_node: u32) -> Vec<Self> {
        let each: Vec<u32> = (0..ranks).collect();
        let nodes = each.iter().map(|rank| rank / ranks_per_node.max(1)).collect();
        let one_each = Self { nodes, devices: each.clone() };
        if ranks_per_node < ranks || ranks < 3 {
            return vec![one_each];
        }
        let shared = [each.iter().map(|rank| rank / 2).collect(), each.iter().map(|rank| rank % 2).collect()];
        let shared = shared.map(|devices: Vec<u32>| {
            let count = devices.iter().max().map_or(0, |&last| last as usize + 1);
            Self { devices, nodes: vec![0; count] }
        });
        std::iter::once(one_each).chain(shared).collect()
    }

    /// Returns the [variants](Self::variants) on 1, 2 and 3 nodes of equally many ranks, and on the plan's own nodes.
    pub fn all(plan: &PlanTree) -> Vec<Self> {
        nodes(plan).into_iter().flat_map(|node| Self::variants(plan.ranks.len() as u32, node)).collect()
    }
}

impl fmt::Display for DeviceLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ranks on devices {}, devices on nodes {}", Numbers(&self.devices), Numbers(&self.nodes))
    }
}

/// Numbers formatted as `0 0 1 1`.
struct Numbers<'n>(&'n [u32]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.0.iter().enumerate() {
            write!(f, "{}{number}", if at == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Returns a plan with its ranks on the nodes of a launch, instead of those for which it was compiled. Nodes that a
/// plan cannot express, because their numbers of ranks differ, become one: the checker then does not check that ranks
/// of different nodes do not access each other's memory, but the executor rejects such a launch.
pub(super) fn on_nodes(plan: &PlanTree, node_of: &[u32]) -> PlanTree {
    let ranks = node_of.len() as u32;
    let first = node_of.iter().take_while(|node| Some(*node) == node_of.first()).count() as u32;
    let is_equal =
        (0..).zip(node_of).all(|(rank, &node)| node == rank / first.max(1)) && ranks.is_multiple_of(first.max(1));
    PlanTree { ranks_per_node: if is_equal { first } else { ranks }, ..plan.clone() }
}

/// Returns the numbers of ranks per node: those of 1 to 3 nodes of equally many ranks, and that of the plan's own
/// nodes.
fn nodes(plan: &PlanTree) -> Vec<u32> {
    let ranks = plan.ranks.len() as u32;
    let mut nodes: Vec<u32> = (1..=3).filter(|&nodes| ranks.is_multiple_of(nodes)).map(|nodes| ranks / nodes).collect();
    nodes.push(plan.ranks_per_node.clamp(1, ranks.max(1)));
    nodes.retain(|&node| node > 0);
    nodes.sort_unstable_by(|one, other| other.cmp(one));
    nodes.dedup();
    nodes
}

/// Returns messages whose specialized kernels differ in their operations: one for each reduction that a plan of sums
/// accepts, or one for the plan's own reduction.
#[cfg_attr(not(feature = "cuda"), allow(dead_code, reason = "specialized kernels are for CUDA"))]
pub(super) fn messages(plan: &PlanTree) -> Result<Vec<Message>, ValidationError> {
    /// Elements per rank. The text of a kernel does not depend on it.
    const ELEMENTS: u64 = 4096;
    let mut message = Message::new(DataType::F32, plan.ranks.len() as u64 * ELEMENTS).any_size();
    message.row = if plan.collective.rows { 8 } else { 0 };
    let can_average = plan.collective.kind.is_reduction() && !plan.collective.rows;
    match resolve(&Plan::new(plan))?.reductions {
        Reductions::Generic => {
            let ops = ReduceOp::ALL.into_iter().filter(|&op| op != ReduceOp::Avg || can_average);
            Ok(ops.map(|op| message.op(op)).collect())
        }
        _ => Ok(vec![message]),
    }
}
