//! Plans with port channels between nodes, on an engine that delivers late and out of order.

mod counts;

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::ops::{DerefMut, Range};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BufferMode;
use mscclpp_bootstrap::{self as bootstrap, Bootstrap, StreamKeys};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ChannelKind;

use super::{DELAY, Destination, PooledBuffer};
use crate::cpu;
use crate::process::session::Session;
use crate::process::{Executor, Options, PreparedPlan, on_threads};
use crate::verify::{Pattern, Verifier};
use mscclpp_base::error::Error;
use mscclpp_base::message::Message;
use mscclpp_transport::hostile::{Flaw, Hostile};
use mscclpp_transport::{Capabilities, FrameKind, LaunchId, Lost, Malformed, Received, Signal, Tcp, Transport, Ucx};

/// Numbers of ranks, and of ranks per node. The last ones take part with `MSCCLPP_SOAK`.
const SHAPES: [(u32, u32); 5] = [(2, 1), (3, 1), (4, 2), (4, 1), (6, 2)];

/// Returns the engine of a rank.
type Engine<'a> = dyn Fn(u32) -> Box<dyn Transport<PooledBuffer>> + Sync + 'a;

/// A plan, and what the executor within one process computes.
struct Expected {
    name: String,
    plan: Plan,
    per_node: u32,
    message: Message,
    inputs: Vec<Vec<f32>>,
    before: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
    /// Whether launches get buffers of the executor.
    are_shared: bool,
}

/// Returns memory with the given content, of the executor or of the caller.
fn memory(executor: &Executor, is_shared: bool, content: &[f32]) -> Result<Box<dyn DerefMut<Target = [f32]>>, Error> {
    if !is_shared {
        return Ok(Box::new(content.to_vec()));
    }
    let mut buffer = executor.alloc(content.len())?;
    buffer.copy_from_slice(content);
    Ok(Box::new(buffer))
}

/// Returns the executor of a rank, with a timeout in seconds and an engine between the nodes.
fn executor(
    group: Bootstrap,
    timeout: u64,
    nodes: &[u32],
    engine: Box<dyn Transport<PooledBuffer>>,
) -> Result<Executor, Error> {
    let options = Options::default().timeout(Duration::from_secs(timeout));
    Session::with_transport(Arc::new(group), options, nodes.to_vec(), engine).map(Executor::of)
}

/// Returns the plan of an algorithm.
fn tree(name: &str, ranks: u32, per_node: u32) -> PlanTree {
    let algorithm = algorithms::find(name).expect(name);
    let mut spec = algorithm.spec(ranks, per_node);
    spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
    algorithm.compile_tree(spec, &algorithm.arguments([]).expect("defaults")).expect(name)
}

impl Expected {
    fn new(name: &str, ranks: u32, per_node: u32, part: usize) -> Self {
        let plan = Plan::new(&tree(name, ranks, per_node));
        let message = Message::of::<f32>(part * ranks as usize).any_size();
        let mut run = cpu::Executor::new(ranks).prepare(&plan, message).expect("a plan");
        let mut buffers = run.buffers().expect("memory");
        let verifier = Verifier::with_pattern(&run, part as u64, Pattern::Real);
        verifier.fill(&mut buffers);
        let copy = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, f32>(bytes);
        let [inputs, before] = [true, false].map(|input| {
            (0..ranks).map(|rank| copy(if input { buffers.input(rank) } else { buffers.output(rank) })).collect()
        });
        run.launch_buffers(&mut buffers).expect("it runs");
        assert!(verifier.check(&buffers).is_correct(), "{name}");
        let outputs = (0..ranks).map(|rank| copy(buffers.output(rank))).collect();
        let name = format!("{name}, {ranks} ranks, {per_node} per node, {part} elements per rank");
        Self { name, plan, per_node, message, inputs, before, outputs, are_shared: false }
    }

    /// Returns the same calls by a plan without the given operation.
    fn without(mut self, mut tree: PlanTree, (rank, block, op): (usize, usize, usize)) -> Self {
        tree.ranks[rank].blocks[block].ops.remove(op);
        self.plan = Plan::new(&tree);
        self.name += &format!(", without operation {op} of thread block {block} of rank {rank}");
        self
    }

