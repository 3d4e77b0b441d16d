//! Specialized kernels make the same accesses as the interpreter: thread by thread, between the same synchronization.
//!
//! Both run the same plan on the same buffers of a simulated device that logs their accesses. For each CUDA thread the
//! log is normalized to a form that does not depend on the schedule, and both forms must be equal: the bytes read and
//! written between two synchronization steps, and these steps with their addresses. Repeated polls of a wait are one
//! step. Block syncs are compared where the interpreter's cache holds all of a thread block's operations; where it is
//! refilled, there are block syncs that no operation requests.
//!
//! The plans are those of `specialized::shipped_algorithms`, so that each kernel is compiled once for both.
//! `MSCCLPP_ALL=1` selects all.

use std::collections::BTreeMap;
use std::fmt;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::{
    Plan,
    raw::{Op, PlanTree, ThreadBlock},
};
use mscclpp_dev::{Access, AccessKind, AccessLog, Options, access_bugs, simulator, specialized_bugs};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{Device, Executor, PrepareOptions, PreparedPlan};
use mscclpp_exec::{DataType, Message};

use super::bits::Pair;
use super::specialized::{sampled, shipped_plans};
use super::{CACHE, at};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let shipped = Trial::test("sim::accesses::of_shipped_algorithms", move || seeds.clone().try_for_each(of_shipped));
    let found = access_bugs().chain(specialized_bugs().filter(|bug| CHANGE_ACCESSES.contains(bug)));
    let found = found.map(|bug| Trial::test(format!("sim::accesses::{bug}"), move || is_found(bug)));
    std::iter::once(shipped).chain(found).collect()
}

/// Bugs of specialized kernels that are visible both in results and in accesses.
const CHANGE_ACCESSES: [&str; 2] = ["short_copies", "a_vector_too_few"];

/// A device that logs accesses, and its log.
fn device(seed: u64, bug: Option<&'static str>) -> Result<(Device, &'static AccessLog), Failed> {
    let log: &'static AccessLog = Box::leak(Box::default());
    let options = Options { seed, bug, accesses: Some(log), ..Options::default() };
    Ok((Device::with_cache(simulator(options)?, Cache::at(CACHE)), log))
}

fn of_shipped(seed: u64) -> Result<(), Failed> {
    let (device, log) = device(seed, None)?;
    let (mut plans, mut interpreted, mut blocks, mut synced) = (0, 0, 0, 0);
    for (number, name, plan, dtype) in shipped_plans(seed)? {
        if !sampled(seed, number) {
            continue;
        }
        let whole = whole_in_window(&plan);
        let place = format!("seed {seed}, {name} of {dtype}");
        match compare(&device, log, &plan, &whole, dtype).map_err(|error| at(&place, &error))? {
            Compared::Different(difference) => return Err(at(&place, &difference.into())),
            Compared::OneKernel => {
                interpreted += 1;
                continue;
            }
            Compared::Equal => {}
        }
        plans += 1;
        blocks += whole.len();
        synced += whole.iter().filter(|whole| **whole).count();
    }
    println!(
        "seed {seed}: {plans} plans, {interpreted} others not specialized, {blocks} thread blocks, block syncs compared in {synced}"
    );
    // Otherwise less is compared than this file claims.
    if plans <= interpreted || 2 * synced < blocks { Err("too little is compared".into()) } else { Ok(()) }
}

/// Bugs that are not visible in any result.
const RIGHT_RESULTS: [&str; 3] = ["reads_of_other_threads", "stores_of_other_threads", "sources_read_again"];

/// Checks that a bug is detected by plans that use the code in which it is injected.
fn is_found(bug: &'static str) -> Result<(), Failed> {
    const PLANS: [(&str, u32, u32); 3] =
        [("allreduce_all_pairs", 3, 3), ("allgather_ring", 3, 3), ("allreduce_hierarchical_packets", 4, 2)];
    let (device, log) = device(1, Some(bug))?;
    for (name, ranks, node) in PLANS {
        let algorithm = mscclpp_algorithms::find(name).ok_or("no such algorithm")?;
        let plan = algorithm.compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([])?)?;
        if RIGHT_RESULTS.contains(&bug) {
            let message = Message::new(DataType::F32, u64::from(ranks) * 512).any_size();
            let world = Executor::new(&device, ranks);
            let pair = Pair::with(&world, &Plan::new(&plan), message, PrepareOptions::default().specialize(true))?;
            pair.ok_or("too many thread blocks")?.check(2)?;
        }
        if let Compared::Different(difference) = compare(&device, log, &plan, &whole_in_window(&plan), DataType::F32)? {
            println!("{bug}: {name}: {difference}");
            return Ok(());
        }
    }
    Err("not found".into())
}

