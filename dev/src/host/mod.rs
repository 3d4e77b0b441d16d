//! State that the devices of a simulated host share: memory, streams, and the kernels that run at once.
//!
//! With one device, work on a stream is executed immediately. With several devices kernels wait for one another, so
//! they run when a thread waits for a stream: all that are enqueued on any stream, each stream in its order, on a thread
//! of their own.

mod captures;
mod error;
mod fault_injection;
mod kernels;
mod leak_check;
mod streams;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mscclpp_exec::cuda::Handle;

pub(crate) use self::captures::{CaptureState, exchange_mode};
pub(crate) use self::error::{Code, Result, error};
pub(crate) use self::streams::{Event, Queue};
pub(crate) use self::work::{Launch, Work};
use crate::alloc::SimulatedMemory;
use crate::file::Place;
use crate::multicast::Multicast;
use crate::options::Options;
use crate::plugin::Plugin;

/// Alignment of handles.
const HANDLE_ALIGN: usize = 64;

/// A host with its devices.
pub(crate) struct SimulatedHost {
    /// Identifier that no other host, of any process, has.
    pub(crate) id: u64,
    pub(crate) options: Options,
    pub(crate) devices: u32,
    state: Mutex<State>,
    /// Lock that a user of memory holds: threads of kernels, or the host.
    memory: Mutex<SimulatedMemory>,
    /// Whether a stream may be captured.
    may_capture: AtomicBool,
    /// Notified when a kernel has finished, and when no thread of any kernel can make progress.
    finished: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// Calls so far of the function that is to fail.
    calls: u64,
    /// Whether all calls fail.
    dead: bool,
    runs: u64,
    /// Number of scheduling attempts so far.
    turns: u64,
    next: usize,
    pub(crate) modules: BTreeMap<usize, Module>,
    /// Kernels, by handle.
    pub(crate) functions: BTreeMap<usize, usize>,
    pub(crate) streams: BTreeMap<usize, Queue>,
    /// Number of pieces of work enqueued so far.
    enqueued: u64,
    pub(crate) graphs: BTreeMap<usize, Vec<Work>>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) multicasts: BTreeMap<usize, Arc<Multicast>>,
    /// Whether threads of the host serve devices.
    pub(crate) helped: bool,
    /// Pairs of devices of which the first can access the memory of the second.
    pub(crate) access: BTreeSet<(u32, u32)>,
    /// Whether a thread runs kernels, and whether none of their threads can make progress.
    running: bool,
    stuck: bool,
    runner: Option<JoinHandle<()>>,
}

/// A module of kernels: built with this crate, by the module's name, or loaded.
pub(crate) enum Module {
    Built(CString),
    Loaded(Plugin),
}

impl SimulatedHost {
    pub(crate) fn new(options: Options, devices: u32) -> Self {
        let (state, memory, finished) = (Mutex::default(), Mutex::default(), Condvar::new());
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Relaxed);
        Self { id, options, devices, state, memory, may_capture: AtomicBool::new(false), finished }
    }

    /// Returns the identifier of a device.
    pub(crate) fn uuid(&self, ordinal: u32) -> [u8; 16] {
        u128::to_ne_bytes(u128::from(self.id) << 32 | u128::from(ordinal))
    }

    /// Returns the number of the group of devices that can access the memory of a device.
    pub(crate) fn peer_group(&self, ordinal: u32) -> u32 {
        (self.options.first_device + ordinal).checked_div(self.options.peers).unwrap_or(0)
    }

    /// Returns whether two devices can access one another's memory.
    pub(crate) fn can_access(&self, ordinal: u32, peer: u32) -> bool {
        self.peer_group(ordinal) == self.peer_group(peer)
    }

    /// Returns which devices can access the memory of a device.
    pub(crate) fn place(&self, ordinal: u32) -> Place {
        Place { peers: self.peer_group(ordinal), fabric: self.options.fabric }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, SimulatedMemory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handle(&self) -> Handle {
        let mut state = self.state();
        state.next += 1;
        // Aligned as the addresses that CUDA's handles are: programs use the low bits, and 1 and 2 are default streams.
        Handle(state.next * HANDLE_ALIGN)
    }

    pub(crate) fn check(&self, call: &'static str, address: u64, bytes: u64) -> Result<()> {
        if bytes == 0 || self.memory().holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::InvalidValue, format!("{bytes} bytes at {address:#x} were not allocated"))
    }
}
