//! A plan bound to a message, on devices.

mod bind;
mod end;
mod launch;
mod prepare;

use std::sync::Arc;

use mscclpp_core::collective::Collective;
use mscclpp_core::types::ReduceOp;

pub(super) use self::bind::Switches;
pub(super) use self::prepare::{rooms, threads_of};
use super::abi;
use super::addresses::Tables;
use super::buffers::DeviceSlice;
use super::driver::Handle;
use super::executor::Inner;
use super::plan_state::PlanState;
use super::specialize::NotSpecialized;
use super::stream::refuse_in_capture;
use crate::error::Error;
use crate::interpret::Params;
use crate::message::Message;

/// A plan bound to a message of a size, type and reduction, to be launched any number of times.
pub struct PreparedPlan {
    world: Arc<Inner>,
    context: Arc<PlanState>,
    params: Params,
    /// Whether launches run kernels that were written for the plan, or why not.
    specialised: Result<(), NotSpecialized>,
    threads: u32,
    /// By device.
    parts: Vec<Part>,
    /// Input and output of every rank: which of its memories, and the first byte in it.
    sides: Vec<[(usize, u64); 2]>,
    /// The first bytes of every rank's input and output in the launch at hand.
    bases: Vec<u64>,
    /// Those, where they do not fit into a kernel's argument.
    tables: Tables,
}

/// What is launched on one device.
struct Part {
    /// The interpreter, and what was written for the plan, if that is for messages of this size.
    execute: Handle,
    written: Option<Handle>,
    divide: Handle,
    /// The kernel's argument, but for the buffers.
    launch: abi::Launch,
    /// Ranks there whose results an average divides.
    divided: Vec<u32>,
}

impl PreparedPlan {
    /// The message.
    pub fn message(&self) -> &Message {
        &self.params.message
    }

    /// The collective that the plan implements.
    pub fn collective(&self) -> Collective {
        self.context.program.shape.collective
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.world.ranks
    }

    /// The reduction; `None` if the plan does not reduce. Of a plan that reduces in several ways, `Sum`.
    pub fn reduction(&self) -> Option<ReduceOp> {
        self.params.reduction
    }

    /// Whether there is a kernel that was written for the plan. Launches run it where the message divides into whole vectors of 16
    /// bytes everywhere, at addresses that are multiples of 16, and all others run the interpreter.
    ///
    /// # Errors
    /// Why all are interpreted.
    pub fn specialised(&self) -> Result<(), &NotSpecialized> {
        self.specialised.as_ref().map(|&()| ())
    }

    /// CUDA threads of a thread block.
    pub fn threads_per_block(&self) -> u32 {
        self.threads
    }

    /// Thread blocks of a launch, of all ranks.
    pub fn num_blocks(&self) -> u32 {
        self.context.program.agents.len() as u32
    }

    /// Waits until the devices are idle, and overwrites the scratch that the plan has on this process' ranks with pseudo-random
    /// bytes. A launch that reads scratch which none of its operations wrote then computes with these instead of what an earlier
    /// launch left there, or zeros. Packets stay: flags tell launches apart. No launch of another process may be under way.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    pub fn scramble_scratch(&mut self, seed: u64) -> Result<(), Error> {
        refuse_in_capture("cannot write scratch")?;
        self.world.settle()?;
        self.context.scramble_scratch(seed)
    }

    fn check(&self, rank: u32, slices: &[DeviceSlice; 2]) -> Result<(), Error> {
        for (number, (slice, expected)) in slices.iter().zip(self.lens()).enumerate() {
            if slice.bytes != expected {
                let buffer = ["input", "output"][number];
                return Err(Error::BufferSize { rank, buffer, expected, found: slice.bytes });
            }
        }
        Ok(())
    }

    /// Bytes of the two memories of a rank.
    fn lens(&self) -> [u64; 2] {
        self.params.buffers(&self.context.program)
    }
}

impl Drop for PreparedPlan {
    fn drop(&mut self) {
        // What is given back may still be in use; a failure cannot be mended here.
        let _ = self.world.settle();
    }
}

impl std::fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("plan", &self.context.program.plan)
            .field("message", &self.params.message)
            .finish_non_exhaustive()
    }
}