/// Result of a comparison.
enum Compared {
    Equal,
    /// The first difference.
    Different(String),
    /// The interpreter ran all launches.
    OneKernel,
}

/// Runs a plan by the interpreter and by its specialized kernel, and compares their accesses.
fn compare(
    device: &Device,
    log: &AccessLog,
    plan: &PlanTree,
    whole: &[bool],
    dtype: DataType,
) -> Result<Compared, Failed> {
    /// Bytes of a chunk: more vectors than threads have in flight, of which the last one is in flight alone.
    const CHUNK: u64 = 77 * 16;
    let image = Plan::new(plan);
    let tables = plan.ranks.first().ok_or("a plan without ranks")?;
    let chunks = u64::from(tables.input_chunks.max(tables.output_chunks));
    let message = Message::new(dtype, chunks * CHUNK / dtype.size() as u64).any_size();
    let world = Executor::new(device, image.num_ranks());
    let mut specialized = world.prepare_with_options(&image, message, PrepareOptions::default().specialize(true))?;
    specialized.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
    let mut interpreted = world.prepare(&image, message)?;
    let (mut buffers, stream) = (interpreted.buffers()?, world.stream()?);
    let mut launch = |run: &mut PreparedPlan| -> Result<_, Failed> {
        for rank in 0..run.num_ranks() {
            let bytes = |len: u64| vec![rank as u8 + 1; len as usize];
            let (input, output) = (buffers.input(rank).bytes, buffers.output(rank).bytes);
            buffers.write_output(rank, &bytes(output))?;
            buffers.write_input(rank, &bytes(input))?;
        }
        log.take();
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        Ok(log.take())
    };
    // Launches alternate between the halves of double scratch, so two launches on the same half are compared.
    let [first, second] = [launch(&mut interpreted)?, launch(&mut specialized)?];
    let [third, fourth] = [launch(&mut specialized)?, launch(&mut interpreted)?];
    for (interpreted, specialized) in [(first, third), (fourth, second)] {
        let kernel = |list: &[Access]| list.first().map(|access| access.kernel);
        if kernel(&interpreted) == kernel(&specialized) {
            // A specialized kernel runs messages of whole vectors, in scratch that does not wrap.
            return Ok(Compared::OneKernel);
        }
        let difference = difference(&threads(&interpreted, whole), &threads(&specialized, whole));
        if let Some(difference) = difference {
            return Ok(Compared::Different(difference));
        }
    }
    Ok(Compared::Equal)
}

/// Returns, for each thread block that has operations, in the order of the kernels' blocks, whether the interpreter's
/// cache holds it.
fn whole_in_window(plan: &PlanTree) -> Vec<bool> {
    let ranks = plan.ranks.len();
    let is_whole = |block: &ThreadBlock| {
        let ops: Vec<&Op> = block
            .ops
            .iter()
            .flat_map(|op| std::iter::once(op).chain(op.body.iter().flat_map(|body| &body.ops)))
            .collect();
        // An operand on a switch is one of every member.
        let operands: usize = ops.iter().map(|op| op.srcs.len() + op.dsts.len()).sum();
        let ids: usize = ops.iter().map(|op| op.ids.len()).sum();
        ops.len() <= 32 && operands * ranks <= 192 && ids <= 96
    };
    let blocks = plan.ranks.iter().flat_map(|rank| &rank.blocks);
    blocks.filter(|block| !block.ops.is_empty()).map(is_whole).collect()
}

/// A step of a thread, in a form that does not depend on the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Bytes of plain data and packets, as ranges.
    Data {
        reads: Vec<[u64; 2]>,
        writes: Vec<[u64; 2]>,
    },
    /// A wait, a signal, a semaphore, a barrier: the kind of access and its address.
    Sync(AccessKind, u64),
    /// A word of a trigger for the proxy. Its position in the queue depends on the other thread blocks' triggers.
    Request(u64),
    /// A trigger is complete.
    Requested,
    BlockSync,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data { reads, writes } => {
                let bytes = |ranges: &[[u64; 2]]| ranges.iter().map(|[first, end]| end - first).sum::<u64>();
                write!(f, "{} bytes read and {} written", bytes(reads), bytes(writes))
            }
            Self::Sync(kind, address) => write!(f, "{kind:?} at {address:#x}"),
            Self::Request(word) => write!(f, "request of {word:#x}"),
            Self::Requested => f.write_str("end of a request"),
            Self::BlockSync => f.write_str("block sync"),
        }
    }
}

/// The steps of a thread so far, and the bytes that it has read and written since the last one.
#[derive(Default)]
struct Thread {
    steps: Vec<Step>,
    reads: Vec<[u64; 2]>,
    writes: Vec<[u64; 2]>,
}

