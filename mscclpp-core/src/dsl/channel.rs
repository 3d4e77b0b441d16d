//! Memory and port channels.

use std::marker::PhantomData;

use super::args::{AnyChunk, At, BlockArg, Blocks, ChunkList, PacketChunk, RankArg};
use super::program::Program;
use super::rank::{Rank, Reduction};
use super::recorder::{End, Transfer};
use super::value::{ChannelValue, OpsValue};
use crate::plan::{Op, OpKind};
use crate::types::{BlockSync, ChannelKind};

/// Type of channel: loads and stores into the peer's mapped memory.
#[derive(Clone, Copy, Debug)]
pub enum Memory {}
/// Type of channel: a FIFO that a proxy serves.
#[derive(Clone, Copy, Debug)]
pub enum Port {}

/// Implemented by [`Memory`] and [`Port`].
pub trait ChannelMarker {
    #[doc(hidden)]
    const KIND: ChannelKind;
    #[doc(hidden)]
    const EXPECTED: &'static str;
}

impl ChannelMarker for Memory {
    const KIND: ChannelKind = ChannelKind::Memory;
    const EXPECTED: &'static str = "a `MemoryChannel`";
}

impl ChannelMarker for Port {
    const KIND: ChannelKind = ChannelKind::Port;
    const EXPECTED: &'static str = "a `PortChannel`";
}

/// Methods of memory channels only.
#[diagnostic::on_unimplemented(
    message = "only a memory channel supports this operation, but this is a port channel",
    label = "a port channel queues operations for a proxy: it can put, signal and flush",
    note = "create the channel with `rank.memory_channel(peer)`; relaxed signals, `get`, `reduce` and thread-block \
        groups require a memory channel"
)]
pub trait OnlyMemory: ChannelMarker {}
impl OnlyMemory for Memory {}

/// Methods of port channels only.
#[diagnostic::on_unimplemented(
    message = "only a port channel supports this operation, but this is a memory channel",
    label = "a memory channel stores directly and has no queue",
    note = "create the channel with `rank.port_channel(peer)`, or use `put` followed by `signal`, which need no flush"
)]
pub trait OnlyPort: ChannelMarker {}
impl OnlyPort for Port {}

/// One end of a connection from a rank to a peer. [`MemoryChannel`] and [`PortChannel`] name the two kinds.
///
/// Channel `k` from a to b of one kind is paired with channel `k` from b to a of that kind, in the order of creation.
/// Every call of `memory_channel` or `port_channel` creates a new one; keep it to use it again.
pub struct Channel<'p, K> {
    program: &'p Program,
    value: ChannelValue,
    kind: PhantomData<K>,
}

/// A channel that loads from and stores into the peer's mapped memory.
pub type MemoryChannel<'p> = Channel<'p, Memory>;

/// A channel through a FIFO that a proxy serves, within a node or between nodes.
pub type PortChannel<'p> = Channel<'p, Port>;

/// The last recorded handshake; its methods refine it.
pub struct Handshake<'p, K> {
    /// The program and the signals and waits; none for a handshake over no channels.
    calls: Option<(&'p Program, OpsValue)>,
    kind: PhantomData<K>,
}

/// The last recorded signal, wait or flush; its methods refine it.
pub struct SyncCall<'p, K> {
    program: &'p Program,
    ops: OpsValue,
    kind: PhantomData<K>,
}

// A derived impl would require `K: Clone`.
impl<K> Clone for Channel<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Channel<'_, K> {}
impl<K> Clone for SyncCall<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for SyncCall<'_, K> {}
impl<K> Clone for Handshake<'_, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Handshake<'_, K> {}
impl<K> Default for Handshake<'_, K> {
    /// Returns the handshake over no channels.
    fn default() -> Self {
        Self { calls: None, kind: PhantomData }
    }
}