    /// Launches some times on one rank, and returns the number of wrong launches.
    fn launch(&self, executor: &Executor) -> Result<usize, Error> {
        let mut x = executor.prepare(&self.plan, self.message)?;
        let rank = executor.rank() as usize;
        let bits = |elements: &[f32]| elements.iter().map(|element| element.to_bits()).collect::<Vec<_>>();
        let expected = &self.outputs[rank];
        let mut wrong = 0;
        for _ in 0..3 {
            let output = if x.collective().in_place {
                let parts = [&self.inputs[rank], &self.before[rank]];
                let longer = parts.into_iter().max_by_key(|part| part.len()).map_or(&[][..], |part| part);
                let mut buffer = memory(executor, self.are_shared, longer)?;
                x.launch_in_place(&mut buffer)?;
                // The output of a reduce-scatter is a part of its input.
                let at = if buffer.len() > expected.len() { rank * expected.len() } else { 0 };
                buffer[at..at + expected.len()].to_vec()
            } else {
                let input = memory(executor, self.are_shared, &self.inputs[rank])?;
                let mut output = memory(executor, self.are_shared, &self.before[rank])?;
                x.launch(&input, &mut output)?;
                output.to_vec()
            };
            wrong += usize::from(bits(&output) != bits(expected));
        }
        Ok(wrong)
    }

    /// Launches on all ranks, which are threads, and returns their results.
    fn run(&self, seed: u64, flaw: Option<Flaw>) -> Vec<Result<usize, Error>> {
        self.run_on(&|rank| Box::new(Hostile::new(Box::new(Tcp::new()), rank, seed, DELAY).with_flaw(flaw)))
    }

    /// The same, on the engines that a function returns.
    fn run_on(&self, engine: &Engine<'_>) -> Vec<Result<usize, Error>> {
        let ranks = self.plan.num_ranks();
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / self.per_node).collect();
        let play = |bootstrap: Bootstrap| {
            let engine = engine(bootstrap.rank());
            executor(bootstrap, 60, &nodes, engine).and_then(|executor| self.launch(&executor))
        };
        on_threads(Bootstrap::local(ranks), play)
    }

    /// Launches on all ranks, and returns the first deviation.
    fn deviation(&self, seed: u64, flaw: Option<Flaw>) -> Option<String> {
        let deviates = |(rank, result): (usize, Result<usize, Error>)| match result {
            Ok(0) => None,
            other => Some(format!("{}, seed {seed}, rank {rank}: {other:?}", self.name)),
        };
        self.run(seed, flaw).into_iter().enumerate().find_map(deviates)
    }
}

/// Returns the seeds of a test: `MSCCLPP_SEED` alone, or the first `MSCCLPP_SOAK`, or the first `default`.
fn seeds(default: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    number("MSCCLPP_SEED").map_or(0..number("MSCCLPP_SOAK").unwrap_or(default), |seed| seed..seed + 1)
}

/// Every built-in algorithm that runs on several nodes.
#[test]
fn results_on_hostile_engine_are_equal() {
    let shapes = if seeds(1).end > 1 { &SHAPES[..] } else { &SHAPES[..3] };
    let mut ran = BTreeSet::new();
    for algorithm in algorithms::all() {
        for (ranks, per_node) in shapes.iter().copied().filter(|&(ranks, per_node)| algorithm.supports(ranks, per_node))
        {
            // Short parts are many messages, of which the default has one shape.
            for part in if seeds(1).end > 1 || ranks == 2 { &[1, 500][..] } else { &[500] } {
                let expected = Expected::new(algorithm.name(), ranks, per_node, *part);
                for seed in seeds(1) {
                    println!("{}, MSCCLPP_SEED={seed}", expected.name);
                    if expected.run(seed, None).iter().all(|run| matches!(run, Err(Error::CrossNodeAccess { .. }))) {
                        continue;
                    }
                    assert_eq!(expected.deviation(seed, None), None);
                    ran.insert(algorithm.name());
                }
            }
        }
    }
    println!("{} algorithms: {ran:?}", ran.len());
    assert!(ran.len() >= 20, "{ran:?}");
}