impl Thread {
    fn take(&mut self, access: &Access, with_block_syncs: bool) {
        let range = [access.address, access.address + u64::from(access.bytes)];
        match access.kind {
            AccessKind::Load => self.reads.push(range),
            AccessKind::Store => self.writes.push(range),
            AccessKind::AcquireLoad => self.once(Step::Sync(access.kind, access.address)),
            AccessKind::BlockSync if with_block_syncs => self.once(Step::BlockSync),
            // The two kinds of kernels read tables differently.
            AccessKind::BlockSync | AccessKind::TableLoad | AccessKind::Use => {}
            // Polls of clocks and abort flags, as often as the schedule has it.
            AccessKind::RelaxedLoad => {}
            AccessKind::RelaxedStore => self.push(Step::Request(access.value)),
            AccessKind::ReleaseStore => self.push(Step::Requested),
            AccessKind::RelaxedAdd | AccessKind::ReleaseAdd | AccessKind::Swap => {
                self.push(Step::Sync(access.kind, access.address));
            }
        }
    }

    /// Ends the current step of reads and writes.
    fn flush(&mut self) {
        let [reads, writes] = [&mut self.reads, &mut self.writes].map(|ranges| union(std::mem::take(ranges)));
        if !reads.is_empty() || !writes.is_empty() {
            self.steps.push(Step::Data { reads, writes });
        }
    }

    fn push(&mut self, step: Step) {
        self.flush();
        self.steps.push(step);
    }

    /// Adds a synchronization step, unless it repeats the last step.
    fn once(&mut self, step: Step) {
        if !self.reads.is_empty() || !self.writes.is_empty() || self.steps.last() != Some(&step) {
            self.push(step);
        }
    }

    /// Returns all steps, without the words that the last thread block of a launch stores after everything else, to end
    /// the launch.
    fn end(mut self) -> Vec<Step> {
        self.flush();
        let ends = self.steps.iter().rposition(|step| !matches!(step, Step::Request(_))).map_or(0, |last| last + 1);
        self.steps.truncate(ends);
        self.steps
    }
}

/// Returns the ranges in order; ranges that overlap or touch are merged.
fn union(mut ranges: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    ranges.sort_unstable();
    let mut union: Vec<[u64; 2]> = Vec::new();
    for [first, end] in ranges {
        match union.last_mut() {
            Some(last) if first <= last[1] => last[1] = last[1].max(end),
            _ => union.push([first, end]),
        }
    }
    union
}

/// Returns the steps by block and thread.
fn threads(list: &[Access], whole: &[bool]) -> BTreeMap<(u32, u32), Vec<Step>> {
    let mut threads: BTreeMap<(u32, u32), Thread> = BTreeMap::new();
    for access in list {
        let with_block_syncs = whole.get(access.block as usize).is_some_and(|whole| *whole);
        threads.entry((access.block, access.thread)).or_default().take(access, with_block_syncs);
    }
    threads.into_iter().map(|(key, thread)| (key, thread.end())).collect()
}

/// Returns the first ranges that only one of two data steps has.
fn ranges_of_one(expected: &Step, found: &Step) -> Option<String> {
    let (Step::Data { reads, writes }, Step::Data { reads: found_reads, writes: found_writes }) = (expected, found)
    else {
        return None;
    };
    let differ = |what: &str, expected: &[[u64; 2]], found: &[[u64; 2]]| {
        let of_one = |one: &[[u64; 2]], other: &[[u64; 2]]| {
            one.iter()
                .find(|range| !other.contains(range))
                .map_or("none".to_owned(), |[first, end]| format!("{first:#x}..{end:#x}"))
        };
        let (missing, added) = (of_one(expected, found), of_one(found, expected));
        if missing == added { String::new() } else { format!("; first range {what}: {added}, expected {missing}") }
    };
    Some(differ("read", reads, found_reads) + &differ("written", writes, found_writes))
}

/// Returns the first thread that differs, and its difference.
fn difference(
    interpreted: &BTreeMap<(u32, u32), Vec<Step>>,
    specialized: &BTreeMap<(u32, u32), Vec<Step>>,
) -> Option<String> {
    if !interpreted.keys().eq(specialized.keys()) {
        return Some(format!("{} threads, expected {}", specialized.len(), interpreted.len()));
    }
    for ((&(block, thread), expected), found) in interpreted.iter().zip(specialized.values()) {
        let len = expected.len().max(found.len());
        let Some(at) = (0..len).find(|&at| expected.get(at) != found.get(at)) else { continue };
        let [expected, found] = [expected.get(at), found.get(at)];
        let ranges = expected.zip(found).and_then(|(expected, found)| ranges_of_one(expected, found));
        let [expected, found] = [expected, found].map(|step| step.map_or("nothing".to_owned(), ToString::to_string));
        let ranges = ranges.unwrap_or_default();
        return Some(format!("block {block}, thread {thread}, step {at}: {found}, expected {expected}{ranges}"));
    }
    None
}
