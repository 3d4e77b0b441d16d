//! Small plans whose times depend on few constants, and the constants that follow from them.
//!
//! Two plans that differ in the number of equal operations, or in their bytes, differ in time by those alone: neither launches nor opening
//! signals matter.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::{Channels, MemoryChannel, Program, Rank};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BlockSync, Protocol};
use mscclpp_exec::DataType;
use mscclpp_exec::Message;
use mscclpp_exec::cuda::{Executor, PrepareOptions, time};

use crate::error::{Error, Result};

/// Number of operations of the shorter of two plans; the other one has twice as many.
const FEW: usize = 16;

/// Bytes of a chunk of plans that measure latencies: one load of a thread.
const SHORT: u64 = 16;

/// The least time of an operation that is reported, in microseconds: less is noise of the clock.
const MIN_US: f64 = 1e-3;

/// Bytes per microsecond of 10⁹ bytes per second.
const BYTES_PER_US: f64 = 1000.0;

/// A constant of the timing model, and how it was measured.
pub(super) struct Measured {
    pub(super) name: &'static str,
    pub(super) value: f64,
    pub(super) how: String,
}

/// Measures plans on devices.
pub(super) struct Probes<'a> {
    pub(super) executor: &'a Executor,
    /// Launches per measurement; `None` for as many as take a while.
    pub(super) launches: Option<u32>,
    /// Bytes of the longest transfer.
    pub(super) bytes: u64,
    /// Thread blocks of a rank that use all of its device.
    pub(super) blocks: u32,
}