impl<K> std::fmt::Debug for Channel<'_, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}
impl<K> std::fmt::Debug for SyncCall<'_, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ops.fmt(f)
    }
}
impl<K> std::fmt::Debug for Handshake<'_, K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.ops().fmt(f)
    }
}

impl<'p, K> Channel<'p, K> {
    pub(crate) fn new(program: &'p Program, value: ChannelValue) -> Self {
        Self { program, value, kind: PhantomData }
    }

    pub(crate) fn value(&self) -> ChannelValue {
        self.value
    }

    /// Returns its value for a call on `program`.
    fn value_in(&self, program: &Program) -> ChannelValue {
        if program.owns(self.program) {
            self.value
        } else {
            ChannelValue { src: program.foreign("channel"), ..self.value }
        }
    }

    fn program(&self) -> &'p Program {
        self.program
    }

    fn sync_call(&self, kind: OpKind, block: i128) -> SyncCall<'p, K> {
        SyncCall::new(self.program, self.program.recorder().channel_sync(kind, self.value, block))
    }
}

impl<'p, K> SyncCall<'p, K> {
    pub(super) fn new(program: &'p Program, ops: OpsValue) -> Self {
        Self { program, ops, kind: PhantomData }
    }

    pub(super) fn ops(&self) -> OpsValue {
        self.ops
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

impl<'p, K> Handshake<'p, K> {
    pub(super) fn new(program: &'p Program, ops: OpsValue) -> Self {
        Self { calls: Some((program, ops)), kind: PhantomData }
    }

    pub(super) fn ops(&self) -> OpsValue {
        self.calls.map_or(OpsValue { first: 0, count: 0 }, |(_, ops)| ops)
    }

    fn edit(&self, change: impl Fn(&mut Op)) {
        if let Some((program, ops)) = self.calls {
            program.recorder().edit(ops, change);
        }
    }

    fn program(&self) -> MaybeProgram<'p> {
        MaybeProgram(self.calls.map(|(program, _)| program))
    }
}

/// The program of a handshake, for `dsl!`.
struct MaybeProgram<'p>(Option<&'p Program>);

impl MaybeProgram<'_> {
    #[track_caller]
    fn mark(&self) {
        if let Some(program) = self.0 {
            program.mark();
        }
    }
}

dsl! {
    table COMMON; by value self; for [Channel<'static, Memory>, Channel<'static, Port>];
    impl['p, K: ChannelMarker] Channel<'p, K> {
        /// Increments the peer's counter, for which the peer's `wait` waits.
        ///
        /// # Ordering
        /// Release: publishes what the thread block did before, if the block is synchronized before the signal, which
        /// is the default; [`sync`](SyncCall::sync) changes it. On a port channel the signal arrives after the earlier
        /// puts.
        fn signal(this, block: BlockArg) -> SyncCall<'p, K> {
            this.sync_call(OpKind::Signal, block)
        }

        /// Waits for one signal of the peer on the paired channel.
        ///
        /// # Ordering
        /// Acquire: what the signal published becomes visible; to the whole thread block if it is synchronized after
        /// the wait, which is the default; [`sync`](SyncCall::sync) changes it.
        fn wait(this, block: BlockArg) -> SyncCall<'p, K> {
            this.sync_call(OpKind::Wait, block)
        }

        /// Signals the peer, then waits for the peer's signal.
        ///
        /// [`Channels::handshake`] is the same with several peers, and says more.
        fn handshake(this, block: BlockArg) -> Handshake<'p, K> {
            Handshake::new(this.program, this.program.recorder().handshake(&[this.value], block))
        }

        /// Returns the rank at the other end.
        fn peer(this) -> Rank<'p> {
            Rank::new(this.program, this.value.dst)
        }
    }
}

