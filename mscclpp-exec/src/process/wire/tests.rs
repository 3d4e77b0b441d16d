//! Plans with port channels between nodes, on an engine that delivers late and out of order.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BufferMode;
use mscclpp_bootstrap::{self as bootstrap, Bootstrap, StreamKeys};
use mscclpp_core::plan::Plan;

use super::PooledBuffer;
use crate::cpu;
use crate::error::Error;
use crate::message::Message;
use crate::process::session::Session;
use crate::process::{Executor, Options};
use crate::transport::hostile::{Flaw, Hostile, Network};
use crate::transport::{Capabilities, LaunchId, Lost, Malformed, Received, RemoteAddress, Signal, Tcp, Transport, Ucx};
use crate::verify::{Pattern, Verifier};

/// Plans, numbers of ranks, and of ranks per node.
const PLANS: [(&str, u32, u32); 6] = [
    ("allgather_ring_ports", 2, 1),
    ("allreduce_ring_ports", 3, 1),
    ("reducescatter_ring_ports", 2, 1),
    ("allgather_two_nodes", 4, 2),
    ("allreduce_hierarchical", 4, 2),
    ("allreduce_hierarchical_packets", 4, 2),
];

/// Returns the engine of a rank.
type Engine<'a> = dyn Fn(u32) -> Box<dyn Transport<PooledBuffer>> + Sync + 'a;

/// A plan, and what the executor within one process computes.
struct Expected {
    plan: Plan,
    per_node: u32,
    message: Message,
    inputs: Vec<Vec<f32>>,
    before: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
}

impl Expected {
    fn new(name: &str, ranks: u32, per_node: u32, part: usize) -> Self {
        let algorithm = algorithms::find(name).expect(name);
        let mut spec = algorithm.spec(ranks, per_node);
        spec.collective.in_place = algorithm.buffer_mode() == BufferMode::InPlace;
        let plan = algorithm.compile_tree(spec, &algorithm.arguments([]).expect("defaults")).expect(name);
        let plan = Plan::new(&plan);
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
        Self { plan, per_node, message, inputs, before, outputs }
    }

    /// Launches some times on one rank, and returns the number of wrong launches.
    fn launch(&self, executor: &Executor) -> Result<usize, Error> {
        let mut x = executor.prepare(&self.plan, self.message)?;
        let rank = executor.rank() as usize;
        let mut wrong = 0;
        for _ in 0..3 {
            let mut output = self.before[rank].clone();
            if x.collective().in_place {
                // Of these plans only all-reduces are in place, whose input and output are the whole buffer.
                x.launch_in_place(&mut output)?;
            } else {
                x.launch(&self.inputs[rank], &mut output)?;
            }
            let bits = |elements: &[f32]| elements.iter().map(|element| element.to_bits()).collect::<Vec<_>>();
            wrong += usize::from(bits(&output) != bits(&self.outputs[rank]));
        }
        Ok(wrong)
    }

    /// Launches on all ranks, which are threads, and returns the first deviation.
    fn deviation(&self, seed: u64, flaw: Option<Flaw>) -> Option<String> {
        let network = Arc::new(Network::default());
        self.deviation_on(seed, &|rank| Box::new(Hostile::new(&network, rank, seed, flaw)))
    }

    /// The same, on the engines that a function returns.
    fn deviation_on(&self, seed: u64, engine: &Engine<'_>) -> Option<String> {
        let ranks = self.plan.num_ranks();
        let nodes: Vec<u32> = (0..ranks).map(|rank| rank / self.per_node).collect();
        let play = |bootstrap: Bootstrap| {
            let engine = engine(bootstrap.rank());
            let options = Options::default().timeout(Duration::from_secs(60));
            let session = Session::with_transport(Arc::new(bootstrap), options, nodes.clone(), engine);
            session.and_then(|session| self.launch(&Executor::of(session)))
        };
        let play = &play;
        let results: Vec<_> = std::thread::scope(|scope| {
            let groups = Bootstrap::local(ranks).expect("a group").into_iter();
            let threads: Vec<_> = groups.map(|group| scope.spawn(move || play(group))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let deviates = |(rank, result): (usize, Result<usize, Error>)| match result {
            Ok(0) => None,
            other => Some(format!("{}, seed {seed}, rank {rank}: {other:?}", self.plan.name())),
        };
        results.into_iter().enumerate().find_map(deviates)
    }
}

/// `MSCCLPP_SOAK` is the number of seeds.
#[test]
fn results_on_hostile_engine_are_equal() {
    let seeds = std::env::var("MSCCLPP_SOAK").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6);
    for (name, ranks, per_node) in PLANS {
        for part in [1, 37, 500] {
            let expected = Expected::new(name, ranks, per_node, part);
            for seed in 0..seeds {
                println!("{name}, {part} elements, seed {seed}");
                assert_eq!(expected.deviation(seed, None), None);
            }
        }
    }
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn results_on_ucx_are_equal() {
    for (name, ranks, per_node) in PLANS {
        for part in [1, 500, 100_000] {
            println!("{name}, {part} elements");
            let expected = Expected::new(name, ranks, per_node, part);
            let engine = |_| -> Box<dyn Transport<PooledBuffer>> { Box::new(Ucx::new(true).expect("a UCX")) };
            assert_eq!(expected.deviation_on(0, &engine), None);
        }
    }
}

/// The plans detect an engine that deviates from the contract.
#[test]
fn early_signals_give_other_results() {
    let expected = Expected::new("allgather_ring_ports", 2, 1, 500);
    let found = (0..50).find_map(|seed| expected.deviation(seed, Some(Flaw::EarlySignals)));
    println!("{}", found.expect("a deviation"));
}

/// An engine whose message with the given number fails authentication, if there is a number.
struct Tampered {
    engine: Tcp<PooledBuffer>,
    fails_at: Option<u64>,
    received: u64,
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

    fn put(&mut self, peer: u32, launch: LaunchId, to: RemoteAddress, len: u64, source: Option<PooledBuffer>) {
        self.engine.put(peer, launch, to, len, source);
    }

    fn signal(&mut self, peer: u32, launch: LaunchId, signal: Signal) {
        self.engine.signal(peer, launch, signal);
    }

    fn is_flushed(&self, peer: u32) -> bool {
        self.engine.is_flushed(peer)
    }

    fn progress(&mut self) -> bool {
        self.engine.progress()
    }

    fn receive(
        &mut self,
        peer: u32,
        launch: u64,
        buffer: &mut dyn FnMut(u64) -> Option<PooledBuffer>,
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
            let engine = Tampered { engine: Tcp::new(), fails_at, received: 0 };
            let options = Options::default().timeout(Duration::from_secs(60));
            let session = Session::with_transport(Arc::new(group), options, vec![0, 1, 2], Box::new(engine));
            session.and_then(|session| expected.launch(&Executor::of(session)))
        };
        let play = &play;
        let options = bootstrap::Options::default().authenticate_data(true);
        let results: Vec<_> = std::thread::scope(|scope| {
            let groups = Bootstrap::local_with_options(3, options).expect("a group").into_iter();
            let threads: Vec<_> = groups.map(|group| scope.spawn(move || play(group))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
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