impl Probes<'_> {
    /// Returns the microseconds of a launch in a graph.
    ///
    /// # Errors
    /// Those of the executor.
    pub(super) fn time(&self, plan: &PlanTree, count: u64, dtype: DataType) -> Result<f64> {
        let how = PrepareOptions::default().specialize(false);
        let message = Message { any_size: true, ..Message::new(dtype, count) };
        let mut run = self.executor.prepare_with_options(&Plan::new(plan), message, how)?;
        let (mut buffers, stream) = (run.buffers()?, self.executor.stream()?);
        Ok(time(&mut run, &mut buffers, &stream, self.launches)?.graph.as_secs_f64() * 1e6)
    }

    /// Builds a plan whose ranks have a number of chunks of input and as many of output, and returns its microseconds.
    fn plan_us(&self, chunks: usize, bytes: u64, instances: u32, body: &dyn Fn(&Program)) -> Result<f64> {
        let chunk = chunks as u32;
        let kind = CollectiveKind::Custom { input: chunk, output: chunk };
        let mut spec = AlgoSpec::new("probe", kind, self.executor.num_ranks());
        // Every operation that is recorded is executed.
        (spec.fuse, spec.auto_sync, spec.instances) = (false, false, instances);
        (spec.buffer_alignment, spec.protocol) = (SHORT as u32, Protocol::LL);
        let program = Program::new(spec);
        body(&program);
        let invalid =
            |findings| Error::Findings { what: "a plan that measures the device is invalid".into(), findings };
        let trace = program.finish().map_err(invalid)?;
        self.time(&lower(&trace).map_err(invalid)?, bytes * chunks as u64 / 4, DataType::F32)
    }

    /// Returns the microseconds of one of several equal operations, and those of everything else.
    fn each_us(&self, body: &dyn Fn(&Program, usize)) -> Result<(f64, f64)> {
        let [few, twice] = [FEW, 2 * FEW].map(|count| self.plan_us(count, SHORT, 1, &|p| body(p, count)));
        let (few, twice) = (few?, twice?);
        let each = ((twice - few) / FEW as f64).max(MIN_US);
        Ok((each, (few - FEW as f64 * each).max(MIN_US)))
    }

    /// Returns the microseconds per byte of a transfer of chunks.
    fn byte_us(&self, chunks: usize, instances: u32, body: &dyn Fn(&Program)) -> Result<f64> {
        let half = (self.bytes / 2).max(SHORT).next_multiple_of(SHORT);
        let [short, long] = [half, 2 * half].map(|bytes| self.plan_us(chunks, bytes, instances, body));
        Ok(((long? - short?) / half as f64).max(MIN_US / half as f64))
    }

    /// Measures the constants of thread blocks, and those of memory and links.
    ///
    /// # Errors
    /// Those of the executor.
    pub(super) fn measure(&self) -> Result<Vec<Measured>> {
        let one_device = self.executor.devices().len() == 1;
        let mut all = Vec::new();
        let mut add = |name, value: f64, how: &str| all.push(Measured { name, value, how: how.to_owned() });
        let few = |what: &str| format!("{what}, {} less {FEW} of them", 2 * FEW);

        let (op_us, _) = self.each_us(&signals)?;
        add("op_us", op_us, &few("relaxed signals of one thread block"));
        let (copy_us, launch_us) = self.each_us(&copies)?;
        let local_us = (copy_us - op_us).max(MIN_US);
        add("launch_us", launch_us, "a launch in a graph, less its copies of 16 bytes");
        add("local_us", local_us, &few("copies of 16 bytes, less their dispatch"));
        let (synced_us, _) = self.each_us(&synced_signals)?;
        add("sync_us", (synced_us - op_us).max(MIN_US), &few("block syncs before signals"));
        let (round_us, _) = self.each_us(&ping_pong)?;
        let signal_us = (round_us / 2.0 - 2.0 * op_us).max(MIN_US);
        add("signal_us", signal_us, &few("round trips of a signal, half of one less its operations"));
        add("semaphore_us", signal_us, "as a signal");
        let (round_us, _) = self.each_us(&packets)?;
        let packet_us = (round_us / 2.0 - 2.0 * (op_us + local_us)).max(MIN_US);
        add("packet_us", packet_us, &few("round trips of packets, half of one less its operations"));
        let (get_us, _) = self.each_us(&gets)?;
        add("load_us", (get_us - op_us).max(MIN_US), &few("loads of 16 bytes from another rank, less their dispatch"));

        let one = |what: &str| format!("{what} by one thread block, {} bytes less half of them", self.bytes);
        let rate = |us_per_byte: f64| 1.0 / us_per_byte.max(f64::MIN_POSITIVE) / BYTES_PER_US;
        // A copy loads and stores each byte.
        let local = self.byte_us(1, 1, &copy)? / 2.0;
        add("block_local_gb_per_s", rate(local), &one("a copy"));
        let rest = |us: f64, local_bytes: f64| (us - local_bytes * local).max(us / 100.0);
        add("block_put_gb_per_s", rate(rest(self.byte_us(1, 1, &put)?, 1.0)), &one("a put"));
        add("block_get_gb_per_s", rate(rest(self.byte_us(1, 1, &get)?, 1.0)), &one("a get"));
        // Stored and loaded with flags, of the same length as the data.
        let packets = rest(self.byte_us(1, 1, &packet_copy)?, 2.0) / 4.0;
        add("block_packet_gb_per_s", rate(packets), &one("packets, stored and loaded"));
        let sum = rest(self.byte_us(2, 1, &sum)?, 3.0) / 2.0;
        add("block_sum_gb_per_s", rate(sum), &one("a sum of two operands"));

        let whole = |what: &str| format!("{what} by {} thread blocks of each rank at once", self.blocks);
        let ranks = if one_device { f64::from(self.executor.num_ranks()) } else { 1.0 };
        let memory = self.byte_us(1, self.blocks, &copy_everywhere)? / (2.0 * ranks);
        add("memory_gb_per_s", rate(memory), &whole("copies"));
        if !one_device {
            let [puts, gets] =
                [self.byte_us(1, self.blocks, &put_to_next), self.byte_us(1, self.blocks, &get_from_next)];
            let (puts, gets) = (rate(puts?), rate(gets?));
            add(LINK, puts.max(gets), &whole("puts to the next rank, and gets from it"));
            add("put_efficiency", puts / puts.max(gets), &whole("puts to the next rank"));
            add("packet_efficiency", puts / puts.max(gets), "as puts");
            add("get_efficiency", gets / puts.max(gets), &whole("gets from the next rank"));
        }
        Ok(all)
    }
}

/// The name of the bandwidth of links, which is no constant of the timing model.
pub(super) const LINK: &str = "link";

fn copies(p: &Program, count: usize) {
    let rank = p.rank(0);
    (0..count).for_each(|at| rank.copy(rank.output().chunk(at), rank.input().chunk(at), 0));
}

fn signals(p: &Program, count: usize) {
    signals_with(p, count, BlockSync::None);
}

fn synced_signals(p: &Program, count: usize) {
    signals_with(p, count, BlockSync::Before);
}

