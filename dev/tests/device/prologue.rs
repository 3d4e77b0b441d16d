//! Reads of tables before the first operation of a thread block, and how many of them depend on one another.
//!
//! On a device each read takes the time of a round trip to the level-2 cache, unless it is in flight together with others.
//! A simulated device logs reads of tables and words and the first use of what they returned. A read after a use, or after a block
//! sync that follows a use by another thread, may depend on it, so it is in another round trip.
//!
//! `launch-costs.txt` has these figures and the driver's calls, so that none grows unnoticed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Access, AccessKind, AccessLog, CallCounts, Options, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{Device, DeviceCounts, DeviceVec, Executor, PrepareOptions};
use mscclpp_exec::{DataType, Error, Message};

use super::CACHE;

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("sim::prologue::costs_of_launches_are_those_of_the_table", costs_are_those_of_the_table)]
}

/// Algorithms that the default rules select, with the number of ranks and of those of a node.
const PLANS: [(&str, u32, u32); 9] = [
    ("allreduce_one_shot_packets", 2, 2),
    ("allreduce_one_shot_packets", 8, 8),
    ("allreduce_packets", 8, 8),
    ("allgather_packets", 8, 8),
    ("reducescatter_packets", 8, 8),
    ("allreduce_all_pairs", 8, 8),
    ("allgather_all_pairs", 4, 4),
    ("allgather_ring", 4, 4),
    ("allreduce_hierarchical_packets", 4, 2),
];

/// Algorithms whose sizes are counts.
const COUNTED: [(&str, u32); 4] =
    [("alltoallv_pull", 2), ("alltoallv_pull", 8), ("alltoallv_direct", 8), ("alltoallv_staged", 8)];

/// Round trips and block syncs before the first operation, of which some may be the plan's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Prologue {
    round_trips: u32,
    block_syncs: u32,
}

fn costs_are_those_of_the_table() -> Result<(), Failed> {
    let mut page = String::from(
        "; What a launch of 1 KiB costs on a simulated device: in the thread block for which it is most, round trips to memory and block
; syncs before the first operation (with those with which the plan begins), and how often a thread loads the same bytes of an input.
; Below, the calls of the driver from the preparation of a plan to its first launch, and the same for another size.
; Written by `MSCCLPP_BLESS=1 cargo test -p mscclpp-dev --test device sim::prologue`.

plan                            ranks  kernel       round trips  block syncs  loads
",
    );
    let mut calls = String::new();
    for (name, ranks, node) in PLANS {
        for (kernel, specialize) in [("interpreter", false), ("specialized", true)] {
            let (Prologue { round_trips, block_syncs }, loads, of_calls) = costs(name, ranks, node, specialize)?;
            assert_eq!(round_trips, 1, "{name}, {kernel}");
            writeln!(page, "{name:<32}{ranks:>5}  {kernel:<13}{round_trips:>11}  {block_syncs:>11}  {loads:>5}")?;
            // Those of other plans of a node are the same.
            if !specialize && name == "allreduce_one_shot_packets" {
                calls += &format!("\n{name}, {ranks} ranks\n{of_calls}");
            }
        }
    }
    page += "
; Of a launch that moves nothing, because all counts are 0: in the thread block for which it is most, round trips, of which each wait is
; one however long it lasts, and block syncs.

plan                            ranks  kernel       round trips  block syncs
";
    for (name, ranks) in COUNTED {
        for (kernel, specialize) in [("interpreter", false), ("specialized", true)] {
            let (round_trips, block_syncs) = costs_of_zeros(name, ranks, specialize)?;
            writeln!(page, "{name:<32}{ranks:>5}  {kernel:<13}{round_trips:>11}  {block_syncs:>11}")?;
        }
    }
    page += &calls;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/launch-costs.txt");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, &page)?;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if page == expected {
        return Ok(());
    }
    Err(format!("expected what {} has; set MSCCLPP_BLESS=1 and look at the change. Found:\n{page}", path.display())
        .into())
}

