//! Ranks and their local operations.

use super::args::{AnyChunk, BlockArg, BlockList, Blocks, ChunkList, PacketChunk, PacketList, RankArg, RankList};
use super::buffer::{Buffer, Input, Output, Scratch};
use super::channel::{MemoryChannel, PortChannel};
use super::program::Program;
use super::recorder::{End, Transfer};
use super::semaphore::Semaphore;
use super::value::{OpsValue, POISON};
use crate::plan::OpKind;
use crate::types::{BufferKind, ChannelKind};

/// One of the program's ranks.
#[derive(Clone, Copy)]
pub struct Rank<'p> {
    program: &'p Program,
    id: u32,
}

/// The program's ranks, in order.
#[derive(Clone, Debug)]
pub struct Ranks<'p> {
    program: &'p Program,
    range: std::ops::Range<u32>,
}

/// The last recorded reduction; its methods refine it.
#[derive(Clone, Copy, Debug)]
pub struct Reduction<'p> {
    program: &'p Program,
    ops: OpsValue,
}

impl std::fmt::Debug for Rank<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rank({})", self.id)
    }
}

impl PartialEq for Rank<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for Rank<'_> {}

impl<'p> Ranks<'p> {
    pub(super) fn new(program: &'p Program, range: std::ops::Range<u32>) -> Self {
        Self { program, range }
    }
}

impl<'p> Iterator for Ranks<'p> {
    type Item = Rank<'p>;

    fn next(&mut self) -> Option<Rank<'p>> {
        self.range.next().map(|id| Rank::new(self.program, id))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for Ranks<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|id| Rank::new(self.program, id))
    }
}

impl ExactSizeIterator for Ranks<'_> {}

impl<'p> Rank<'p> {
    pub(super) fn new(program: &'p Program, id: u32) -> Self {
        Self { program, id }
    }

    pub(super) fn number(&self) -> u32 {
        self.id
    }

    pub(super) fn program(&self) -> &'p Program {
        self.program
    }
}

impl<'p> Reduction<'p> {
    pub(super) fn new(program: &'p Program, ops: OpsValue) -> Self {
        Self { program, ops }
    }

    pub(super) fn ops(&self) -> OpsValue {
        self.ops
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

dsl! {
    table METHODS; by value self; for [Rank<'static>];
    impl['p] Rank<'p> {
        /// Returns the rank's number.
        fn id(this) -> usize {
            // A rejected rank counts as rank 0 in arithmetic, so that one mistake causes one message.
            if this.id == POISON { 0 } else { this.id as usize }
        }

        /// Returns the number of the rank's node: `id / ranks_per_node`.
        fn node(this) -> usize {
            this.id() / this.program.ranks_per_node()
        }

        /// Returns the rank's number within its node: `id % ranks_per_node`.
        fn local_id(this) -> usize {
            this.id() % this.program.ranks_per_node()
        }

        /// Returns the buffer that the caller passes for reading. The collective and its chunk factor determine its
        /// number of chunks.
        fn input(this) -> Buffer<'p, Input> {
            Buffer::new(this.program, this.program.recorder().buffer(this.id, BufferKind::Input))
        }

        /// Returns the buffer that receives the results. In-place programs use only one of input and output.
        fn output(this) -> Buffer<'p, Output> {
            Buffer::new(this.program, this.program.recorder().buffer(this.id, BufferKind::Output))
        }

        /// Allocates scratch after the rank's earlier allocations. One chunk is as long as one of the input.
        fn scratch(this, chunks: usize) -> Buffer<'p, Scratch> {
            Buffer::new(this.program, this.program.recorder().scratch(this.id, chunks))
        }

        /// Creates a memory channel to a peer.
        fn memory_channel(this, peer: RankArg) -> MemoryChannel<'p> {
            MemoryChannel::new(this.program, this.program.recorder().channel(ChannelKind::Memory, this.id, peer))
        }

        /// Creates a port channel to a peer.
        fn port_channel(this, peer: RankArg) -> PortChannel<'p> {
            PortChannel::new(this.program, this.program.recorder().channel(ChannelKind::Port, this.id, peer))
        }

