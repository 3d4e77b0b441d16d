//! Multicast objects.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use mscclpp_exec::cuda::{Handle, calls};

use super::Simulator;
use crate::alloc::{from_handle, to_handle};
use crate::host::{Code, Result, error};
use crate::multicast::{self, Multicast};

impl Simulator {
    /// Returns a number that no other device has, and that is not 0.
    fn number(&self) -> u64 {
        (self.machine.id << 8) | (u64::from(self.properties.ordinal) + 1)
    }

    fn add_multicast(&self, object: Multicast) -> Handle {
        let handle = self.machine.handle();
        self.machine.state().multicasts.insert(handle.0, Arc::new(object));
        handle
    }

    fn multicast(&self, call: &'static str, object: Handle) -> Result<Arc<Multicast>> {
        let object = self.machine.state().multicasts.get(&object.0).cloned();
        object.map_or_else(|| error(call, Code::InvalidValue, "no such multicast object"), Ok)
    }
}

impl calls::Multicast for Simulator {
    fn multicast_granularity(&self, _: u32, _: u64) -> Result<u64> {
        self.called("cuMulticastGetGranularity")?;
        Ok(multicast::UNIT)
    }

    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle> {
        const CALL: &str = "cuMulticastCreate";
        self.called(CALL)?;
        if !self.properties.multicast || !bytes.is_multiple_of(multicast::UNIT) || bytes == 0 {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes"));
        }
        let object = Multicast::new(devices.into(), bytes);
        object.map_or_else(|| error(CALL, Code::OutOfMemory, "no file"), |object| Ok(self.add_multicast(object)))
    }

    fn export_multicast(&self, object: Handle) -> Result<OwnedFd> {
        const CALL: &str = "cuMemExportToShareableHandle";
        self.called(CALL)?;
        let file = self.multicast(CALL, object)?.file().try_clone();
        file.or_else(|why| error(CALL, Code::Unknown, why.to_string()))
    }

    fn import_multicast(&self, file: OwnedFd) -> Result<Handle> {
        const CALL: &str = "cuMemImportFromShareableHandle";
        self.called(CALL)?;
        let object = Multicast::open(file);
        object.map_or_else(|| error(CALL, Code::InvalidValue, "no object"), |object| Ok(self.add_multicast(object)))
    }

    fn export_multicast_fabric(&self, object: Handle) -> Result<[u8; 64]> {
        const CALL: &str = "cuMemExportToShareableHandle";
        self.called(CALL)?;
        if self.machine.options.fabric.is_none() || self.machine.options.no_export {
            return error(CALL, Code::NotPermitted, "no access to the fabric");
        }
        Ok(to_handle((std::process::id(), self.machine.id, 0), self.multicast(CALL, object)?.file(), 0))
    }

    fn import_multicast_fabric(&self, handle: [u8; 64]) -> Result<Handle> {
        const CALL: &str = "cuMemImportFromShareableHandle";
        self.called(CALL)?;
        if self.machine.options.fabric.is_none() || self.machine.options.no_import {
            return error(CALL, Code::NotPermitted, "no access to the fabric");
        }
        let object = from_handle(&handle).and_then(|(_, file, _)| Multicast::open(file));
        object.map_or_else(|| error(CALL, Code::InvalidValue, "no object"), |object| Ok(self.add_multicast(object)))
    }

    fn multicast_add_device(&self, object: Handle) -> Result<()> {
        const CALL: &str = "cuMulticastAddDevice";
        self.called(CALL)?;
        let added = self.properties.multicast && self.multicast(CALL, object)?.add(self.number());
        if added { Ok(()) } else { error(CALL, Code::InvalidValue, "no room for this device") }
    }

    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()> {
        const CALL: &str = "cuMulticastBindMem";
        self.called(CALL)?;
        let object = self.multicast(CALL, object)?;
        let memory = self.machine.memory();
        let (Some((first, len, id)), Some(file)) = (memory.piece(base), memory.file(base)) else {
            return error(CALL, Code::InvalidValue, "no memory of this process");
        };
        if first != base || bytes > len || bytes > object.bytes() || !bytes.is_multiple_of(multicast::UNIT) {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes of {len}"));
        }
        if !memory.is_shared(base) {
            return error(CALL, Code::InvalidValue, "not made to be shared");
        }
        let handle = to_handle((std::process::id(), self.machine.id, id), file, len);
        if object.bind(self.number(), &handle) {
            Ok(())
        } else {
            error(CALL, Code::InvalidValue, "not all devices were added, or there is some memory already")
        }
    }

    fn unbind_multicast(&self, object: Handle, _: u64) -> Result<()> {
        const CALL: &str = "cuMulticastUnbind";
        self.called(CALL)?;
        let unbound = self.multicast(CALL, object)?.unbind(self.number());
        if unbound { Ok(()) } else { error(CALL, Code::InvalidValue, "nothing bound") }
    }

    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64> {
        const CALL: &str = "cuMemMap";
        self.called(CALL)?;
        let object = self.multicast(CALL, object)?;
        if bytes != object.bytes() {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes of {}", object.bytes()));
        }
        let devices = [self.properties.ordinal].iter().chain(peers).copied().collect();
        let address = self.machine.memory().map_multicast(object, self.machine.id, devices);
        address.map_or_else(|| error(CALL, Code::InvalidValue, "not all members have bound memory"), Ok)
    }

    fn unmap_multicast(&self, address: u64, _: u64) -> Result<()> {
        const CALL: &str = "cuMemUnmap";
        self.called(CALL)?;
        if !self.machine.memory().unmap_multicast(address) {
            return error(CALL, Code::InvalidValue, "not mapped");
        }
        Ok(())
    }

    fn release_multicast(&self, object: Handle) -> Result<()> {
        const CALL: &str = "cuMemRelease";
        self.called(CALL)?;
        let released = self.machine.state().multicasts.remove(&object.0);
        if released.is_some() { Ok(()) } else { error(CALL, Code::InvalidValue, "no such object") }
    }
}