/// Waits for data, without which a rank goes on before it has arrived: plan, ranks, ranks per node, operation of the first
/// thread block of rank 0.
const WAITS: [(&str, u32, u32, usize); 4] = [
    ("allgather_ring_ports", 2, 1, 5),
    ("allreduce_ring_ports", 3, 1, 9),
    ("allgather_two_nodes", 4, 2, 12),
    ("allreduce_hierarchical", 4, 2, 7),
];

#[test]
fn missing_wait_is_found_with_every_seed() {
    for (name, ranks, per_node, op) in WAITS {
        let tree = tree(name, ranks, per_node);
        let removed = &tree.ranks[0].blocks[0].ops[op];
        assert_eq!((removed.kind, removed.channel), (OpKind::Wait, Some(ChannelKind::Port)), "{name}");
        let case = Expected::new(name, ranks, per_node, 500).without(tree, (0, 0, op));
        let seeds = seeds(10);
        let missed: Vec<_> = seeds.clone().filter(|&seed| case.deviation(seed, None).is_none()).collect();
        println!("{}: found with {} of {} seeds", case.name, seeds.clone().count() - missed.len(), seeds.count());
        assert!(missed.is_empty(), "{} passes with MSCCLPP_SEED={missed:?}", case.name);
    }
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn results_on_ucx_are_equal() {
    for (name, ranks, per_node, _) in WAITS {
        for (part, are_shared) in [(1, false), (500, true), (5000, true), (100_000, false), (100_000, true)] {
            let expected = Expected { are_shared, ..Expected::new(name, ranks, per_node, part) };
            println!("{}, shared buffers: {are_shared}", expected.name);
            let runs = expected.run_on(&|_| ucx());
            assert!(runs.iter().all(|run| matches!(run, Ok(0))), "{runs:?}");
        }
    }
}

/// Every built-in algorithm that runs on several nodes, with messages that UCX moves between regions. Some overwrite what they have sent
/// after a flush.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn results_of_all_algorithms_on_ucx_are_equal() {
    let mut ran = BTreeSet::new();
    for algorithm in algorithms::all() {
        for (ranks, per_node) in [(2, 1), (4, 2)].into_iter().filter(|&(ranks, nodes)| algorithm.supports(ranks, nodes))
        {
            for part in [5000, 100_000] {
                let expected = Expected { are_shared: true, ..Expected::new(algorithm.name(), ranks, per_node, part) };
                println!("{}", expected.name);
                let runs = expected.run_on(&|_| ucx());
                if runs.iter().all(|run| matches!(run, Err(Error::CrossNodeAccess { .. }))) {
                    continue;
                }
                assert!(runs.iter().all(|run| matches!(run, Ok(0))), "{}: {runs:?}", expected.name);
                ran.insert(algorithm.name());
            }
        }
    }
    assert!(ran.len() >= 20, "{ran:?}");
}

fn ucx() -> Box<dyn Transport<PooledBuffer>> {
    Box::new(Ucx::new(true).expect("a UCX, see scripts/ucx-env.sh"))
}

/// After a failed launch, a buffer has other memory than the one to which a library may still write.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_keeps_no_memory_of_a_buffer_after_a_failed_launch() {
    const LEN: usize = 100_000;
    let plan = Plan::new(&tree("allreduce_ring_ports", 2, 1));
    let ended = Barrier::new(2);
    let play = |bootstrap: Bootstrap| {
        let rank = bootstrap.rank();
        let executor = executor(bootstrap, 1, &[0, 1], ucx()).expect("a session");
        let mut x = executor.prepare(&plan, Message::of::<f32>(LEN).any_size()).expect("a plan");
        let mut buffers = [0, 1].map(|_| executor.alloc::<f32>(LEN).expect("memory"));
        let [input, output] = &mut buffers;
        input.fill(3.0);
        x.launch(input, output).expect("both ranks launch");
        assert!(output.iter().all(|element| *element == 6.0));
        if rank == 0 {
            x.launch(input, output).expect_err("the other rank does not launch");
            assert!(output.iter().all(|element| *element == 0.0), "other memory");
            output.fill(1.0);
        }
        ended.wait();
        drop((x, executor));
        assert!(rank == 1 || output.iter().all(|element| *element == 1.0));
        assert!(input.iter().all(|element| *element == 3.0));
    };
    on_threads(Bootstrap::local(2), play);
}

