//! Puts between two processes, and how long they take: `scripts/bench-ucx.sh` compares with UCX's own benchmark.

use std::ops::Range;
use std::process::Command;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Pool, PooledBuffer};
use mscclpp_base::memory::Span;
use mscclpp_base::shm::{Region, SecondMapping, Segment, Views};
use mscclpp_transport::{
    Destination, Frame, FrameKind, LaunchId, Received, RemoteAddress, Signal, Tcp, Transport, Ucx,
};

/// Variable by which the second process has the port of the first one.
const PORT_VARIABLE: &str = "BANDWIDTH_TEST_PORT";

/// Sizes of messages, the number of messages of a measurement, and whether each is answered before the next one.
const MEASUREMENTS: [(u64, u64, bool); 6] = [
    (8, 500, true),
    (1 << 10, 500, true),
    (1 << 16, 400, false),
    (1 << 20, 40, false),
    (16 << 20, 4, false),
    (64 << 20, 1, false),
];

/// Measurements of each kind, of which the first one is not reported. They are short, so that some of them have the processors alone.
const ROUNDS: u64 = 15;

/// Maximum duration of a wait for a message.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Shared memory, as that of registered buffers.
struct Area {
    segment: Arc<Segment>,
    second: SecondMapping,
}

impl Area {
    fn new(len: u64) -> Self {
        let (segment, _) = Segment::new(len, "a test").expect("memory");
        Self { segment: Arc::new(segment), second: SecondMapping::default() }
    }

    fn region(&self, addresses: &Range<usize>) -> Option<Region> {
        self.second.region(&self.segment, &(0..self.segment.len() as u64), addresses)
    }
}

type Engine = Box<dyn Transport<PooledBuffer>>;

/// Memory that the puts of a message are received into, at their offsets.
struct Memory<'m> {
    memory: Span<'m>,
    area: &'m Area,
    pool: &'m Pool,
}

impl Destination<PooledBuffer> for Memory<'_> {
    fn buffer(&mut self, len: u64) -> Option<PooledBuffer> {
        Some(self.pool.with_len(len))
    }

    fn memory(&mut self, put: &Frame, at: u64) -> Option<Span<'_>> {
        match put.kind {
            FrameKind::Put { to, len } => Some(self.memory.range(to.offset + at, len - at)),
            _ => None,
        }
    }

    fn region(&mut self, put: &Frame) -> Option<Region> {
        let addresses = self.memory(put, 0)?.addresses();
        self.area.region(&addresses)
    }
}

/// One of the two ranks, with memory to send from and to receive into.
struct Rank<'m> {
    engine: Engine,
    peer: u32,
    launch: LaunchId,
    source: Span<'m>,
    source_area: &'m Area,
    pool: &'m Pool,
    memory: Memory<'m>,
    /// Number of signals that were received and not waited for.
    signals: u64,
}

impl Rank<'_> {
    /// Sends a message, as the process executor does: puts of at most the engine's maximum, and a signal.
    fn send(&mut self, len: u64) {
        let most = self.engine.capabilities().max_put_bytes;
        for offset in (0..len).step_by(most as usize) {
            let put = self.source.range(offset, most.min(len - offset));
            let mut done = 0;
            while done < put.len() as u64 {
                if !self.engine.has_room(self.peer) {
                    self.receive();
                    continue;
                }
                let (to, rest) = (RemoteAddress { key: 0, offset: offset + done }, put.range(done, u64::MAX));
                done += match self
                    .engine
                    .put_from(self.peer, self.launch, to, rest, &|| self.source_area.region(&rest.addresses()))
                {
                    Some(sent) => sent,
                    None => {
                        let source = self.pool.filled_by(|to| rest.read(rest.len(), to));
                        self.engine.put(self.peer, self.launch, to, rest.len() as u64, Some(source));
                        rest.len() as u64
                    }
                };
            }
        }
        self.engine.signal(self.peer, self.launch, Signal::Call);
    }

    /// Sends and receives what is possible now.
    fn receive(&mut self) {
        self.engine.progress();
        loop {
            match self.engine.receive(self.peer, self.launch.launch, &mut self.memory).expect("valid messages") {
                Received::Message(Frame { kind: FrameKind::Put { to, len }, .. }, Some(buffer)) => {
                    self.memory.memory.range(to.offset, len).write(&buffer.as_ref()[..len as usize]);
                }
                Received::Message(frame, _) => self.signals += u64::from(frame.kind == FrameKind::Signal(Signal::Call)),
                Received::Part => {}
                Received::Nothing => return,
            }
        }
    }

    /// Receives the given number of signals.
    fn wait(&mut self, count: u64) {
        let (mut known, mut started, mut calls) = (self.signals, Instant::now(), 0_u64);
        while self.signals < count {
            self.receive();
            calls += 1;
            if calls % 1024 > 0 {
                continue;
            }
            if std::mem::replace(&mut known, self.signals) < self.signals {
                started = Instant::now();
            }
            assert!(self.engine.lost(self.peer).is_none(), "{:?}", self.engine.lost(self.peer));
            assert!(started.elapsed() < TIMEOUT, "no message of rank {}", self.peer);
        }
        self.signals -= count;
    }

    /// Sends messages, or receives and answers them, and returns the time that this took.
    fn measure(&mut self, (len, count, is_answered): (u64, u64, bool)) -> Duration {
        let started = Instant::now();
        match (self.peer, is_answered) {
            (1, true) => (0..count).for_each(|_| {
                self.send(len);
                self.wait(1);
            }),
            (_, true) => (0..count).for_each(|_| {
                self.wait(1);
                self.send(len);
            }),
            (1, false) => {
                (0..count).for_each(|_| self.send(len));
                self.wait(1);
            }
            (_, false) => {
                self.wait(count);
                self.send(0);
            }
        }
        started.elapsed()
    }
}

