//! Settings of the simulator.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::accesses::AccessLog;
use crate::threaded::ThreadedKernels;
use crate::trace::Trace;

/// Behavior of a simulated device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Seed that determines the order in which threads run and stores reach memory. Runs with the same seed are equal.
    pub seed: u64,
    /// Maximum number of threads of a block; kernels work with any number.
    pub threads: u32,
    /// A thread is preempted at one in this many memory accesses; 0: only where it waits.
    pub stop_at_one_of: u32,
    /// Whether plain stores are weak.
    pub weak: bool,
    /// A bug in the device code: one of [`bugs`](crate::bugs), [`switch_bugs`](crate::switch_bugs) or
    /// [`barrier_bugs`](crate::barrier_bugs), only for f32, or of [`specialized_bugs`](crate::specialized_bugs) or
    /// [`access_bugs`](crate::access_bugs); or one of those that [`late`](Self::late),
    /// [`one_connection`](Self::one_connection) and [`global_captures`](Self::global_captures) name.
    pub bug: Option<&'static str>,
    /// Runs kernels with threads of the operating system instead. Of the other settings, only `threads` matters then.
    pub threaded: Option<ThreadedKernels>,
    /// The driver call that fails: its name, and its number among calls of that name, counted from 1.
    pub failing: Option<(&'static str, u64)>,
    /// Whether all calls after that fail too, as after an illegal address.
    pub sticky: bool,
    /// A device whose threads are scheduled a hundred times less often.
    pub slow: Option<u32>,
    /// Number of consecutive devices, by their numbers on the host, that can access one another's memory; 0: all devices.
    pub peers: u32,
    /// Number on its host of the first device, where the devices of a host are divided among processes.
    pub first_device: u32,
    /// Fabric that connects the devices with those of other hosts that are in the same one: its number, in which
    /// their memory is exported by fabric handles.
    pub fabric: Option<u32>,
    /// Whether memory cannot be exported by fabric handles, as without access to the fabric's service.
    pub no_export: bool,
    /// Whether fabric handles of other processes cannot be imported, as without access to the fabric's service.
    pub no_import: bool,
    /// Whether kernels of other hosts, in this process or others, take part: they can map memory, and kernels wait for
    /// theirs.
    pub others: bool,
    /// Whether captures are begun in CUDA's global mode: unsafe calls of all threads invalidate them. With the injected bug
    /// `lost_modes` threads stay in the mode in which they began, whatever they set.
    pub global_captures: bool,
    /// Whether memory is exported to other processes as files.
    pub files: bool,
    /// Whether the buffer ids of physical memory are those of its addresses: a mapping at the address of an earlier one
    /// has the same.
    pub equal_ids: bool,
    /// Whether memory cannot be allocated to be shared, only exported by handles.
    pub legacy: bool,
    /// Whether work on streams other than kernels is delayed, to times that the seed determines. Each stream keeps its
    /// order unless a bug is injected: `early_stores` are executed immediately, `early_events` before the work that
    /// precedes them, and `lost_waits` let a stream continue before the awaited event.
    pub late: bool,
    /// Time for which the calling thread is blocked when it enqueues a copy on a stream.
    pub time_per_copy: Duration,
    /// Whether all streams of a device that have the same priority share a hardware queue, which executes work in the order
    /// in which it was enqueued. With the injected bug `equal_priorities` there is one priority.
    pub one_connection: bool,
    /// Whether the driver is older than the toolkit that built the kernels, and rejects them.
    pub old: bool,
    /// Whether kernels that were compiled ahead of time are compiled from their sources when they are loaded; otherwise the driver refuses them.
    pub ahead_of_time: bool,
    /// Number of devices, from the first one, that support multicast objects.
    pub multicast: u32,
    /// Counters of the accesses by multicast addresses.
    pub counts: Option<&'static MulticastCounts>,
    /// Log of the accesses of kernels.
    pub accesses: Option<&'static AccessLog>,
    /// Trace of the kernels that are compiled at run time, which are compiled for it.
    pub trace: Option<&'static Trace>,
    /// Counters of the calls of the driver.
    pub calls: Option<&'static CallCounts>,
    /// Whether kernels begin to run when they are launched, as a program expects that does not know about the simulator.
    /// Otherwise those of several devices run when a thread waits.
    pub starts_at_launch: bool,
    /// Maximum number of objects that libraries beside the executor do not release before the end.
    pub left: usize,
    /// Time without progress after which kernels that wait for other processes count as stalled.
    pub patience: Duration,
}

/// Numbers of accesses of kernels by multicast addresses.
#[derive(Debug, Default)]
pub struct MulticastCounts {
    /// Vectors that were loaded from all members at once.
    pub loads: AtomicU64,
    /// Vectors that were stored at all members at once.
    pub stores: AtomicU64,
}

/// Numbers of calls of the driver, by name.
#[derive(Debug, Default)]
pub struct CallCounts {
    by_name: Mutex<BTreeMap<&'static str, u64>>,
}

impl CallCounts {
    /// Removes and returns the numbers of calls since the last call.
    pub fn take(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.by_name.lock().unwrap_or_else(PoisonError::into_inner))
    }

    #[cfg(simulator)]
    pub(crate) fn count(&self, call: &'static str) {
        *self.by_name.lock().unwrap_or_else(PoisonError::into_inner).entry(call).or_default() += 1;
    }
}

impl PartialEq for CallCounts {
    /// Returns whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for CallCounts {}

impl PartialEq for MulticastCounts {
    /// Returns whether both are the same object.
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
            peers: 0,
            first_device: 0,
            fabric: None,
            no_export: false,
            no_import: false,
            others: false,
            global_captures: false,
            files: false,
            equal_ids: false,
            legacy: false,
            late: false,
            time_per_copy: Duration::ZERO,
            one_connection: false,
            old: false,
            ahead_of_time: false,
            multicast: 0,
            counts: None,
            accesses: None,
            trace: None,
            calls: None,
            starts_at_launch: false,
            left: 0,
            patience: Duration::from_secs(10),
        }
    }
}