dsl! {
    table CHANNELS; for [[Channel<'static, Memory>], [Channel<'static, Port>]];
    /// Channels of one rank: a slice, an array or a `Vec` of them, such as [`Rank::memory_channels`] returns.
    trait Channels['p, K] for [Channel<'p, K>] where [K: ChannelMarker] {
        /// Signals all peers, then waits for the signals of all, each in the order of the channels.
        ///
        /// The peers do the same. After it a rank knows that every peer has reached this point: the accesses of the
        /// peers' thread blocks before their handshakes are over, and their writes are visible. Most programs open with
        /// a [`relaxed`](Handshake::relaxed) handshake, after which buffers of the peers may be accessed, and close
        /// with a handshake, after which their accesses are over.
        ///
        /// ```
        /// use mscclpp_core::dsl::Channels;
        /// use mscclpp_core::{collective::CollectiveKind, compile, spec::AlgoSpec};
        ///
        /// let plan = compile(AlgoSpec::new("gather", CollectiveKind::AllGather, 4), |p| {
        ///     for rank in p.ranks() {
        ///         let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        ///         let mine = rank.input().chunk(0);
        ///         channels.handshake(0).relaxed(); // every peer has started
        ///         for channel in &channels {
        ///             channel.put(channel.peer().output().chunk(rank.id()), mine, 0);
        ///         }
        ///         rank.copy(rank.output().chunk(rank.id()), mine, 0);
        ///         channels.handshake(0); // all data has arrived
        ///     }
        /// })?;
        /// assert_eq!(plan.num_ranks(), 4);
        /// # Ok::<(), mscclpp_core::diag::Diagnostics>(())
        /// ```
        ///
        /// # Ordering
        /// Each signal releases and each wait acquires, as [`Channel::signal`] and [`Channel::wait`]. The block is
        /// synchronized before the signals, between signals and waits, and after the waits, unless
        /// [`sync`](Handshake::sync) changes it. On port channels each signal arrives after the earlier puts of its
        /// channel.
        ///
        /// # Cost
        /// One signal per channel; the signals travel at the same time. An empty list records nothing.
        ///
        /// # Errors
        /// Reports M0007 for channels of different ranks.
        fn handshake(this, block: BlockArg) -> Handshake<'p, K> {
            let program = this[0].program;
            let values: Vec<_> = this.iter().map(|channel| channel.value_in(program)).collect();
            Handshake::new(program, program.recorder().handshake(&values, block))
        }
    }
}

dsl! {
    table HANDSHAKE; by value self; for [Handshake<'static, Memory>];
    impl['p, K: ChannelMarker] Handshake<'p, K> {
        /// Sets where the threads of the block are synchronized around the handshake: before its signals, after its
        /// waits, or both; not between signals and waits.
        fn sync(this, sync: BlockSync) -> Handshake<'p, K> {
            this.edit(|op| {
                let is_wait = op.kind.waits();
                op.sync = sync.without(if is_wait { BlockSync::Before } else { BlockSync::After });
            });
            this
        }

        /// Makes the handshake order execution only: every peer has reached this point, and nothing is published. Only
        /// on memory channels.
        fn relaxed(this) -> Handshake<'p, K> where [K: OnlyMemory] {
            this.edit(relax);
            this
        }
    }
}

