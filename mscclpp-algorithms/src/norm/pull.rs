//! Pulled all-reduce in the order of ranks, with a norm of all rows on every rank: 1 step, P-1 times the message read per rank,
//! P(P-1) chunks of scratch for more than two ranks.

use mscclpp_core::dsl::{Channels, Program};
use mscclpp_macros::collective;

use crate::builtin::{BufferMode, BuiltinAlgorithm, OrderScope};

/// Every rank reads the inputs of all ranks, reduces them, and normalizes all rows, a few at a time, so that a row is still in
/// the cache when it is normalized.
///
/// Out of place, two ranks or more, one thread block. Of two ranks the order does not matter, so that each one adds the
/// peer's rows to its own ones as it reads them; of more, rows are reduced when all of them have been read. For ranks that
/// share memory.
#[collective(AllReduce, ranks = [2, 4, 8], rows, crate = mscclpp_core)]
pub fn allreduce_norm_pull(p: &Program) {
    let ranks = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let channels = rank.memory_channels((1..ranks).map(|step| (id + step) % ranks));
        let (input, result) = (rank.input().chunk(..), rank.output().chunk(..));
        channels.handshake(0).relaxed();
        if ranks == 2 {
            p.pipeline(16 << 10, ranks, || {
                for channel in &channels {
                    channel.reduce(input, channel.peer().input().chunk(..), 0).to(result);
                }
                rank.row_norm(result, result, 0);
            });
        } else {
            let scratch = rank.scratch((ranks - 1) * ranks);
            let slot = |of: usize| {
                let first = (of + ranks - id - 1) % ranks * ranks;
                scratch.chunk(first..first + ranks)
            };
            let operand = |of: usize| if of == id { input.to_any() } else { slot(of).to_any() };
            let others: Vec<_> = (1..ranks).map(operand).collect();
            p.pipeline(16 << 10, ranks, || {
                for channel in &channels {
                    channel.get(slot(channel.peer().id()), channel.peer().input().chunk(..), 0);
                }
                rank.reduce(operand(0), &others, 0).to(result);
                rank.row_norm(result, result, 0);
            });
        }
        // The peers' inputs have been read and may be overwritten.
        channels.handshake(0).relaxed();
    }
}

/// Entry in the list of algorithms.
pub(crate) const ENTRY: BuiltinAlgorithm =
    BuiltinAlgorithm::new(allreduce_norm_pull::algorithm, include_str!("pull.rs"), |p, _| allreduce_norm_pull(p))
        .with_buffer_mode(BufferMode::OutOfPlace)
        .in_order(OrderScope::FirstTwo);
