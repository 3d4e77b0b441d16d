//! Traces of kernels that are compiled while the simulator runs: the basic blocks that threads enter.

use std::sync::{Mutex, PoisonError};

/// A basic block that a thread entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread block.
    pub block: u32,
    /// The thread in the thread block.
    pub thread: u32,
    /// Address in the object: that of the instruction after the call that reports the basic block.
    pub address: u64,
}

/// A source that was compiled, and its object with debug information.
#[derive(Clone, Debug)]
pub struct TracedObject {
    /// Name of the source.
    pub name: String,
    /// Text of the source.
    pub text: String,
    /// Macros that it was compiled with.
    pub defines: Vec<(String, String)>,
    /// Bytes of the object.
    pub code: Vec<u8>,
}

/// Trace of the first warps of the thread blocks of rank 0, where the ranks of a launch have equally many. Those of the other ranks run
/// before them wherever both can, so that what rank 0 waits for has been stored before it polls, if possible.
#[derive(Debug)]
pub struct Trace {
    ranks: u32,
    steps: Mutex<Vec<Step>>,
    objects: Mutex<Vec<TracedObject>>,
}

/// Threads of a warp.
#[cfg(simulator)]
const WARP: u32 = 32;

impl Trace {
    /// Creates a trace of launches of this number of ranks.
    pub fn new(ranks: u32) -> Self {
        Self { ranks, steps: Mutex::default(), objects: Mutex::default() }
    }

    /// Removes and returns the steps since the last call; those of a thread are in its program order.
    pub fn take_steps(&self) -> Vec<Step> {
        std::mem::take(&mut self.steps.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes and returns the objects that were compiled since the last call.
    pub fn take_objects(&self) -> Vec<TracedObject> {
        std::mem::take(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns whether a thread block of a launch is one of rank 0.
    #[cfg(simulator)]
    pub(crate) fn is_of_first_rank(&self, block: u32, blocks: u32) -> bool {
        block < blocks / self.ranks.max(1)
    }

    #[cfg(simulator)]
    pub(crate) fn push(&self, step: Step, blocks: u32) {
        if step.thread < WARP && self.is_of_first_rank(step.block, blocks) {
            self.steps.lock().unwrap_or_else(PoisonError::into_inner).push(step);
        }
    }

    #[cfg(simulator)]
    pub(crate) fn add(&self, object: TracedObject) {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).push(object);
    }
}

impl PartialEq for Trace {
    /// Returns whether both are the same object.
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Trace {}
