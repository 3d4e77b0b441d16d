//! The program of an algorithm.
//!
//! MSCCL's runtime moves every message through a buffer of the connection. Here each message has scratch of its own on the receiver, and a
//! receiver announces at the start that its scratch may be written, so no message waits for another one to be read.

use std::collections::BTreeMap;

use mscclpp_core::collective::{Collective, CollectiveKind};
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::dsl::{AnyBuffer, Buffer, Chunk, MemoryChannel, Program, Rank, Scratch, Semaphore};
use mscclpp_core::origin::SourceLocation;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::{BlockSync, BufferKind};

use super::algorithm::{Algorithm, Chunks, Connection, Step, StepKind};

/// What the two ends of a connection use.
struct Link<'p> {
    sender: MemoryChannel<'p>,
    receiver: MemoryChannel<'p>,
    /// Scratch of the receiver, and the first chunk of each message in it.
    slots: Buffer<'p, Scratch>,
    firsts: Vec<usize>,
}

/// Records an algorithm. `file` is the name of its file, in which operations have their places.
///
/// # Errors
/// What the recorder finds.
pub(super) fn record(algorithm: &Algorithm, file: &str) -> Result<Trace, Diagnostics> {
    let num_ranks = algorithm.gpus.len() as u32;
    let (factor, scale) = chunking(algorithm, num_ranks);
    let mut spec = AlgoSpec::new(algorithm.name.clone(), algorithm.kind, num_ranks);
    spec.collective = Collective { chunk_factor: factor, in_place: algorithm.in_place, ..spec.collective };
    let program = Program::new(spec);
    Recording { program: &program, algorithm, file, scale: scale as usize }.all();
    program.finish()
}

/// Returns the chunk factor of the program, and the chunks that each chunk of the file becomes: where every rank has a part of the
/// message, files may have chunks that do not divide into parts.
fn chunking(algorithm: &Algorithm, num_ranks: u32) -> (u32, u32) {
    let largest = |buffer: usize| algorithm.gpus.iter().map(|gpu| gpu.chunks[buffer]).max().unwrap_or(1).max(1);
    match algorithm.kind {
        CollectiveKind::AllGather => (largest(0), 1),
        CollectiveKind::ReduceScatter => (largest(1), 1),
        _ => {
            let all = largest(0).max(largest(1));
            let is_whole = |scale: &u32| (u64::from(all) * u64::from(*scale)).is_multiple_of(num_ranks.into());
            let scale = (1..num_ranks).find(is_whole).unwrap_or(num_ranks);
            (all.saturating_mul(scale) / num_ranks, scale)
        }
    }
}

struct Recording<'p> {
    program: &'p Program,
    algorithm: &'p Algorithm,
    file: &'p str,
    scale: usize,
}

