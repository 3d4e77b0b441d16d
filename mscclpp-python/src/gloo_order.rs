//! The order in which gloo reduces floats, so that a program gets the same bits from this backend.
//!
//! With two ranks there is one order. With more, gloo's all-reduce is a ring: the message is cut into segments of at most 1 MiB, at least
//! two for each rank, a multiple of the ranks, and rank r reduces the r-th part of them, from the rank before it downwards, its own
//! elements last. Its reduce-scatter of one tensor has the bits of an all-reduce, and so has its reduce, whose segments are of exactly 1 MiB
//! if there are more. Found by comparing results of gloo in PyTorch 2.11 and 2.15 with all orders of a ring.

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::{DataType, Error};
use mscclpp_select::{Backend, Choice, Config, OrderPolicy, Request};

/// The largest segment.
const SEGMENT: u64 = 1 << 20;

/// Lets all-reduces of a communicator have gloo's order where it has an algorithm for it: on ranks of one node. A call of all ranks.
pub(crate) fn adopt(comm: &Communicator) -> Result<(), Error> {
    let request = comm.request_of(CollectiveKind::AllReduce, DataType::F32, 0);
    if choice(&Request { op: Some(ReduceOp::Sum), order: OrderPolicy::Any, ..request }).is_some() {
        comm.configure(|registry| {
            registry.set_selector(|request, candidates| {
                // Plans of the program come first.
                let are_builtin = candidates.iter().all(|candidate| candidate.is_builtin());
                choice(request).filter(|_| are_builtin)
            })
        })?;
    }
    Ok(())
}

/// Returns whether a communicator's all-reduces have an order of their own to be followed, that of gloo.
pub(crate) fn has_order(comm: &Communicator, op: ReduceOp, dtype: DataType) -> bool {
    let request = comm.request_of(CollectiveKind::AllReduce, dtype, 0);
    choice(&Request { op: Some(op), ..request }).is_some()
}

fn choice(request: &Request) -> Option<Choice> {
    let is_served = request.collective == CollectiveKind::AllReduce
        && request.backend == Backend::Cpu
        && request.num_nodes() == 1
        && request.num_ranks > 2
        && request.order < OrderPolicy::RankOrder
        && request.rounds();
    is_served.then(|| Choice {
        config: Config { blocks: Some(segments(request.bytes, request.num_ranks)), threads: None },
        ..Choice::named("allreduce_ring_order")
    })
}

/// Returns the bytes, at least as many, whose all-reduce has the order of gloo's reduce.
pub(crate) fn reduced_bytes(bytes: usize, ranks: u32) -> usize {
    match segments(bytes as u64, ranks) {
        2 => bytes,
        segments => segments as usize * ranks as usize * SEGMENT as usize,
    }
}

/// Returns the number of segments of each rank.
fn segments(bytes: u64, ranks: u32) -> u32 {
    let ranks = u64::from(ranks);
    let all = bytes.div_ceil(SEGMENT).max(2 * ranks);
    u32::try_from(all.div_ceil(ranks)).unwrap_or(u32::MAX)
}
