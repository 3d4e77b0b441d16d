//! What the devices of a simulated machine share: memory, streams, and the kernels that run at once.
//!
//! With one device, what is put on a stream is done at once. With several, kernels wait for one another, so they run when
//! a thread waits for a stream: all that have been put on any, each stream in its order.

mod error;
mod fault_injection;
mod kernels;
mod leak_check;
mod streams;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::Handle;

pub(crate) use self::error::{Code, Result, error};
pub(crate) use self::fault_injection::CaptureState;
pub(crate) use self::streams::{Event, Queue};
pub(crate) use self::work::{Launch, Work};
use crate::alloc::SimulatedMemory;
use crate::multicast::Multicast;
use crate::options::Options;
use crate::plugin::Plugin;

/// Devices that share a host.
pub(crate) struct SimulatedHost {
    /// No other machine, of any process, has the same.
    pub(crate) id: u64,
    pub(crate) options: Options,
    devices: u32,
    state: Mutex<State>,
    /// Held by whoever uses memory: threads of kernels, or the host.
    memory: Mutex<SimulatedMemory>,
    /// Kernels have finished.
    finished: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// Calls of the function that is to fail.
    calls: u64,
    /// Whether all calls fail.
    dead: bool,
    runs: u64,
    /// How often it was looked what can be done.
    turns: u64,
    next: usize,
    pub(crate) modules: BTreeMap<usize, Module>,
    /// Kernels, by handle.
    pub(crate) functions: BTreeMap<usize, usize>,
    pub(crate) streams: BTreeMap<usize, Queue>,
    pub(crate) graphs: BTreeMap<usize, Vec<Launch>>,
    pub(crate) events: BTreeMap<usize, Event>,
    pub(crate) multicasts: BTreeMap<usize, Arc<Multicast>>,
    /// Whether threads of the host serve devices.
    pub(crate) helped: bool,
    /// Which device reaches the memory of which.
    pub(crate) access: BTreeSet<(u32, u32)>,
    /// Whether somebody runs kernels.
    running: bool,
}

/// Kernels: built with this crate, by their module's name, or loaded.
pub(crate) enum Module {
    Built(CString),
    Loaded(Plugin),
}

impl SimulatedHost {
    pub(crate) fn new(options: Options, devices: u32) -> Self {
        let (state, memory, finished) = (Mutex::default(), Mutex::default(), Condvar::new());
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Relaxed);
        Self { id, options, devices, state, memory, finished }
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
        Handle(state.next)
    }

    pub(crate) fn check(&self, call: &'static str, address: u64, bytes: u64) -> Result<()> {
        if bytes == 0 || self.memory().holds(address, bytes) {
            return Ok(());
        }
        error(call, Code::InvalidValue, format!("{bytes} bytes at {address:#x} were not allocated"))
    }
}
