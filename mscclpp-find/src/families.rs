//! Candidates from the built-in algorithms.

use mscclpp_algorithms::{self as algorithms, BufferMode, BuiltinAlgorithm};

use crate::candidate::Origin;
use crate::request::Request;

/// Numbers of thread blocks that share a transfer.
const PARALLEL_BLOCKS: [u32; 9] = [1, 2, 4, 8, 12, 16, 24, 32, 64];

/// Maximum product of pairs of ranks and thread blocks that share a transfer: algorithms have a bounded number of operations for each.
const MAX_PAIRS: u64 = 1 << 19;

/// Returns every algorithm for the request with every number of thread blocks that may fit.
pub(crate) fn candidates(request: &Request) -> Vec<Origin> {
    let ranks = request.num_ranks;
    let per_node = request.machine.ranks_per_node.min(ranks);
    let max_blocks = request.block_limit();
    let multicast = request.machine.multicast;
    algorithms::all()
        .iter()
        .filter(|one| one.kind() == request.kind && one.supports(ranks, per_node))
        .filter(|one| multicast || !one.needs_multicast())
        .flat_map(|algorithm| {
            let max = algorithm.max_parallel_blocks(ranks, max_blocks);
            let fits = move |count: &u32| *count <= max && u64::from(ranks).pow(2) * u64::from(*count) <= MAX_PAIRS;
            let counts = PARALLEL_BLOCKS.into_iter().filter(fits);
            counts.filter_map(|count| origin(algorithm, request, per_node, count))
        })
        .collect()
}

fn origin(algorithm: &'static BuiltinAlgorithm, request: &Request, per_node: u32, parallel: u32) -> Option<Origin> {
    let spec = algorithm.spec(request.num_ranks, per_node);
    let (mut spec, arguments) = algorithm.with_parallel_blocks(spec, parallel);
    spec.collective.in_place = match (algorithm.buffer_mode(), request.in_place) {
        (BufferMode::InPlace, Some(false)) | (BufferMode::OutOfPlace, Some(true)) => return None,
        (BufferMode::InPlace, _) => true,
        (BufferMode::OutOfPlace, _) => false,
        (BufferMode::Any, asked) => asked.unwrap_or(spec.collective.in_place),
    };
    Some(Origin::Builtin { algorithm, spec, arguments, parallel_blocks: parallel })
}
