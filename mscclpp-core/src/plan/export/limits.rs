//! What is left that the reference executor cannot run.

use super::{room, site};
use crate::collective::CollectiveKind;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::stats::{reads_packets, writes_packets};
use crate::plan::{LoopBody, Op, OpKind, Place, PlanTree, RankPlan};
use crate::vocab::{BufferKind, ChannelKind, Protocol, ReduceOp};

/// Everything that is wrong, and the largest message that byte offsets allow.
pub(super) fn check(plan: &PlanTree) -> (Diagnostics, u64) {
    let mut limits = Limits { plan, found: Diagnostics::default(), largest: u64::MAX };
    if plan.threads_per_block > room::THREADS {
        limits.over(Site::None, "threads in a thread block", plan.threads_per_block.into(), room::THREADS.into());
    }
    // The reference reads the smallest size into 31 bits.
    if plan.min_message_size > i32::MAX as u64 {
        limits.over(Site::None, "bytes as the smallest message", plan.min_message_size, i32::MAX as u64);
    }
    for (number, rank) in plan.ranks.iter().enumerate() {
        limits.rank(number, rank);
    }
    limits.sizes();
    (limits.found, limits.largest)
}

struct Limits<'a> {
    plan: &'a PlanTree,
    found: Diagnostics,
    /// Bytes of the largest message.
    largest: u64,
}

impl Limits<'_> {
    fn over(&mut self, site: Site, what: &str, count: u64, limit: u64) {
        let message = format!("{count} {what}, expected at most {limit}");
        self.found.push(Diagnostic::new(Code::OverReferenceLimit, site, message));
    }

    fn refuse(&mut self, site: Site, message: String, help: &str) {
        self.found.push(Diagnostic::new(Code::NotInReference, site, message).help(help));
    }

    fn rank(&mut self, number: usize, rank: &RankPlan) {
        let path = format!("rank {number}");
        for (buffer, chunks) in [(BufferKind::Input, rank.input_chunks), (BufferKind::Output, rank.output_chunks)] {
            if chunks == 0 {
                let message = format!("no {buffer} chunks, by whose number the reference divides");
                self.refuse(Site::Path(path.clone()), message, "give every rank at least one input and output chunk");
            }
        }
        let longest = longest_chunk(self.plan, rank);
        let chunks = match self.plan.collective.kind {
            CollectiveKind::AllGather => rank.output_chunks,
            _ => rank.input_chunks,
        };
        self.largest = self.largest.min(longest.saturating_mul(u64::from(chunks)));
        for (i, block) in rank.blocks.iter().enumerate() {
            let path = format!("{path} / thread block {i}");
            for kind in ChannelKind::ALL {
                let (channels, buffers) = (block.channels(kind).len(), block.remote_buffers(kind).len());
                for (what, count, limit) in [
                    (format!("{kind} channels"), channels, room::CHANNELS),
                    (format!("remote buffers for {kind} channels"), buffers, room::REMOTE_BUFFERS),
                ] {
                    if count > limit {
                        self.over(Site::Path(path.clone()), &what, count as u64, limit as u64);
                    }
                }
            }
            let mut at = 0;
            for op in &block.ops {
                self.op(op, None, &path, &mut at);
            }
            if at > room::OPS {
                self.over(Site::Path(path), "operations", at as u64, room::OPS as u64);
            }
        }
    }

    fn op(&mut self, op: &Op, around: Option<&LoopBody>, block: &str, at: &mut usize) {
        let path = format!("{block} / operation {at} ({})", op.kind.name());
        *at += 1;
        let site = || site(self.plan, path.clone(), op.origin);
        let site = site();
        let name = op.kind.name();
        let ids = match op.kind {
            OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease => room::SEMAPHORES,
            _ => room::PER_OP,
        };
        let limits = [
            (format!("channels or semaphores in a {name}"), op.ids.len(), ids),
            (format!("sources in a {name}"), op.srcs.len(), room::REFS),
            (format!("destinations in a {name}"), op.dsts.len(), room::REFS),
        ];
        for (what, count, limit) in limits {
            if count > limit {
                self.over(site.clone(), &what, count as u64, limit as u64);
            }
        }
        if let (OpKind::Barrier, Some(id)) = (op.kind, op.ids.first())
            && *id >= room::BARRIERS
        {
            self.over(site.clone(), "barriers on a rank", u64::from(*id) + 1, room::BARRIERS.into());
        }
        if let Some(reduce) = op.reduce
            && reduce != ReduceOp::Sum
        {
            let message = format!("a {name} with {reduce}, where the reference always adds");
            self.refuse(site.clone(), message, "run the plan with this runtime, or let it sum");
        }
        if op.kind == OpKind::SwitchReduce {
            let message = "a glre, which the reference refuses to load".to_owned();
            self.refuse(
                site.clone(),
                message,
                "broadcast its result right behind it, so that the two fuse into a glres",
            );
        }
        if op.kind == OpKind::Get && op.srcs.iter().zip(&op.dsts).any(|(src, dst)| src.index != dst.index) {
            let message = "a get into another chunk than it reads, for which the reference swaps the two".to_owned();
            self.refuse(site.clone(), message, "get into the chunk of the same number, or let the peer put");
        }
        let packets = (0..op.srcs.len()).any(|i| reads_packets(op.kind, i))
            || (0..op.dsts.len()).any(|i| writes_packets(op.kind, i));
        if packets && around.is_some() {
            let message = format!("a {name} in a pipeline, whose windows the reference ignores for packets");
            self.refuse(site.clone(), message, "take it out of the pipeline");
        }
        if let Some(body) = &op.body {
            if body.unit > room::BYTES {
                self.over(site.clone(), "bytes as the unit of a pipeline", body.unit, room::BYTES);
            }
            if around.is_some() {
                self.refuse(site, "a pipeline in a pipeline".into(), "put one behind the other");
                return;
            }
            for op in &body.ops {
                self.op(op, Some(body), block, at);
            }
        }
    }

    /// Whether the plan's messages are small enough.
    fn sizes(&mut self) {
        let (largest, min, max) = (self.largest, self.plan.min_message_size, self.plan.max_message_size);
        if max == u64::MAX && min <= largest || max <= largest {
            return;
        }
        let message = format!(
            "messages of up to {} bytes, expected at most {largest}: beyond that offsets do not fit into 32 bits, or a \
             pipeline does not fit into 65535 iterations",
            if max == u64::MAX { min } else { max }
        );
        let help = format!("set the largest message size to {largest} bytes");
        self.found.push(Diagnostic::new(Code::OverReferenceLimit, Site::None, message).help(help));
    }
}

