//! The numbers of thread blocks and threads with which built-in algorithms are built, unless a configuration has others.

use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::Protocol;

use super::choice::Config;
use super::request::Request;

/// Returns the specification and arguments of a built-in algorithm for a request. On the CPU one parallel block is
/// usual, because ranks run in parallel.
pub(super) fn build_for(algorithm: &BuiltinAlgorithm, request: &Request, config: &Config) -> (AlgoSpec, Vec<usize>) {
    let mut spec = algorithm.spec(request.num_ranks, request.ranks_per_node);
    spec.collective.in_place = request.in_place;
    spec.collective.root = request.root;
    spec.threads_per_block = config.threads.unwrap_or(spec.threads_per_block);
    algorithm.with_parallel_blocks(spec, config.blocks.unwrap_or(1))
}

/// Maximum usual number of parallel blocks on a device, unless an algorithm's own number is larger.
const MAX_USUAL_BLOCKS: u64 = 32;

/// Maximum usual number of thread blocks on a device: as many of 1024 threads are co-resident on devices with more
/// multiprocessors, such as A100 with 108.
const MAX_THREAD_BLOCKS: u32 = 104;

/// Returns the usual numbers of parallel blocks and of threads on a device. Each block of packets has 1 KiB of the message,
/// from 2 KiB on; other blocks have 64 KiB, but there are no fewer than the algorithm's own number, unless they would be too
/// many to be co-resident. A thread has at least one packet or vector of its block's data; short messages do not pay for the
/// start of many threads.
pub(super) fn on_device(algorithm: &BuiltinAlgorithm, request: &Request) -> (u32, u32) {
    let spec = algorithm.spec(request.num_ranks, request.ranks_per_node);
    let (bytes_per_block, bytes_per_thread) = match spec.protocol {
        Protocol::LL => (1 << 10, 8),
        Protocol::Simple => (1 << 16, 16),
    };
    let by_size = match request.bytes / bytes_per_block {
        0..2 => 1,
        blocks => blocks.min(MAX_USUAL_BLOCKS).next_power_of_two(),
    };
    let max_thread_blocks = request.max_blocks.min(MAX_THREAD_BLOCKS);
    let max_blocks = algorithm.max_parallel_blocks(request.num_ranks, max_thread_blocks).max(1);
    let blocks = algorithm.num_parallel_blocks(&spec).max(by_size as u32).min(max_blocks);
    let max_threads = if request.bytes <= 1 << 14 { spec.threads_per_block.min(256) } else { spec.threads_per_block };
    let threads = request.bytes / u64::from(blocks) / bytes_per_thread;
    let threads = threads.clamp(64, u64::from(max_threads.max(64))).next_power_of_two() as u32;
    (blocks, threads.min(max_threads))
}