/// Lets this thread, and those that it starts, run on one processor of those that the process may use.
fn bind(rank: usize) {
    let allowed = sched_getaffinity(None).expect("processors");
    let allowed: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
    let mut set = CpuSet::new();
    set.set(allowed[rank % allowed.len()]);
    sched_setaffinity(None, &set).expect("a processor that is allowed");
}

/// Each measurement is a line: bytes of a message, microseconds from a message to its answer halved or MB/s of 2^20 bytes.
#[test]
#[ignore = "measures, see scripts/bench-ucx.sh"]
fn engine_moves_memory_to_that_of_another_process() {
    let port = std::env::var(PORT_VARIABLE).ok().map(|port| port.parse::<u16>().expect("a port"));
    let (rank, stream, child) = match port {
        Some(port) => (1, TcpStream::connect(("127.0.0.1", port)).expect("the first process listens"), None),
        None => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = listener.local_addr().expect("bound").port();
            let child = Command::new(std::env::current_exe().expect("a program"))
                .args(std::env::args_os().skip(1))
                .env(PORT_VARIABLE, port.to_string())
                .stdout(std::process::Stdio::null())
                .spawn()
                .expect("a process");
            (0, listener.accept().expect("a connection").0, Some(child))
        }
    };
    bind(rank);
    let engine: Engine = match std::env::var("MSCCLPP_TRANSPORT").as_deref() {
        Ok("ucx") => Box::new(Ucx::new(true).expect("a UCX, see scripts/ucx-env.sh")),
        _ => Box::new(Tcp::new()),
    };
    run(rank, engine, stream);
    if let Some(mut child) = child {
        assert!(child.wait().expect("a process").success());
    }
}

fn run(rank: usize, mut engine: Engine, stream: TcpStream) {
    let (peer, most) = (1 - rank as u32, MEASUREMENTS.iter().map(|(len, ..)| *len).max().unwrap_or(0));
    engine.open(peer, stream, None).expect("a socket");
    let (areas, pool) = ([Area::new(most), Area::new(most)], Pool::default());
    let mut views = Views::new(2);
    for (number, area) in areas.iter().enumerate() {
        assert!(views.set(number, &area.segment, 0..most));
    }
    let [source, result] = [0, 1].map(|number| views.memory().slice(number));
    let expected: Vec<u8> = (0..most).map(|at| at.wrapping_mul(31) as u8).collect();
    source.write(&expected);
    {
        let memory = Memory { memory: result, area: &areas[1], pool: &pool };
        let (launch, source_area) = (LaunchId { plan: 7, launch: 1, call: 9 }, &areas[0]);
        let mut rank = Rank { engine, peer, launch, source, source_area, pool: &pool, memory, signals: 0 };
        for measurement @ (len, count, is_answered) in MEASUREMENTS {
            for round in 0..ROUNDS {
                let time = rank.measure(measurement);
                if round == 0 || peer == 0 {
                    continue;
                }
                match is_answered {
                    true => println!("{len} us {:.2}", time.as_secs_f64() * 1e6 / (2 * count) as f64),
                    false => println!("{len} MB/s {:.0}", (len * count) as f64 / time.as_secs_f64() / (1 << 20) as f64),
                }
            }
        }
        // The peer's engine may need this one's work for its last message.
        rank.send(0);
        rank.wait(1);
        while !rank.engine.is_flushed(peer) {
            rank.engine.progress();
        }
    }
    let mut received = Vec::new();
    result.read(most as usize, &mut received);
    assert!(rank == 0 || received == expected, "other bytes");
}