/// Bytes of the longest chunk with which all offsets and iterations of a rank stay in range.
fn longest_chunk(plan: &PlanTree, rank: &RankPlan) -> u64 {
    let halves = if plan.double_scratch { 2 } else { 1 };
    let doubled = if plan.protocol == Protocol::LL { 2 } else { 1 };
    let scratch = u64::from(rank.scratch_chunks) * doubled * halves;
    let mut longest = room::BYTES / scratch.max(1);
    let mut visit = |op: &Op| {
        let srcs = op.srcs.iter().enumerate().map(|(i, at)| (at, reads_packets(op.kind, i)));
        let dsts = op.dsts.iter().enumerate().map(|(i, at)| (at, writes_packets(op.kind, i)));
        for (at, packets) in srcs.chain(dsts) {
            let end = u64::from(at.index) + u64::from(at.size);
            // Another rank's scratch has two halves as well; which buffer it is does not matter for a bound.
            let halves =
                if matches!(at.place, Place::Local(BufferKind::Input | BufferKind::Output)) { 1 } else { halves };
            longest = longest.min(room::BYTES / (end * if packets { 2 } else { 1 } * halves).max(1));
        }
        if let Some(body) = &op.body {
            let bytes = room::ITERATIONS.saturating_mul(body.unit);
            longest = longest.min(bytes / u64::from(body.num_chunks.max(1)));
        }
    };
    for op in rank.blocks.iter().flat_map(|block| &block.ops) {
        visit(op);
        op.body.iter().flat_map(|body| &body.ops).for_each(&mut visit);
    }
    longest
}
