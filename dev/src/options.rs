//! Settings of the simulator.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use crate::accesses::AccessLog;
use crate::threaded::ThreadedKernels;

/// How a simulated device behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Decides the order in which threads run and stores reach memory. The same seed, the same run.
    pub seed: u64,
    /// Most threads of a block; kernels work with any number.
    pub threads: u32,
    /// A thread stops at one of so many memory accesses; 0: only where it waits.
    pub stop_at_one_of: u32,
    /// Whether plain stores are weak.
    pub weak: bool,
    /// A bug in the device code, one of [`bugs`](crate::bugs), [`switch_bugs`](crate::switch_bugs) or
    /// [`barrier_bugs`](crate::barrier_bugs), only for f32, or of
    /// [`specialised_bugs`](crate::specialised_bugs) or [`access_bugs`](crate::access_bugs); or one of those that [`late`](Self::late) names.
    pub bug: Option<&'static str>,
    /// Runs kernels with threads of the operating system instead. Of the other settings, only `threads` matters then.
    pub threaded: Option<ThreadedKernels>,
    /// The driver's call that fails: its name, and which of its calls, counted from 1.
    pub failing: Option<(&'static str, u64)>,
    /// Whether all calls after that fail too, as after an illegal address.
    pub sticky: bool,
    /// A device whose threads get their turn a hundred times less often.
    pub slow: Option<u32>,
    /// Whether devices do not reach one another's memory.
    pub apart: bool,
    /// Whether kernels of other machines, in this process or others, take part: memory can be mapped by them, and kernels wait
    /// for theirs.
    pub others: bool,
    /// Whether memory goes to other processes as files.
    pub files: bool,
    /// Whether what is put on streams besides kernels is done late, at times that the seed decides; each stream keeps its order,
    /// unless a bug is planted: `early_stores` are done at once, `early_events` are before what they follow, `lost_waits` let a
    /// stream go on before what it waits for.
    pub late: bool,
    /// How long the calling thread takes to put a copy on a stream.
    pub time_per_copy: Duration,
    /// Whether the driver is older than what built the kernels, and refuses them.
    pub old: bool,
    /// How many of the first devices have multicast objects.
    pub multicast: u32,
    /// Where accesses by multicast addresses are counted.
    pub counts: Option<&'static MulticastCounts>,
    /// Where accesses of kernels are recorded.
    pub accesses: Option<&'static AccessLog>,
    /// How long nothing may happen before kernels that wait for somebody outside of them count as stuck.
    pub patience: Duration,
}

/// How often kernels went through multicast addresses.
#[derive(Debug, Default)]
pub struct MulticastCounts {
    /// Vectors that were loaded from all members at once.
    pub loads: AtomicU64,
    /// Vectors that were stored at all members at once.
    pub stores: AtomicU64,
}

impl PartialEq for MulticastCounts {
    /// Whether both are the same place.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for MulticastCounts {}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            threads: 16,
            stop_at_one_of: 16,
            weak: true,
            bug: None,
            threaded: None,
            failing: None,
            sticky: false,
            slow: None,
            apart: false,
            others: false,
            files: false,
            late: false,
            time_per_copy: Duration::ZERO,
            old: false,
            multicast: 0,
            counts: None,
            accesses: None,
            patience: Duration::from_secs(10),
        }
    }
}
