//! A job in which one rank has a fault, and what its ranks return.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::thread;
use std::time::{Duration, Instant};

use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;

/// What the faulty rank does instead of its call, or during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It makes the call after the others' timeout.
    Late,
    /// It ends without a shutdown.
    Dies,
    /// It is suspended.
    Stops,
    /// It drops its communicator.
    Leaves,
    /// It aborts.
    Aborts,
    /// It makes a call of another collective.
    OtherCollective,
    /// It makes the call with another number of elements.
    OtherSize,
    /// It makes the call with elements of another type.
    OtherType,
    /// It makes the call with another root or reduction.
    OtherRoot,
}

impl Fault {
    /// Faults that a rank can have which is a thread; processes also die and stop.
    pub(crate) const OF_THREADS: [Self; 7] = [
        Self::Late,
        Self::Leaves,
        Self::Aborts,
        Self::OtherCollective,
        Self::OtherSize,
        Self::OtherType,
        Self::OtherRoot,
    ];
}

const CALLS: [&str; 12] = [
    "all_reduce",
    "all_reduce_in_place",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
    "barrier",
    "all_to_all_v",
    "alloc",
    "agree",
];

/// A job of some ranks, one of which has a fault.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub ranks: u32,
    pub victim: u32,
    pub fault: Fault,
    /// The call with the fault.
    call: &'static str,
    /// Calls of all ranks before that one.
    pub before: u64,
    /// Elements per rank.
    part: usize,
    /// How long after the beginning of the call a rank ends or is suspended.
    pub pause: Duration,
}

impl Case {
    pub(crate) fn new(seed: u64, faults: &[Fault]) -> Self {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        (0..8).for_each(|_| _ = below(2));
        let fault = faults[below(faults.len() as u64) as usize];
        let mut ranks = 2 + below(7) as u32;
        let differs = [Fault::OtherCollective, Fault::OtherSize, Fault::OtherType, Fault::OtherRoot].contains(&fault);
        if differs {
            // Of two ranks none differs from most.
            ranks = ranks.max(3);
        }
        let call = match fault {
            Fault::OtherRoot => ["broadcast", "reduce"][below(2) as usize],
            Fault::OtherSize | Fault::OtherType => CALLS[below(8) as usize],
            _ => CALLS[below(CALLS.len() as u64) as usize],
        };
        let part = [1, 250, 7_001, 100_000][below(4) as usize];
        let victim = below(u64::from(ranks)) as u32;
        Self { ranks, victim, fault, call, before: below(4), part, pause: Duration::from_micros(below(3000)) }
    }

    /// Makes calls until one fails, and returns its error. `strike` is called by the faulty rank at its call, and returns `false`
    /// if the rank makes no calls any more.
    pub(crate) fn run(&self, comm: &Communicator, strike: impl Fn(&Self)) -> Option<Error> {
        let victim = comm.rank() == self.victim;
        for number in 0.. {
            let strikes = victim && number == self.before;
            let (mut call, mut part, mut root) = (self.call, self.part, 0);
            let mut other_type = false;
            if strikes {
                match self.fault {
                    Fault::Late => wait_for_failure(comm),
                    Fault::Dies | Fault::Stops => strike(self),
                    Fault::Leaves => return None,
                    Fault::Aborts => comm.bootstrap().abort("on purpose"),
                    Fault::OtherCollective => call = if call == "all_gather" { "barrier" } else { "all_gather" },
                    Fault::OtherSize => part += 1,
                    Fault::OtherType => other_type = true,
                    Fault::OtherRoot => root = 1,
                }
            }
            let made = if other_type {
                self.make::<i32>(comm, call, part, root)
            } else {
                self.make::<f32>(comm, call, part, root)
            };
            if let Err(error) = made {
                return Some(error);
            }
        }
        None
    }

    /// Checks the text of a root cause: it has no place within this library, and the call of a late rank has the number and the place
    /// that it has in the program.
    pub(crate) fn check_text(&self, text: &str) {
        assert!(!text.contains("/src/"), "{self:?}: expected places of the program in: {text}");
        let is_late = self.fault == Fault::Late;
        let call = format!("(call {}) at mscclpp-communicator/tests/", self.before + 1);
        let is_right = text.contains(&call) && text.contains("/fault_case.rs:");
        assert!(!is_late || is_right, "{self:?}: expected `{call}` in: {text}");
    }

    fn make<T>(&self, comm: &Communicator, call: &str, part: usize, root: u32) -> Result<(), Error>
    where
        T: mscclpp_exec::Element + Default,
    {
        let ranks = self.ranks as usize;
        let (mut whole, mut other, mut one) =
            (vec![T::default(); part * ranks], vec![T::default(); part * ranks], vec![T::default(); part]);
        match call {
            "all_reduce" => comm.all_reduce(&whole, &mut other, ReduceOp::Sum),
            "all_reduce_in_place" => comm.all_reduce_in_place(&mut whole, ReduceOp::Max),
            "all_gather" => comm.all_gather(&one, &mut whole),
            "reduce_scatter" => comm.reduce_scatter(&whole, &mut one, ReduceOp::Sum),
            "all_to_all" => comm.all_to_all(&whole, &mut other),
            "broadcast" => comm.broadcast_in_place(&mut whole, root),
            "reduce" => comm.reduce_in_place(&mut whole, ReduceOp::Sum, root),
            "send_recv" => comm.send_recv_in_place(&mut whole),
            "barrier" => comm.barrier(),
            "all_to_all_v" => {
                let counts: Vec<usize> = (0..ranks).map(|rank| (part + rank) / 2).collect();
                comm.all_to_all_v(&vec![T::default(); counts.iter().sum()], &counts).map(drop)
            }
            "alloc" => comm.alloc::<T>(part).map(drop),
            "agree" => comm.agree(true).map(drop),
            other => panic!("there is no call {other}"),
        }
    }
}

/// Waits until the timeout of the other ranks has expired, which takes longer if they do not get a processor.
fn wait_for_failure(comm: &Communicator) {
    let begun = Instant::now();
    while comm.bootstrap().check_alive().is_ok() && begun.elapsed() < Duration::from_secs(120) {
        thread::sleep(Duration::from_millis(10));
    }
}
