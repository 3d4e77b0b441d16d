//! Reads of tables before the first operation of a thread block, and how many of them depend on one another.
//!
//! On a device each read takes the time of a round trip to the level-2 cache, unless it is in flight together with others.
//! A simulated device logs reads of tables and the first use of what they returned. A read after a use, or after a block
//! sync that follows a use by another thread, may depend on it, so it is in another round trip.

use std::collections::BTreeMap;

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::Plan;
use mscclpp_dev::{Access, AccessKind, AccessLog, Options, simulator};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{Device, Executor, PrepareOptions};
use mscclpp_exec::{DataType, Message};

use super::CACHE;

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("sim::prologue::tables_are_read_in_one_round_trip", tables_are_read_in_one_round_trip)]
}

/// Algorithms, with the number of ranks and of those of a node, and the number of block syncs with which a thread block
/// of the plan begins.
const PLANS: [(&str, u32, u32, u32); 4] = [
    ("allreduce_all_pairs", 8, 8, 1),
    ("allgather_ring", 4, 4, 1),
    ("allreduce_packets", 8, 8, 0),
    ("allreduce_hierarchical_packets", 4, 2, 1),
];

/// Round trips and block syncs before the first operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Prologue {
    round_trips: u32,
    block_syncs: u32,
}

fn tables_are_read_in_one_round_trip() -> Result<(), Failed> {
    for (name, ranks, node, syncs) in PLANS {
        let [interpreted, specialized] = prologues(name, ranks, node)?;
        println!("{name}: interpreter {interpreted:?}, specialized kernel {specialized:?}");
        let expected = Prologue { round_trips: 1, block_syncs: 2 + syncs };
        assert_eq!(interpreted, expected, "{name}, interpreter");
        assert_eq!(specialized, expected, "{name}, specialized kernel");
    }
    Ok(())
}

/// Returns the longest prologue of all thread blocks of a plan, in the interpreter and in its specialized kernel.
fn prologues(name: &str, ranks: u32, node: u32) -> Result<[Prologue; 2], Failed> {
    let log: &'static AccessLog = Box::leak(Box::default());
    // As many threads as load a record at once.
    let options = Options { threads: 64, accesses: Some(log), ..Options::default() };
    let device = Device::with_cache(simulator(options)?, Cache::at(CACHE));
    let algorithm = mscclpp_algorithms::find(name).ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([])?)?);
    let message = Message::new(DataType::F32, u64::from(ranks) * 1024).any_size();
    let world = Executor::new(&device, ranks);
    let mut of = [Prologue::default(); 2];
    for (prologue, specialize) in of.iter_mut().zip([false, true]) {
        let options = PrepareOptions::default().specialize(specialize);
        let mut prepared = world.prepare_with_options(&plan, message, options)?;
        if specialize {
            prepared.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        }
        let (mut buffers, stream) = (prepared.buffers()?, world.stream()?);
        log.take();
        prepared.launch_buffers(&mut buffers, &stream)?;
        prepared.synchronize(&stream)?;
        *prologue = longest(&log.take()).ok_or("a thread block without operations")?;
    }
    Ok(of)
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