fn signals_with(p: &Program, count: usize, sync: BlockSync) {
    let (out, into) = (p.rank(0).memory_channel(1), p.rank(1).memory_channel(0));
    for _ in 0..count {
        out.signal(0).relaxed().sync(sync);
        into.wait(0).relaxed().sync(BlockSync::None);
    }
}

fn ping_pong(p: &Program, count: usize) {
    let ends = [p.rank(0).memory_channel(1), p.rank(1).memory_channel(0)];
    for turn in 0..2 * count {
        ends[turn % 2].signal(0).relaxed().sync(BlockSync::None);
        ends[(turn + 1) % 2].wait(0).relaxed().sync(BlockSync::None);
    }
}

/// Packets of 16 bytes travel to and fro, each to its own place.
fn packets(p: &Program, count: usize) {
    let ranks = [p.rank(0), p.rank(1)];
    let scratch = ranks.map(|rank| rank.scratch(count));
    let out = [ranks[0].memory_channel(1), ranks[1].memory_channel(0)];
    for at in 0..count {
        for (from, channel) in out.iter().enumerate() {
            let to = 1 - from;
            let source = match (from, at) {
                (0, 0) => ranks[0].input().chunk(0).to_any(),
                (0, _) => ranks[0].output().chunk(at - 1).to_any(),
                _ => ranks[1].output().chunk(at).to_any(),
            };
            channel.put_packets(scratch[to].chunk(at), source, 0);
            ranks[to].unpack_packets(ranks[to].output().chunk(at), scratch[to].chunk(at), 0);
        }
    }
}

/// Executes something on rank 0 with its channel to rank 1, which has begun and does not end before.
fn from_rank_0(p: &Program, body: impl FnOnce(MemoryChannel<'_>)) {
    let ends = [p.rank(0).memory_channel(1), p.rank(1).memory_channel(0)];
    for end in ends {
        end.handshake(0).relaxed();
    }
    body(ends[0]);
    for end in ends {
        end.handshake(0);
    }
}

fn gets(p: &Program, count: usize) {
    let (rank, peer) = (p.rank(0), p.rank(1));
    from_rank_0(p, |channel| {
        (0..count).for_each(|at| channel.get(rank.output().chunk(at), peer.input().chunk(at), 0));
    });
}

fn copy(p: &Program) {
    copies(p, 1);
}

fn put(p: &Program) {
    let (rank, peer) = (p.rank(0), p.rank(1));
    from_rank_0(p, |channel| channel.put(peer.output().chunk(0), rank.input().chunk(0), 0));
}

fn get(p: &Program) {
    gets(p, 1);
}

fn packet_copy(p: &Program) {
    let (rank, peer) = (p.rank(0), p.rank(1));
    let slot = peer.scratch(1).chunk(0);
    // The scratch may be written when the packets of the last launch were loaded.
    let (may_put, unpacked) = (rank.memory_channel(1), peer.memory_channel(0));
    unpacked.signal(0).relaxed();
    may_put.wait(0).relaxed();
    rank.memory_channel(1).put_packets(slot, rank.input().chunk(0), 0);
    peer.unpack_packets(peer.output().chunk(0), slot, 0);
}

fn sum(p: &Program) {
    let rank = p.rank(0);
    rank.reduce(rank.input().chunk(0), rank.input().chunk(1), 0).to(rank.output().chunk(0));
}

fn copy_everywhere(p: &Program) {
    p.ranks().for_each(|rank| rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0));
}

fn put_to_next(p: &Program) {
    with_neighbors(p, |rank, channel| {
        channel.put(channel.peer().output().chunk(0), rank.input().chunk(0), 0);
    });
}

fn get_from_next(p: &Program) {
    with_neighbors(p, |rank, channel| channel.get(rank.output().chunk(0), channel.peer().input().chunk(0), 0));
}

/// Executes something on every rank with a channel to the next one, after all have begun and before any ends.
fn with_neighbors<'p>(p: &'p Program, body: impl Fn(Rank<'p>, MemoryChannel<'p>)) {
    for rank in p.ranks() {
        let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
        channels.handshake(0).relaxed();
        let next = (rank.id() + 1) % p.num_ranks();
        channels.iter().filter(|channel| channel.peer().id() == next).for_each(|channel| body(rank, *channel));
        channels.handshake(0);
    }
}
