//! Ranks on devices.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mscclpp_core::plan::Plan;

use super::context::Context;
use super::device::Device;
use super::peer;
use super::run::Run;
use super::stream::{Stream, Used};
use super::unavailable::Unavailable;
use crate::error::Error;
use crate::interpret::{Params, lower};
use crate::message::Message;

/// A number of ranks that run plans on CUDA devices, each with buffers of its own: all on one device, or on several.
///
/// A launch is one kernel on each device: every thread block of every rank there is a block of it, and all of them run at once
/// or the launch is refused. Kernels of several devices meet at their beginning and at their end. Worlds are cheap to clone;
/// clones are the same world.
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

/// How a plan is prepared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Prepare {
    /// Whether to write and compile a kernel for this plan, type and reduction. Where that is not possible the plan is
    /// interpreted, with the same results.
    pub specialise: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), scratch_limit: 1 << 36, scratch_pool: 1 << 26 }
    }
}

pub(super) struct Inner {
    /// In the order of the first rank of each.
    pub(super) devices: Vec<Device>,
    /// By rank.
    pub(super) device_of: Vec<u32>,
    pub(super) ranks: u32,
    pub(super) options: Options,
    /// Plans that were prepared; few, so a list does.
    contexts: Mutex<Vec<Arc<Context>>>,
    /// Held while a launch is put on a stream.
    pub(super) gate: Mutex<Gate>,
}

/// The stream of the last launch on each device: launches share counters and scratch, so they follow one another whatever their
/// streams.
pub(super) struct Gate {
    pub(super) last: Vec<Option<Used>>,
}

impl World {
    /// A world with default [`Options`].
    pub fn new(device: &Device, ranks: u32) -> Self {
        Self::with_options(device, ranks, Options::default())
    }

    /// A world.
    pub fn with_options(device: &Device, ranks: u32, options: Options) -> Self {
        Self::on(vec![device.clone()], vec![0; ranks as usize], options)
    }

    /// A world with a rank on each of these devices, in this order; a device may have several. All must reach one another.
    ///
    /// # Errors
    /// [`Error::NoPeerAccess`] with the names of two devices that are not connected; [`Error::NoDevice`] for no rank at all;
    /// [`Error::Driver`].
    pub fn across(ranks: &[Device], options: Options) -> Result<Self, Error> {
        let mut devices: Vec<Device> = Vec::new();
        let mut device_of = Vec::with_capacity(ranks.len());
        for device in ranks {
            let known = devices.iter().position(|known| known.ordinal() == device.ordinal());
            device_of.push(known.unwrap_or(devices.len()) as u32);
            if known.is_none() {
                devices.push(device.clone());
            }
        }
        if devices.is_empty() {
            return Err(Unavailable::NoDevice.into());
        }
        peer::connect(&devices)?;
        Ok(Self::on(devices, device_of, options))
    }

    fn on(devices: Vec<Device>, device_of: Vec<u32>, options: Options) -> Self {
        let gate = Mutex::new(Gate { last: devices.iter().map(|_| None).collect() });
        let ranks = device_of.len() as u32;
        Self { inner: Arc::new(Inner { devices, device_of, ranks, options, contexts: Mutex::default(), gate }) }
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.ranks
    }

    /// The devices, in the order of the first rank of each.
    pub fn devices(&self) -> &[Device] {
        &self.inner.devices
    }

    /// A new stream, on all devices of the world.
    ///
    /// # Errors
    /// [`Error::Driver`].
    pub fn stream(&self) -> Result<Stream, Error> {
        let streams = self.inner.devices.iter().map(Device::stream).collect::<Result<Vec<_>, _>>()?;
        Ok(Stream::join(streams))
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
        self.prepare_with(plan, message, Prepare::default())
    }

    /// Binds a plan to a message, with settings.
    ///
    /// # Cost
    /// The first time that a plan is specialised for a type and reduction it is compiled, which takes seconds, unless the cache
    /// has it ([`jit`](super::jit)).
    ///
    /// # Errors
    /// Those of [`prepare`](Self::prepare). That a plan cannot be specialised is none: [`Run::specialised`] says why.
    pub fn prepare_with(&self, plan: &Plan, message: Message, prepare: Prepare) -> Result<Run, Error> {
        let context = self.inner.context(plan)?;
        let Options { scratch_limit, scratch_pool, .. } = self.inner.options;
        let params = Params::new(&context.program, message, scratch_limit, scratch_pool)?;
        Run::new(Arc::clone(&self.inner), context, params, prepare)
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { ranks, devices, options, .. } = &*self.inner;
        f.debug_struct("World").field("ranks", ranks).field("devices", devices).field("options", options).finish()
    }
}

impl Inner {
    /// The device of a rank.
    pub(super) fn device(&self, rank: u32) -> &Device {
        &self.devices[self.device_of[rank as usize] as usize]
    }

    /// Waits until nothing is under way on any device.
    pub(super) fn wait_idle(&self) -> Result<(), Error> {
        Ok(self.devices.iter().try_for_each(|device| device.driver().wait_idle())?)
    }

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
        let context = Arc::new(Context::new(self, lower(plan)?)?);
        contexts.push(Arc::clone(&context));
        Ok(context)
    }
}