/// Returns the longest prologue of all thread blocks of a plan, the largest number of loads of the same bytes of an input by a
/// thread, and the driver's calls.
fn costs(name: &str, ranks: u32, node: u32, specialize: bool) -> Result<(Prologue, usize, String), Failed> {
    let log: &'static AccessLog = Box::leak(Box::default());
    let calls: &'static CallCounts = Box::leak(Box::default());
    // As many threads as load a record at once.
    let options = Options { threads: 64, accesses: Some(log), calls: Some(calls), ..Options::default() };
    let device = Device::with_cache(simulator(options)?, Cache::at(CACHE));
    let algorithm = mscclpp_algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([])?)?);
    let world = Executor::new(&device, ranks);
    let stream = world.stream()?;
    let mut costs = (Prologue::default(), 0, String::new());
    for (title, count) in [("first call", 256), ("another size", 512)] {
        let message = Message::new(DataType::F32, count).any_size();
        calls.take();
        let mut prepared =
            world.prepare_with_options(&plan, message, PrepareOptions::default().specialize(specialize))?;
        if specialize {
            prepared.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        }
        let mut list = calls.take();
        let mut buffers = prepared.buffers()?;
        calls.take();
        log.take();
        prepared.launch_buffers(&mut buffers, &stream)?;
        for (call, count) in calls.take() {
            *list.entry(call).or_default() += count;
        }
        prepared.synchronize(&stream)?;
        let accesses = log.take();
        if costs.2.is_empty() {
            costs.0 = longest(&accesses).ok_or("a thread block without operations")?;
            let mut loads: BTreeMap<(u32, u32, u64), usize> = BTreeMap::new();
            for access in accesses.iter().filter(|access| access.kind == AccessKind::Load) {
                let is_input = |rank| {
                    (buffers.input(rank).address..).contains(&access.address)
                        && access.address - buffers.input(rank).address < buffers.input(rank).bytes
                };
                if (0..ranks).any(is_input) {
                    *loads.entry((access.block, access.thread, access.address)).or_default() += 1;
                }
            }
            costs.1 = loads.into_values().max().unwrap_or(0);
        }
        let list: Vec<String> = list.iter().map(|(call, count)| format!("{call} {count}")).collect();
        _ = writeln!(costs.2, "  {title}: {}", list.join(", "));
    }
    Ok(costs)
}

/// Returns the largest numbers of round trips and of block syncs of a thread in a launch of a plan whose counts are all 0.
fn costs_of_zeros(name: &str, ranks: u32, specialize: bool) -> Result<(u32, u32), Failed> {
    let log: &'static AccessLog = Box::leak(Box::default());
    let options = Options { threads: 64, accesses: Some(log), ..Options::default() };
    let device = Device::with_cache(simulator(options)?, Cache::at(CACHE));
    let algorithm = mscclpp_algorithms::find(name).ok_or("no such algorithm")?;
    let plan = algorithm.plan(algorithm.spec(ranks, ranks), &[])?;
    let (world, message) = (Executor::new(&device, ranks), Message::new(DataType::F32, 256));
    let mut run = world.prepare_with_options(&plan, message, PrepareOptions::default().specialize(specialize))?;
    if specialize {
        run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
    }
    let zeros = |len: u32| DeviceVec::<i64>::new(&device, len as usize);
    let memory = (0..ranks).map(|_| Ok([zeros(128)?, zeros(128)?, zeros(ranks)?, zeros(ranks)?]));
    let memory = memory.collect::<Result<Vec<_>, Error>>()?;
    let binding = run.bind(memory.iter().map(|[input, output, ..]| [input.as_slice(), output.as_slice()]))?;
    let list = |[.., sent, received]: &[DeviceVec<i64>; 4]| DeviceCounts {
        sent: sent.as_slice(),
        received: received.as_slice(),
        dtype: DataType::I64,
        unit: 1,
    };
    let (counts, stream): (Vec<_>, _) = (memory.iter().map(list).collect(), world.stream()?);
    log.take();
    // SAFETY: memory of the device, which lives until the launch is complete.
    unsafe { run.launch_counted(&binding, &counts, &stream)? };
    run.synchronize(&stream)?;
    let mut threads: BTreeMap<(u32, u32), Vec<AccessKind>> = BTreeMap::new();
    for access in log.take() {
        threads.entry((access.block, access.thread)).or_default().push(access.kind);
    }
    let trips = threads.values().map(|kinds| round_trips(kinds)).max().unwrap_or(0);
    let syncs = |kinds: &Vec<AccessKind>| kinds.iter().filter(|kind| **kind == AccessKind::BlockSync).count();
    Ok((trips, threads.values().map(syncs).max().unwrap_or(0) as u32))
}

