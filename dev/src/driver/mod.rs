//! The simulator as a driver.

mod addresses;
mod events;
mod graphs;
mod kernels;
mod memory;
mod multicast;
mod sharing;
mod streams;

use std::sync::{Arc, OnceLock};

use mscclpp_exec::cuda::jit::{Compiler, JitError};
use mscclpp_exec::cuda::{Driver, Fabric, Peer, Properties};

use crate::host::{Code, Result, SimulatedHost, error};
use crate::options::Options;
use crate::plugin::PluginCompiler;

/// A simulated device.
pub(crate) struct Simulator {
    properties: Properties,
    machine: Arc<SimulatedHost>,
    compiler: OnceLock<std::result::Result<PluginCompiler, JitError>>,
}

impl Simulator {
    /// Returns the devices of a new host.
    pub(crate) fn all(options: Options, devices: u32) -> impl Iterator<Item = Self> {
        let machine = Arc::new(SimulatedHost::new(options, devices));
        (0..devices).map(move |ordinal| {
            let properties = Properties {
                ordinal,
                uuid: machine.uuid(ordinal),
                name: "simulated device".into(),
                capability: (9, 0),
                multiprocessors: 132,
                memory: 1 << 34,
                driver: 13_000,
                shareable: !options.legacy,
                fabric: options.fabric.map(|number| Fabric { cluster: [1; 16], clique: number }),
                multicast: ordinal < options.multicast,
            };
            Self { properties, machine: Arc::clone(&machine), compiler: OnceLock::new() }
        })
    }

    fn called(&self, call: &'static str) -> Result<()> {
        self.machine.count_call(call)
    }
}

impl Drop for Simulator {
    /// The host ends with the last of its devices: on a user's thread, where a leak fails the test, and not on the thread that
    /// ran kernels.
    fn drop(&mut self) {
        self.machine.join();
    }
}

// SAFETY: memory comes from the host's allocator, one allocation for each call, aligned to 256 bytes, and zeroed where
// it is mapped.
unsafe impl Driver for Simulator {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn process(&self) -> u64 {
        self.machine.id
    }

    fn peers(&self) -> Result<Vec<Peer>> {
        let peer = |ordinal: u32| {
            let can_access = self.can_access(ordinal)?;
            Ok(Peer { uuid: self.machine.uuid(ordinal), can_access })
        };
        (0..self.machine.devices).filter(|&ordinal| ordinal != self.properties.ordinal).map(peer).collect()
    }

    fn can_access(&self, peer: u32) -> Result<bool> {
        self.called("cuDeviceCanAccessPeer")?;
        Ok(self.machine.can_access(self.properties.ordinal, peer))
    }

    fn enable_access(&self, peer: u32) -> Result<()> {
        const CALL: &str = "cuCtxEnablePeerAccess";
        self.called(CALL)?;
        if !self.machine.can_access(self.properties.ordinal, peer) {
            return error(CALL, Code::PeerAccessUnsupported, "no access");
        }
        self.machine.state().access.insert((self.properties.ordinal, peer));
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        self.called("cuCtxSynchronize")?;
        self.machine.check_wait_for_device("cuCtxSynchronize", self.properties.ordinal)?;
        self.machine.wait("cuCtxSynchronize", |queue, _| queue.device == self.properties.ordinal)
    }

    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        let new = || PluginCompiler::new(self.machine.options.bug, self.machine.options.trace);
        let compiler = self.compiler.get_or_init(new).as_ref();
        compiler.map(|compiler| compiler as &dyn Compiler).map_err(Clone::clone)
    }
}

/// Returns an error for the release of an object that does not exist.
fn released<T>(call: &'static str, found: Option<T>) -> Result<()> {
    match found {
        Some(_) => Ok(()),
        None => error(call, Code::InvalidHandle, "no such handle"),
    }
}