/// The plans detect an engine that deviates from the contract.
#[test]
fn early_signals_give_other_results() {
    let expected = Expected::new("allgather_ring_ports", 2, 1, 500);
    let found = (0..50).find_map(|seed| expected.deviation(seed, Some(Flaw::EarlySignals)));
    println!("{}", found.expect("a deviation"));
}

/// What a rank has sent arrives after the rank has left, although it has not read that the other one announced a call to it.
#[test]
fn messages_of_a_rank_that_has_left_arrive() {
    // Rank 1 sends to rank 0, and receives nothing.
    let plan = Plan::new(&tree("reduce_tree_ports", 2, 1));
    let has_left = Barrier::new(2);
    let play = |bootstrap: Bootstrap| {
        let rank = bootstrap.rank();
        let executor = executor(bootstrap, 20, &[0, 1], Box::new(Tcp::new())).expect("a session");
        let prepare = |len| executor.prepare(&plan, Message::of::<f32>(len).any_size()).expect("a plan");
        let [mut short, mut long] = [1000, 8000].map(prepare);
        let launch = |x: &mut PreparedPlan| {
            let (input, mut output) = (vec![1.0_f32; x.input_len()], vec![0.0_f32; x.output_len()]);
            x.launch(&input, &mut output).expect("rank 1 has sent everything");
            assert!(rank == 1 || output.iter().all(|element| *element == 2.0));
        };
        // Calls are announced where the layout of scratch changes.
        launch(&mut short);
        launch(&mut long);
        if rank == 0 {
            has_left.wait();
        }
        // Less than connections hold, and more than the receiver's end of one does.
        (0..20).for_each(|_| launch(&mut long));
        drop((short, long, executor));
        if rank == 1 {
            has_left.wait();
        }
    };
    on_threads(Bootstrap::local(2), play);
}

/// Returns the number of connections of each rank after launches of a plan between nodes of two.
fn connections(name: &str, ranks: u32) -> Vec<usize> {
    let plan = Plan::new(&tree(name, ranks, 2));
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / 2).collect();
    let play = |bootstrap: Bootstrap| {
        let executor = executor(bootstrap, 120, &nodes, Box::new(Tcp::new())).expect("a session");
        executor.prepare(&plan, Message::of::<f32>(ranks as usize).any_size()).expect("a plan");
        executor.num_connections()
    };
    on_threads(Bootstrap::local(ranks), play)
}

/// Ranks of a ring have at most two connections however many ranks there are, those of a hierarchy one to each other node.
#[test]
fn connections_of_a_rank_are_those_of_its_plan() {
    for ranks in [8, 16] {
        let ring = connections("allreduce_ring_ports", ranks);
        assert!(ring.iter().all(|&count| count <= 2), "{ring:?}");
        let hierarchy = connections("allreduce_hierarchical", ranks);
        assert!(hierarchy.iter().all(|&count| count == ranks as usize / 2 - 1), "{hierarchy:?}");
    }
}

/// An engine whose message with the given number fails authentication, if there is a number, and which reads sources until it has been
/// asked as often as a counter says.
struct Tampered {
    engine: Tcp<PooledBuffer>,
    fails_at: Option<u64>,
    received: u64,
    num_kept: Arc<AtomicU32>,
}

impl Transport<PooledBuffer> for Tampered {
    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn open(&mut self, peer: u32, stream: TcpStream, keys: Option<StreamKeys>) -> Result<(), Error> {
        assert!(keys.is_some(), "data is authenticated");
        self.engine.open(peer, stream, keys)
    }

    fn is_open(&self, peer: u32) -> bool {
        self.engine.is_open(peer)
    }

    fn has_room(&self, peer: u32) -> bool {
        self.engine.has_room(peer)
    }

    fn send(&mut self, peer: u32, launch: LaunchId, kind: FrameKind, source: Option<PooledBuffer>) {
        self.engine.send(peer, launch, kind, source);
    }

    fn is_flushed(&self, peer: u32) -> bool {
        self.engine.is_flushed(peer)
    }