/// Returns the number of round trips to memory of a thread: loads that do not depend on one another are in flight together.
fn round_trips(kinds: &[AccessKind]) -> u32 {
    let (mut trips, mut may_depend, mut is_waiting) = (0, true, false);
    for kind in kinds {
        match kind {
            // A wait loads a word, an abort flag and a clock again and again.
            AccessKind::RelaxedLoad | AccessKind::Use if is_waiting => {}
            AccessKind::AcquireLoad => {
                trips += u32::from(!is_waiting);
                (is_waiting, may_depend) = (true, true);
            }
            AccessKind::Load | AccessKind::TableLoad | AccessKind::RelaxedLoad => {
                trips += u32::from(std::mem::take(&mut may_depend));
                is_waiting = false;
            }
            AccessKind::Use | AccessKind::BlockSync => (is_waiting, may_depend) = (false, true),
            AccessKind::Swap | AccessKind::RelaxedAdd | AccessKind::ReleaseAdd => is_waiting = false,
            AccessKind::Store | AccessKind::RelaxedStore | AccessKind::ReleaseStore => is_waiting = false,
        }
    }
    trips
}

/// Returns the longest prologue of a thread block; `None` if a thread block has none that reads a table, because reads are not
/// logged.
fn longest(log: &[Access]) -> Option<Prologue> {
    let mut threads: BTreeMap<(u32, u32), Vec<AccessKind>> = BTreeMap::new();
    for access in log {
        threads.entry((access.block, access.thread)).or_default().push(access.kind);
    }
    let mut blocks: BTreeMap<u32, Prologue> = BTreeMap::new();
    for ((block, _), kinds) in threads {
        // A read of a table after this one, by an operation, would be counted if it came before other accesses.
        let last = kinds.iter().take_while(|kind| is_of_prologue(**kind)).count();
        let mut prologue = Prologue::default();
        let mut may_depend = true;
        for kind in &kinds[..last] {
            match kind {
                AccessKind::TableLoad | AccessKind::RelaxedLoad => {
                    prologue.round_trips += u32::from(std::mem::take(&mut may_depend));
                }
                AccessKind::BlockSync => {
                    prologue.block_syncs += 1;
                    may_depend = true;
                }
                _ => may_depend = true,
            }
        }
        // Threads without a part in the first operation arrive at later block syncs.
        let of_block = blocks.entry(block).or_insert(prologue);
        of_block.round_trips = of_block.round_trips.max(prologue.round_trips);
        of_block.block_syncs = of_block.block_syncs.min(prologue.block_syncs);
    }
    let read = blocks.values().all(|prologue| prologue.round_trips > 0);
    blocks.values().copied().max().filter(|_| read)
}

fn is_of_prologue(kind: AccessKind) -> bool {
    use AccessKind::{BlockSync, RelaxedLoad, TableLoad, Use};
    matches!(kind, TableLoad | RelaxedLoad | Use | BlockSync)
}