impl<'p> Recording<'p> {
    fn rank(&self, rank: u32) -> Rank<'p> {
        self.program.rank(rank as usize)
    }

    fn links(&self) -> BTreeMap<Connection, Link<'p>> {
        let link = |(&(from, to, channel), messages): (&Connection, &Vec<u32>)| {
            let (sender, receiver) = (self.rank(from), self.rank(to));
            let mut firsts = Vec::new();
            let mut all = 0;
            for count in messages {
                firsts.push(all);
                all += *count as usize * self.scale;
            }
            let slots = receiver.scratch(all);
            let ends = (sender.memory_channel(receiver), receiver.memory_channel(sender));
            ((from, to, channel), Link { sender: ends.0, receiver: ends.1, slots, firsts })
        };
        self.algorithm.connections.iter().filter(|(_, messages)| !messages.is_empty()).map(link).collect()
    }

    fn all(&self) {
        let scratch: Vec<_> = self
            .algorithm
            .gpus
            .iter()
            .enumerate()
            .map(|(rank, gpu)| {
                let chunks = gpu.chunks[2] as usize * self.scale;
                (chunks > 0).then(|| self.program.rank(rank).scratch(chunks))
            })
            .collect();
        let links = self.links();
        for (rank, gpu) in self.algorithm.gpus.iter().enumerate() {
            // By the step that is waited for: one semaphore for each step that waits.
            let mut released: BTreeMap<(usize, usize), Vec<Semaphore<'p>>> = BTreeMap::new();
            let mut acquired: BTreeMap<(usize, usize), Semaphore<'p>> = BTreeMap::new();
            for (number, block) in gpu.blocks.iter().enumerate() {
                for (at, step) in block.steps.iter().enumerate() {
                    // Steps of a thread block are in order.
                    if let Some(of) = step.after.filter(|(of, _)| *of != number) {
                        let semaphore = self.program.rank(rank).semaphore(0);
                        released.entry(of).or_default().push(semaphore);
                        acquired.insert((number, at), semaphore);
                    }
                }
            }
            for (number, block) in gpu.blocks.iter().enumerate() {
                let over = |connection: Option<Connection>| connection.and_then(|connection| links.get(&connection));
                let (from, to) = (over(block.receive), over(block.send));
                if let Some(from) = from {
                    from.receiver.signal(number).relaxed();
                }
                if let Some(to) = to {
                    to.sender.wait(number).relaxed().sync(BlockSync::After);
                }
                let mut places = [0, 0];
                for (at, step) in block.steps.iter().enumerate() {
                    let place = SourceLocation {
                        file: self.file.into(),
                        line: step.line,
                        column: 1,
                        ..SourceLocation::default()
                    };
                    self.program.set_location(Some(place));
                    if let Some(semaphore) = acquired.get(&(number, at)) {
                        semaphore.acquire(number).sync(BlockSync::After);
                    }
                    let [sent, received] = &mut places;
                    let arrived = from.filter(|_| step.kind.receives()).map(|link| (link, next(received)));
                    let sends = to.filter(|_| step.kind.sends()).map(|link| (link, next(sent)));
                    self.step(self.program.rank(rank), number, step, scratch[rank], arrived, sends);
                    for semaphore in released.get(&(number, at)).into_iter().flatten() {
                        semaphore.release(number).sync(BlockSync::Before);
                    }
                }
                self.program.set_location(None);
            }
        }
    }

    /// Records a step. `arrived` and `sends`: the connections that it uses, and the number of the message.
    fn step(
        &self,
        rank: Rank<'p>,
        block: usize,
        step: &Step,
        scratch: Option<Buffer<'p, Scratch>>,
        arrived: Option<(&Link<'p>, usize)>,
        sends: Option<(&Link<'p>, usize)>,
    ) {
        let count = step.count as usize * self.scale;
        let chunks = |Chunks { buffer, first }: Chunks| -> Chunk<'p, AnyBuffer> {
            let first = first as usize * self.scale;
            let range = first..first + count;
            match (buffer, scratch) {
                (BufferKind::Input, _) => rank.input().chunk(range).to_any(),
                (BufferKind::Output, _) => rank.output().chunk(range).to_any(),
                (BufferKind::Scratch, Some(scratch)) => scratch.chunk(range).to_any(),
                // Without scratch the range is past its end, which the recorder reports.
                (BufferKind::Scratch, None) => rank.scratch(1).chunk(first + 1..first + 1 + count).to_any(),
            }
        };
        let slot = |(link, message): (&Link<'p>, usize)| {
            let first = link.firsts.get(message).copied().unwrap_or(usize::MAX - count);
            link.slots.chunk(first..first + count)
        };
        let mut result = None;
        if let Some(arrived) = arrived {
            arrived.0.receiver.wait(block).sync(BlockSync::After);
            let received = slot(arrived);
            result = Some(match step.kind {
                StepKind::ReceiveReduceSend => {
                    rank.reduce(received, chunks(step.src), block);
                    received.to_any()
                }
                StepKind::ReceiveReduceCopy | StepKind::ReceiveReduceCopySend if step.src == step.dst => {
                    rank.reduce(chunks(step.dst), received, block);
                    chunks(step.dst)
                }
                StepKind::ReceiveReduceCopy | StepKind::ReceiveReduceCopySend => {
                    rank.reduce(chunks(step.src), received, block).to(chunks(step.dst));
                    chunks(step.dst)
                }
                _ => {
                    rank.copy(chunks(step.dst), received, block);
                    chunks(step.dst)
                }
            });
        }
        match step.kind {
            StepKind::Copy if step.src != step.dst => rank.copy(chunks(step.dst), chunks(step.src), block),
            StepKind::Reduce => _ = rank.reduce(chunks(step.dst), chunks(step.src), block),
            _ => {}
        }
        if let Some(sends) = sends {
            sends.0.sender.put(slot(sends), result.unwrap_or_else(|| chunks(step.src)), block);
            sends.0.sender.signal(block).sync(BlockSync::Before);
        }
    }
}

fn next(number: &mut usize) -> usize {
    let now = *number;
    *number += 1;
    now
}
