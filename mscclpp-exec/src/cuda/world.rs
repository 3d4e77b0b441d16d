//! Ranks that share a device.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mscclpp_core::plan::Plan;

use super::context::Context;
use super::device::Device;
use super::driver::Handle;
use super::run::Run;
use crate::error::Error;
use crate::interpret::{Params, lower};
use crate::message::Message;

/// A number of ranks that run plans on one CUDA device, each with buffers of its own.
///
/// A launch is one kernel: every thread block of every rank is a block of it, and all of them run at once or the launch is
/// refused. Worlds are cheap to clone; clones are the same world.
#[derive(Clone)]
pub struct World {
    pub(super) inner: Arc<Inner>,
}

/// Settings of a [`World`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How long an operation waits before the launch gives up and says for what.
    pub timeout: Duration,
    /// Most bytes of scratch of a plan, all ranks together.
    pub scratch_limit: u64,
    /// Bytes per rank beyond which a plan with `reuse_resources` wraps its scratch, if it can.
    pub scratch_pool: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), scratch_limit: 1 << 36, scratch_pool: 1 << 26 }
    }
}

pub(super) struct Inner {
    pub(super) device: Device,
    pub(super) ranks: u32,
    pub(super) options: Options,
    /// Plans that were prepared; few, so a list does.
    contexts: Mutex<Vec<Arc<Context>>>,
    /// Held while a launch is put on a stream.
    pub(super) gate: Mutex<Gate>,
}

/// The stream of the last launch: launches share counters and scratch, so they follow one another whatever their streams.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) last: Option<Handle>,
}

impl World {
    /// A world with default [`Options`].
    pub fn new(device: &Device, ranks: u32) -> Self {
        Self::with_options(device, ranks, Options::default())
    }

    /// A world.
    pub fn with_options(device: &Device, ranks: u32, options: Options) -> Self {
        let (contexts, gate) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { device: device.clone(), ranks, options, contexts, gate }) }
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.ranks
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }

    /// Binds a plan to a message. Everything that needs memory or the kernels happens here, so that launches can be captured.
    ///
    /// The first call for a plan uploads it. Another size, type or reduction costs arithmetic on the host only, unless scratch
    /// must grow or the kernels of the type are not loaded yet.
    ///
    /// # Errors
    /// Those of [`cpu::World::prepare`](crate::cpu::World::prepare); [`Error::NotResident`] if the device cannot run all
    /// thread blocks at once; [`Error::Driver`].
    pub fn prepare(&self, plan: &Plan, message: Message) -> Result<Run, Error> {
        let context = self.inner.context(plan)?;
        let Options { scratch_limit, scratch_pool, .. } = self.inner.options;
        let params = Params::new(&context.program, message, scratch_limit, scratch_pool)?;
        Run::new(Arc::clone(&self.inner), context, params)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { ranks, device, options, .. } = &*self.inner;
        f.debug_struct("World").field("ranks", ranks).field("device", device).field("options", options).finish()
    }
}

impl Inner {
    /// What the world keeps of a plan. Plans are told apart by their contents.
    fn context(&self, plan: &Plan) -> Result<Arc<Context>, Error> {
        let same = |known: &Plan| known.hash() == plan.hash() && known.image().len() == plan.image().len();
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = contexts.iter().find(|context| same(&context.program.plan)) {
            return Ok(Arc::clone(context));
        }
        let (expected, found) = (plan.num_ranks(), self.ranks);
        if expected != found {
            return Err(Error::Ranks { plan: plan.name().to_owned(), expected, found });
        }
        let context = Arc::new(Context::new(&self.device, lower(plan)?)?);
        contexts.push(Arc::clone(&context));
        Ok(context)
    }
}