dsl! {
    table MEMORY; by value self; for [Channel<'static, Memory>];
    impl['p] Channel<'p, Memory> {
        /// Copies a chunk of this rank into a chunk of the peer.
        ///
        /// # Shapes and units
        /// Both chunks have the same number of chunks; `src` is this rank's, `dst` the peer's.
        /// # Ordering
        /// Complete at the peer when a later signal of the same thread block has been received.
        /// # Cost
        /// The chunk's bytes on the wire.
        fn put(this, dst: AnyChunk, src: AnyChunk, at: Blocks) {
            this.program.recorder().channel_move(&PUT, this.value, dst, src, None, &at);
        }

        /// Copies as many elements of a chunk of this rank into a chunk of the peer as `sender` has for `receiver`, as
        /// [`copy_counted`](super::Rank::copy_counted).
        ///
        /// # Ordering
        /// As [`put`](Self::put).
        fn put_counted(this, dst: AnyChunk, src: AnyChunk, sender: RankArg, receiver: RankArg, at: Blocks) {
            let mut recorder = this.program.recorder();
            if let count @ Some(_) = recorder.count(sender, receiver) {
                recorder.channel_move(&PUT_COUNTED, this.value, dst, src, count, &at);
            }
        }

        /// Copies as many elements of a chunk of the peer into a chunk of this rank as `sender` has for `receiver`, as
        /// [`copy_counted`](super::Rank::copy_counted).
        ///
        /// # Ordering
        /// As [`get`](Channel::get).
        fn get_counted(this, dst: AnyChunk, src: AnyChunk, sender: RankArg, receiver: RankArg, at: Blocks) {
            let mut recorder = this.program.recorder();
            if let count @ Some(_) = recorder.count(sender, receiver) {
                recorder.channel_move(&GET_COUNTED, this.value, dst, src, count, &at);
            }
        }

        /// Stores a chunk of this rank as packets into the peer's scratch.
        ///
        /// # Ordering
        /// None needed: a read of a packet waits for it.
        /// # Cost
        /// Twice the chunk's bytes on the wire.
        fn put_packets(this, dst: PacketChunk, src: AnyChunk, at: Blocks) {
            this.program.recorder().channel_move(&PUT_PACKETS, this.value, dst, src, None, &at);
        }

        /// Forwards packets of the rank's own scratch into the peer's scratch, waiting for them.
        fn read_put_packets(this, dst: PacketChunk, src: PacketChunk, at: Blocks) {
            this.program.recorder().channel_move(&READ_PUT_PACKETS, this.value, dst, src, None, &at);
        }
    }
}

dsl! {
    table MEMORY_ONLY; by value self; for [Channel<'static, Memory>];
    impl['p, K: ChannelMarker] Channel<'p, K> {
        /// Copies a chunk of the peer into a chunk of this rank. Only on memory channels.
        ///
        /// # Shapes and units
        /// Both chunks have the same number of chunks; `dst` is this rank's, `src` the peer's.
        /// # Ordering
        /// The peer must have published the data by a signal that was received.
        fn get(this, dst: AnyChunk, src: AnyChunk, at: Blocks) where [K: OnlyMemory] {
            this.program.recorder().channel_move(&GET, this.value, dst, src, None, &at);
        }

        /// Reduces chunks of the peer into a chunk of this rank: `acc = acc ∘ others…`, or `to(dst)` another chunk.
        /// Only on memory channels.
        fn reduce(this, acc: AnyChunk, others: ChunkList, at: Blocks) -> Reduction<'p> where [K: OnlyMemory] {
            Reduction::new(this.program, this.program.recorder().read_reduce(this.value, acc, &others, &at))
        }
    }
}

dsl! {
    table PORT; by value self; for [Channel<'static, Port>];
    impl['p] Channel<'p, Port> {
        /// Queues the copy of a chunk of this rank into a chunk of the peer.
        ///
        /// # Ordering
        /// The proxy reads `src` later: do not overwrite it before a `flush` or an acknowledgement. Signals that are
        /// queued afterward arrive after the data.
        fn put(this, dst: AnyChunk, src: AnyChunk, block: BlockArg) {
            this.program.recorder().port_move(&PUT, this.value, dst, src, block);
        }

        /// Queues the copy of as many elements of a chunk of this rank into a chunk of the peer as `sender` has for
        /// `receiver`, as [`copy_counted`](super::Rank::copy_counted).
        ///
        /// # Ordering
        /// As [`put`](Self::put).
        fn put_counted(this, dst: AnyChunk, src: AnyChunk, sender: RankArg, receiver: RankArg, block: BlockArg) {
            let mut recorder = this.program.recorder();
            if let count @ Some(_) = recorder.count(sender, receiver) {
                recorder.channel_move(&PUT_COUNTED, this.value, dst, src, count, &At::Block(block));
            }
        }

        /// Stores a chunk of the rank's own scratch that holds packets into the peer's scratch.
        ///
        /// # Ordering
        /// None needed: a read of a packet waits for it.
        fn put_packets(this, dst: PacketChunk, src: PacketChunk, block: BlockArg) {
            this.program.recorder().port_move(&PUT_PACKETS, this.value, dst, src, block);
        }

        /// Forwards packets of the rank's own scratch into the peer's scratch, waiting for them.
        fn read_put_packets(this, dst: PacketChunk, src: PacketChunk, at: Blocks) {
            this.program.recorder().channel_move(&READ_PUT_PACKETS, this.value, dst, src, None, &at);
        }
    }
}

dsl! {
    table PORT_ONLY; by value self; for [Channel<'static, Port>];
    impl['p, K: ChannelMarker] Channel<'p, K> {
        /// Queues a put and then a signal. Only on port channels.
        fn put_with_signal(this, dst: AnyChunk, src: AnyChunk, block: BlockArg) where [K: OnlyPort] {
            this.program.recorder().port_move(&PUT_WITH_SIGNAL, this.value, dst, src, block);
        }

        /// Queues a put and then a signal, then waits until the source may be reused. Only on port channels.
        fn put_with_signal_and_flush(this, dst: AnyChunk, src: AnyChunk, block: BlockArg) where [K: OnlyPort] {
            this.program.recorder().port_move(&PUT_WITH_SIGNAL_AND_FLUSH, this.value, dst, src, block);
        }

        /// Waits until the sources of all queued puts of this channel have been read. Only on port channels.
        fn flush(this, block: BlockArg) -> SyncCall<'p, K> where [K: OnlyPort] {
            this.sync_call(OpKind::Flush, block)
        }
    }
}

dsl! {
    table SYNC_CALL; by value self; for [SyncCall<'static, Memory>];
    impl['p, K: ChannelMarker] SyncCall<'p, K> {
        /// Sets where the threads of the block are synchronized around the operation.
        fn sync(this, sync: BlockSync) -> SyncCall<'p, K> {
            this.program.recorder().edit(this.ops, |op| op.sync = sync);
            this
        }

        /// Makes the signal or wait order execution only: it publishes no data. Only on memory channels.
        fn relaxed(this) -> SyncCall<'p, K> where [K: OnlyMemory] {
            this.program.recorder().edit(this.ops, relax);
            this
        }
    }
}

/// Makes a signal or wait relaxed.
fn relax(op: &mut Op) {
    op.kind = match op.kind {
        OpKind::Signal => OpKind::RelaxedSignal,
        OpKind::Wait => OpKind::RelaxedWait,
        kind => kind,
    };
}

const PUT: Transfer = Transfer::new("put", OpKind::Put, End::Remote);
const GET: Transfer = Transfer::new("get", OpKind::Get, End::Local);
const PUT_COUNTED: Transfer = Transfer::new("put_counted", OpKind::PutCounted, End::Remote);
const GET_COUNTED: Transfer = Transfer::new("get_counted", OpKind::GetCounted, End::Local);
const PUT_PACKETS: Transfer = Transfer::new("put_packets", OpKind::PutPackets, End::Remote);
const READ_PUT_PACKETS: Transfer = Transfer::new("read_put_packets", OpKind::ReadPutPackets, End::Remote);
const PUT_WITH_SIGNAL: Transfer = Transfer::new("put_with_signal", OpKind::PutWithSignal, End::Remote);
const PUT_WITH_SIGNAL_AND_FLUSH: Transfer =
    Transfer::new("put_with_signal_and_flush", OpKind::PutWithSignalAndFlush, End::Remote);

#[cfg(test)]
mod tests;
