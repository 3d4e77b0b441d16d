//! A plan bound to a message, on devices.

mod bind;
mod end;
mod launch;
mod prepare;

use std::sync::Arc;
use std::time::Duration;

use mscclpp_core::collective::Collective;
use mscclpp_core::types::ReduceOp;

pub(super) use self::bind::Switches;
pub(super) use self::launch::RankParams;
pub(super) use self::prepare::check_co_resident;
use super::addresses::Tables;
use super::executor::{Executor, Inner};
use super::plan_state::{Places, PlanState};
use super::specialize::{NotSpecialized, VECTOR};
use super::timeline::Recording;
use crate::verify::{Bound, BoundPlan};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::{Params, ResolvedPlan};
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_base::message::Message;
use mscclpp_cuda::abi;
use mscclpp_cuda::capture::refuse_in_capture;
use mscclpp_cuda::device::stream::Stream;
use mscclpp_cuda::driver::Handle;
use mscclpp_cuda::slice::DeviceSlice;
use mscclpp_cuda::unused::Unused;

/// A plan bound to a message of a size, type and reduction, which can be launched any number of times.
///
/// `Send` and `Sync`: any thread may launch, but launches borrow the plan mutably.
pub struct PreparedPlan {
    pub(in crate::cuda) world: Arc<Inner>,
    pub(in crate::cuda) context: Arc<PlanState>,
    pub(in crate::cuda) params: Params,
    /// The specialized kernels, of all devices the lowest tier, or why there are none.
    specialized: Result<KernelTier, NotSpecialized>,
    pub(in crate::cuda) threads: u32,
    /// Where the scratch is that it uses, and the version of that in the kernel parameters.
    places: Arc<Places>,
    placed: u64,
    /// Whether no operation accesses the input or output of another rank than its own.
    pub(in crate::cuda) own_buffers_only: bool,
    /// Kernel and parameters of each device.
    pub(in crate::cuda) parts: Vec<Part>,
    /// Input and output of every rank: index of its allocation, and the first byte in it.
    sides: Vec<[(usize, u64); 2]>,
    /// Addresses of every rank's input and output in the current launch, then what ranks pass, as words.
    bases: Vec<u64>,
    counts: Vec<abi::CountParams>,
    /// Whether specialized kernels take buffers at any address.
    takes_any_alignment: bool,
    /// Whether the streams of the following launches are captured, if the caller knows it.
    is_captured: Option<bool>,
    /// Tables for `bases`, if they do not fit into the kernel parameters.
    tables: Tables,
    unused: Unused,
}

static_assertions::assert_impl_all!(PreparedPlan: Send, Sync);

/// Kernel and parameters of one device.
pub(in crate::cuda) struct Part {
    /// The interpreter, and the specialized kernel if it supports messages of this size.
    execute: Handle,
    written: Option<Handle>,
    divide: Handle,
    /// The kernel parameters, without the buffers.
    launch: abi::LaunchParams,
    /// Ranks of the device whose results an average divides.
    divided: Vec<u32>,
    /// Replaces the kernels while launches are recorded.
    pub(in crate::cuda) recording: Option<Recording>,
}

impl Bound for PreparedPlan {
    fn bound(&self) -> BoundPlan<'_> {
        BoundPlan { program: &self.context.program, params: &self.params }
    }
}

impl PreparedPlan {
    /// Returns the message.
    #[doc(hidden)]
    pub fn message(&self) -> &Message {
        &self.params.message
    }

    /// Returns the collective that the plan implements.
    #[doc(hidden)]
    pub fn collective(&self) -> Collective {
        self.context.program.shape.collective
    }

    /// Returns the number of ranks.
    #[doc(hidden)]
    pub fn num_ranks(&self) -> u32 {
        self.world.ranks
    }

    /// Returns the reduction; `None` if the plan does not reduce. For a plan with several reductions it is `Sum`.
    #[doc(hidden)]
    pub fn reduction(&self) -> Option<ReduceOp> {
        self.params.reduction
    }

    /// Returns which specialized kernel of the plan there is. Launches run it if the message divides into whole
    /// vectors of 16 bytes everywhere, at addresses that are multiples of 16; all others run the interpreter.
    ///
    /// # Errors
    /// The reason why all launches are interpreted.
    pub fn specialized(&self) -> Result<KernelTier, &NotSpecialized> {
        self.specialized.as_ref().copied()
    }