    fn keeps_regions(&self, _: u32) -> bool {
        self.num_kept.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn progress(&mut self) -> bool {
        self.engine.progress()
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        buffer: &mut dyn Destination<PooledBuffer>,
    ) -> Result<Received<PooledBuffer>, Malformed> {
        let received = self.engine.receive(peer, launch, buffer)?;
        self.received += u64::from(matches!(received, Received::Message(..)));
        match Some(self.received) == self.fails_at {
            true => Err(Malformed::Unauthenticated { number: self.received }),
            false => Ok(received),
        }
    }

    fn lost(&self, peer: u32) -> Option<Lost> {
        self.engine.lost(peer)
    }

    fn close(&mut self, peer: u32, launch: LaunchId, last: Signal) {
        self.engine.close(peer, launch, last);
    }
}

#[test]
fn message_that_fails_authentication_is_one_error_on_all_ranks() {
    let expected = Expected::new("allreduce_ring_ports", 3, 1, 500);
    for fails_at in [None, Some(1), Some(4)] {
        let play = |group: Bootstrap| {
            let fails_at = fails_at.filter(|_| group.rank() == 1);
            let engine = Tampered { engine: Tcp::new(), fails_at, received: 0, num_kept: Arc::default() };
            executor(group, 60, &[0, 1, 2], Box::new(engine)).and_then(|executor| expected.launch(&executor))
        };
        let options = bootstrap::Options::default().authenticate_data(true);
        let results = on_threads(Bootstrap::local_with_options(3, options), play);
        let Some(number) = fails_at else {
            assert!(results.iter().all(|result| matches!(result, Ok(0))), "{results:?}");
            continue;
        };
        // A rank that was blocked by it reports the operation, too.
        let causes: Vec<_> = results.iter().map(|result| result.as_ref().err().and_then(Error::root_cause)).collect();
        let reason = causes[0].as_ref().map_or("", |cause| cause.reason.as_str());
        assert!(reason.starts_with(&format!("frame {number} of the data connection from rank ")), "{results:?}");
        assert!(reason.contains("to rank 1 failed authentication"), "{results:?}");
        assert!(causes.iter().all(|cause| *cause == causes[0]), "{results:?}");
    }
}

#[test]
fn flush_waits_until_engine_reads_no_source() {
    let expected = Expected::new("allreduce_ring_ports", 2, 1, 500);
    let kept: Vec<Arc<AtomicU32>> = (0..2).map(|_| Arc::new(AtomicU32::new(5))).collect();
    let play = |group: Bootstrap| {
        let num_kept = Arc::clone(&kept[group.rank() as usize]);
        let engine = Tampered { engine: Tcp::new(), fails_at: None, received: 0, num_kept };
        executor(group, 60, &[0, 1], Box::new(engine)).and_then(|executor| expected.launch(&executor))
    };
    let options = bootstrap::Options::default().authenticate_data(true);
    let results = on_threads(Bootstrap::local_with_options(2, options), play);
    assert!(results.iter().all(|result| matches!(result, Ok(0))), "{results:?}");
    assert!(kept.iter().all(|left| left.load(Relaxed) == 0), "{kept:?}");
}

/// Rank 0 sends data for which rank 1 does not wait, so that only the end of the launch does.
#[test]
fn launch_ends_after_data_that_no_operation_waits_for() {
    let program = Program::new(AlgoSpec::new("unread", CollectiveKind::Custom { input: 1, output: 1 }, 2));
    let [first, second] = [0, 1].map(|rank| program.rank(rank));
    let scratch = second.scratch(1);
    let channel = first.port_channel(second);
    second.port_channel(first);
    channel.put(scratch.chunk(0), first.input().chunk(0), 0);
    channel.flush(0);
    for rank in program.ranks() {
        rank.copy(rank.output().chunk(0), rank.input().chunk(0), 0);
    }
    let plan = Plan::new(&lower(&program.finish().expect("a trace")).expect("a plan"));
    let [inputs, before] = [1.0, 2.0].map(|value| vec![vec![value; 500]; 2]);
    let expected = Expected {
        name: "data that no operation waits for".into(),
        plan,
        per_node: 1,
        message: Message::of::<f32>(500).any_size(),
        outputs: inputs.clone(),
        inputs,
        before,
        are_shared: false,
    };
    for seed in seeds(3) {
        assert_eq!(expected.deviation(seed, None), None);
    }
}