        /// Creates a memory channel to each peer, in order.
        ///
        /// [`Channels::handshake`](super::Channels::handshake) signals on all of them and waits for all.
        fn memory_channels(this, peers: RankList) -> Vec<MemoryChannel<'p>> {
            let values = this.program.recorder().channels(ChannelKind::Memory, this.id, &peers);
            values.into_iter().map(|value| MemoryChannel::new(this.program, value)).collect()
        }

        /// Creates a port channel to each peer, in order.
        ///
        /// [`Channels::handshake`](super::Channels::handshake) signals on all of them and waits for all.
        fn port_channels(this, peers: RankList) -> Vec<PortChannel<'p>> {
            let values = this.program.recorder().channels(ChannelKind::Port, this.id, &peers);
            values.into_iter().map(|value| PortChannel::new(this.program, value)).collect()
        }

        /// Creates a semaphore between this rank's thread blocks.
        fn semaphore(this, initial: i64) -> Semaphore<'p> {
            let id = this.program.recorder().semaphore(this.id, initial);
            Semaphore::new(this.program, this.id, id)
        }

        /// Copies a chunk of this rank to another one of this rank.
        ///
        /// # Shapes and units
        /// Both have the same number of chunks and do not overlap.
        fn copy(this, dst: AnyChunk, src: AnyChunk, at: Blocks) {
            this.program.recorder().local_move(&COPY, this.id, dst, src, None, &at);
        }

        /// Gives the counts of this launch that the rank's caller passed to all ranks, and waits for those of all ranks:
        /// the table of counts, with a row for every sender and an entry in it for every receiver.
        ///
        /// # Ordering
        /// Every rank has begun this launch when the exchange ends, and its thread block is synchronized. Thread blocks that
        /// use counts synchronize with it by a barrier.
        /// # Cost
        /// 8 bytes to every rank for each rank and buffer.
        fn exchange_counts(this, block: BlockArg) {
            this.program.recorder().exchange_counts(this.id, block);
        }

        /// Copies as many elements of a chunk of this rank to another one of this rank as `sender` has for `receiver`.
        ///
        /// # Shapes and units
        /// All operations on a chunk have the same count. In an all-to-all-v, the count of chunk r of rank s's input and of
        /// chunk s of rank r's output is that of s and r, and these chunks begin where the counts before them end. All other
        /// chunks begin where they do for the maximum of the counts.
        fn copy_counted(this, dst: AnyChunk, src: AnyChunk, sender: RankArg, receiver: RankArg, at: Blocks) {
            let mut recorder = this.program.recorder();
            if let count @ Some(_) = recorder.count(sender, receiver) {
                recorder.local_move(&COPY_COUNTED, this.id, dst, src, count, &at);
            }
        }

        /// Adds the residual to each row of a chunk of this rank, normalizes the rows, and stores them in a chunk of the
        /// output, which may be the same one.
        ///
        /// The residual, gamma and all else that the norm has besides the rows are operands of the launch; they have a row for
        /// every row of the output. A launch may also add without normalizing.
        ///
        /// # Shapes and units
        /// The plan has `rows`, so that chunks are made of whole rows. Both have the same number of chunks, and they are equal
        /// or do not overlap. Every row of the output is normalized once.
        ///
        /// # Ordering
        /// Every thread reads all of a row: a block sync is between the norm and what else accesses its chunks.
        fn row_norm(this, dst: AnyChunk, src: AnyChunk, at: Blocks) {
            this.program.recorder().row_norm(this.id, dst, src, &at);
        }

        /// Stores plain data as packets into the rank's own scratch.
        fn copy_packets(this, dst: PacketChunk, src: AnyChunk, at: Blocks) {
            this.program.recorder().local_move(&COPY_PACKETS, this.id, dst, src, None, &at);
        }

        /// Waits for packets in the rank's own scratch and stores their data.
        ///
        /// # Ordering
        /// Waits for packets of this launch; no signal is needed.
        fn unpack_packets(this, dst: AnyChunk, src: PacketChunk, at: Blocks) {
            this.program.recorder().local_move(&UNPACK_PACKETS, this.id, dst, src, None, &at);
        }

        /// Reduces chunks of this rank: `acc = acc ∘ others…` from left to right, or [`to`](Reduction::to) another chunk.
        fn reduce(this, acc: AnyChunk, others: ChunkList, at: Blocks) -> Reduction<'p> {
            let ops = this.program.recorder().local_reduce("reduce", OpKind::Reduce, this.id, acc, &others, &at);
            Reduction::new(this.program, ops)
        }

        /// Waits for packets in the rank's own scratch and reduces them with a plain chunk: `acc = others… ∘ acc`, or
        /// [`to`](Reduction::to) another chunk.
        fn reduce_packets(this, acc: AnyChunk, others: PacketList, at: Blocks) -> Reduction<'p> {
            let ops =
                this.program.recorder().local_reduce("reduce_packets", OpKind::ReducePackets, this.id, acc, &others, &at);
            Reduction::new(this.program, ops)
        }

        /// Synchronizes several thread blocks of this rank; with one, its threads.
        ///
        /// # Ordering
        /// The writes of any of the blocks before the barrier are visible to all of them after it.
        fn barrier(this, blocks: BlockList) {
            this.program.recorder().barrier(this.id, &blocks);
        }
    }
}

dsl! {
    table REDUCTION; by value self; for [Reduction<'static>];
    impl['p] Reduction<'p> {
        /// Stores the result in another chunk of this rank instead of the accumulator.
        fn to(this, dst: AnyChunk) -> Reduction<'p> {
            this.program.recorder().reduce_to(this.ops, dst);
            this
        }

        /// Sets the reduction; `Sum` unless set.
        fn op(this, op: ReduceOp) -> Reduction<'p> {
            this.program.recorder().edit(this.ops, |recorded| recorded.reduce = Some(op));
            this
        }
    }
}

const COPY: Transfer = Transfer::new("copy", OpKind::Copy, End::Local);
const COPY_COUNTED: Transfer = Transfer::new("copy_counted", OpKind::CopyCounted, End::Local);
const COPY_PACKETS: Transfer = Transfer::new("copy_packets", OpKind::CopyPackets, End::Local);
const UNPACK_PACKETS: Transfer = Transfer::new("unpack_packets", OpKind::UnpackPackets, End::Local);