    /// Returns which kernel the last launch ran; of all devices the lowest tier.
    #[doc(hidden)]
    pub fn last_kernel(&self) -> KernelTier {
        let is_specialized = self.parts.iter().all(|part| part.written.is_some() && part.recording.is_none());
        let addresses = &self.bases[..self.bases.len().min(2 * self.world.ranks as usize)];
        let is_run =
            is_specialized && (self.takes_any_alignment || addresses.iter().all(|base| base.is_multiple_of(VECTOR)));
        self.specialized.as_ref().copied().ok().filter(|_| is_run).unwrap_or_default()
    }

    /// Returns the number of CUDA threads of a thread block.
    #[doc(hidden)]
    pub fn threads_per_block(&self) -> u32 {
        self.threads
    }

    /// Returns the number of thread blocks of a launch, of all ranks.
    #[doc(hidden)]
    pub fn num_blocks(&self) -> u32 {
        self.context.program.agents.len() as u32
    }

    /// Waits for pending launches, and overwrites the scratch that the plan has on this process' ranks with
    /// pseudo-random bytes. A launch that reads scratch which none of its operations wrote then computes with these
    /// instead of zeros or the data of an earlier launch. Packets are not overwritten: flags distinguish launches. No
    /// launch of another process may be pending.
    ///
    /// # Errors
    /// [`Error::Capturing`], [`Error::Driver`].
    #[doc(hidden)]
    pub fn scramble_scratch(&mut self, seed: u64) -> Result<(), Error> {
        refuse_in_capture("cannot write scratch")?;
        self.world.drain()?;
        self.context.scramble_scratch(&self.world, seed)
    }

    /// Continues as after this number of launches of the plan, so that a test reaches the end of the packets' flags. No
    /// launch of another process may be pending, and the ranks of all processes do the same.
    #[doc(hidden)]
    pub fn skip_launches(&mut self, launches: u64) -> Result<(), Error> {
        self.world.drain()?;
        self.context.skip_to(launches)
    }

    /// Returns this process' first rank.
    pub(in crate::cuda) fn rank(&self) -> u32 {
        self.world.local().next().map_or(0, |(rank, _)| rank)
    }

    /// Orders the work that is enqueued on a stream from now on after all launches so far.
    pub(in crate::cuda) fn follow_launches(&self, stream: &Stream) -> Result<(), Error> {
        self.world.follow_launches(stream)
    }

    /// Adds what was enqueued on a stream since the last launch to it: later launches follow that work too.
    pub(in crate::cuda) fn extend_launch(&self, stream: &Stream) -> Result<(), Error> {
        self.world.extend_launch(stream)
    }

    /// Returns the executor that it was prepared on.
    #[doc(hidden)]
    pub fn executor(&self) -> Executor {
        Executor { inner: Arc::clone(&self.world) }
    }

    /// Returns how long an operation of the following launches waits.
    #[doc(hidden)]
    pub fn timeout(&self) -> Duration {
        Duration::from_nanos(self.parts.first().map_or(0, |part| part.launch.timeout_ns))
    }

    /// Sets how long an operation of the following launches waits.
    #[doc(hidden)]
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.parts.iter_mut().for_each(|part| part.launch.timeout_ns = nanoseconds(timeout));
    }

    /// States whether the streams of the following launches are captured, so that launches do not ask.
    #[doc(hidden)]
    pub fn set_captured(&mut self, is_captured: bool) {
        self.is_captured = Some(is_captured);
    }

    /// Keeps what its captured launches use as long as the executor exists.
    #[doc(hidden)]
    pub fn keep_for_graphs(&self) {
        self.context.keep_for_graphs();
    }

    pub(in crate::cuda) fn program(&self) -> &ResolvedPlan {
        &self.context.program
    }

    /// Checks the lengths of a rank's buffers; those of packed chunks may have any.
    fn check(&self, rank: u32, slices: &[DeviceSlice; 2]) -> Result<(), Error> {
        if self.program().is_packed() {
            return Ok(());
        }
        for (number, (slice, expected)) in slices.iter().zip(self.lens()).enumerate() {
            if slice.bytes != expected {
                let buffer = ["input", "output"][number];
                return Err(Error::BufferSize { rank, buffer, expected, found: slice.bytes });
            }
        }
        Ok(())
    }

    /// Returns the bytes of a rank's two allocations.
    pub(in crate::cuda) fn lens(&self) -> [u64; 2] {
        self.params.buffers(&self.context.program)
    }
}

/// Returns a timeout as a device counts it.
fn nanoseconds(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 2)
}

impl Drop for PreparedPlan {
    fn drop(&mut self) {
        // Pending launches may still use the tables; a destructor cannot report a failure.
        if self.world.drain().is_ok() {
            self.unused.set();
        }
    }
}

impl std::fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedPlan")
            .field("plan", &self.context.program.plan)
            .field("message", &self.params.message)
            .finish_non_exhaustive()
    }
}
