//! Traces in the notation of the plans' tests.

use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::{LoopHeader, RankTables, Trace, TracedOp};
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::types::Protocol;

#[path = "../../mscclpp-plan/src/testing.rs"]
mod notation;
pub(crate) use notation::*;

/// A trace of a `test` collective with protocol `LL`: per rank, the text of every block. Ranks have [`tables`].
pub(crate) fn trace(ranks: &[&[&str]]) -> Trace {
    let count = ranks.len() as u32;
    let mut spec = AlgoSpec::new("test", CollectiveKind::Test { input: 8, output: 8 }, count);
    spec.protocol = Protocol::LL;
    let mut trace = Trace {
        spec,
        ranks: Vec::new(),
        ops: Vec::new(),
        loops: Vec::new(),
        expectations: Vec::new(),
        origins: Default::default(),
    };
    for (rank, blocks) in (0..).zip(ranks) {
        let tables = tables(rank, count);
        trace.ranks.push(RankTables {
            input_chunks: tables.input_chunks,
            output_chunks: tables.output_chunks,
            scratch_chunks: tables.scratch_chunks,
            channels: tables.channels,
            remote_buffers: tables.remote_buffers,
            semaphores: tables.semaphores,
            num_blocks: blocks.len() as u32,
            barriers: Vec::new(),
        });
        for (block, text) in (0..).zip(*blocks) {
            for op in ops(text) {
                match op.body {
                    None => trace.ops.push(TracedOp { rank, block, in_loop: None, op }),
                    Some(body) => {
                        let in_loop = Some(trace.loops.len() as u32);
                        trace.loops.push(LoopHeader { unit: body.unit, num_chunks: body.num_chunks });
                        let record = |op| TracedOp { rank, block, in_loop, op };
                        trace.ops.extend(body.ops.into_iter().map(record));
                    }
                }
            }
        }
    }
    trace
}
