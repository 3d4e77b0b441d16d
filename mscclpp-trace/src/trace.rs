//! Operations over time.

use mscclpp_plan::raw::{OpClass, OpKind};
use serde_json::{Map, Value};

use crate::memory::Memory;

/// Operations over time, and what they wait for.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// What was executed, such as the name of a plan.
    pub title: String,
    /// Statements about the trace, for a reader.
    pub notes: Vec<String>,
    /// Unit of all times.
    pub unit: Unit,
    /// Thread blocks and ports, in the order in which they are shown.
    pub lanes: Vec<Lane>,
    /// Executed operations.
    pub slices: Vec<Slice>,
    /// What operations waited for.
    pub arrows: Vec<Arrow>,
    /// What the chunks of all buffers hold, if that is known.
    pub memory: Option<Memory>,
    /// The use of links, if that is known.
    pub links: Vec<LinkUse>,
    /// The earliest time at which any algorithm could end, if that is known.
    pub bound: Option<f64>,
}

/// Unit of the times of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Logical steps: an operation takes one, and ends one after everything for which it waits.
    #[default]
    Steps,
    /// Microseconds.
    Microseconds,
}

/// A thread block or port of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Number of the process, usually that of the rank.
    pub process: u32,
    /// Name of the process, such as `rank 0`.
    pub process_name: String,
    /// Number within the process.
    pub thread: u32,
    /// Name, such as `thread block 0`.
    pub name: String,
}

/// Kind of an operation, which has a color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A copy, put or get.
    Copy,
    /// A reduction.
    Reduce,
    /// The transfer of a port.
    Transfer,
    /// An operation that waits for another thread block, rank or port.
    Wait,
    /// A signal, barrier or block sync.
    Sync,
    /// An operation that never ends.
    Blocked,
}

/// An operation that was executed, or that never ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Number of the lane.
    pub lane: u32,
    /// When it started.
    pub start: f64,
    /// When it ended; for an operation that never ends, the end of the trace.
    pub end: f64,
    /// Part of this time in which it waited, from its start; 0 if that is not known.
    pub waited: f64,
    /// Kind of the operation.
    pub class: Class,
    /// Name of the operation.
    pub name: String,
    /// More about it. Keys that a viewer may rely on: `op`, `source`, `chunks`, `iteration`, `waits_for`, `finding`.
    pub details: Map<String, Value>,
    /// Whether it is on the critical path.
    pub critical: bool,
}

/// A dependency: the second operation waits for the end of the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Number of the slice that ends first.
    pub from: u32,
    /// Number of the slice that waits for it.
    pub to: u32,
    /// Kind of the dependency, such as `signal`.
    pub what: &'static str,
    /// Whether it is on the critical path.
    pub critical: bool,
}

/// The use of a link over time.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// Name, such as `gpu0 to switch`.
    pub name: String,
    /// From each time until the next one, the used part of its capacity, 0 to 1.
    pub samples: Vec<(f64, f64)>,
}

impl LinkUse {
    /// Returns the used part of the link's capacity until a time, on average.
    pub fn average(&self, end: f64) -> f64 {
        let ends = self.samples.iter().skip(1).map(|(time, _)| *time).chain([end]);
        let used: f64 = self.samples.iter().zip(ends).map(|((time, part), next)| (next - time).max(0.0) * part).sum();
        if end > 0.0 { used / end } else { 0.0 }
    }
}

impl Class {
    /// Returns the class of an operation of a thread block.
    pub fn of(kind: OpKind) -> Self {
        match kind.class() {
            OpClass::Data(..) if kind.is_reduce() => Self::Reduce,
            OpClass::Data(..) => Self::Copy,
            OpClass::Wait { .. } | OpClass::Acquire | OpClass::Flush | OpClass::ExchangeCounts => Self::Wait,
            OpClass::BlockSync | OpClass::Barrier | OpClass::Signal { .. } | OpClass::Release | OpClass::Pipeline => {
                Self::Sync
            }
        }
    }

    /// Its name in pages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Reduce => "reduce",
            Self::Transfer => "transfer",
            Self::Wait => "wait",
            Self::Sync => "sync",
            Self::Blocked => "blocked",
        }
    }
}

impl Lane {
    /// Returns a lane of a rank.
    pub fn of_rank(rank: u32, thread: u32, name: String) -> Self {
        Self { process: rank, process_name: format!("rank {rank}"), thread, name }
    }
}

impl Slice {
    /// Returns an operation without details.
    pub fn new(lane: u32, (start, end): (f64, f64), class: Class, name: &str) -> Self {
        let (name, details) = (name.to_owned(), Map::new());
        Self { lane, start, end, waited: 0.0, class, name, details, critical: false }
    }
}

impl Trace {
    /// Returns the end of the last operation.
    pub fn end(&self) -> f64 {
        self.slices.iter().map(|slice| slice.end).fold(0.0, f64::max)
    }

    /// Returns the number of operations that never end.
    pub fn blocked(&self) -> usize {
        self.slices.iter().filter(|slice| slice.class == Class::Blocked).count()
    }
}
