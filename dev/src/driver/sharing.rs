//! Memory shared between processes: files, which handles refer to.

use std::os::fd::AsFd;

use mscclpp_exec::cuda::calls::IpcMemory;
use mscclpp_exec::cuda::{Allocation, Export, Handle, Mapping, Properties};

use super::Simulator;
use crate::alloc::{from_handle, to_handle};
use crate::file::Place;
use crate::host::{Code, Result, error};

impl IpcMemory for Simulator {
    fn allocation(&self, address: u64) -> Result<Allocation> {
        self.called("cuMemGetAddressRange")?;
        self.called("cuPointerGetAttribute")?;
        let memory = self.machine.memory();
        let found = memory.piece(address).map(|(base, bytes, id)| {
            // Of an address, or of an allocation.
            let is_numbered_by_address = self.machine.options.equal_ids && memory.is_shared(base);
            Allocation { base, bytes, id: if is_numbered_by_address { base } else { id } }
        });
        found.map_or_else(|| error("cuMemGetAddressRange", Code::InvalidValue, format!("{address:#x}")), Ok)
    }

    fn retain(&self, base: u64) -> Result<Option<Handle>> {
        let memory = self.machine.memory();
        let piece = memory.piece(base).filter(|&(first, ..)| first == base && memory.is_shared(base));
        Ok(piece.map(|(.., id)| Handle(id as usize)))
    }

    fn release(&self, _: Handle) -> Result<()> {
        Ok(())
    }

    fn export(&self, base: u64) -> Result<Export> {
        let is_file = self.machine.options.files || self.machine.memory().is_shared(base);
        let call = if is_file { "cuMemExportToShareableHandle" } else { "cuIpcGetMemHandle" };
        self.called(call)?;
        let memory = self.machine.memory();
        let (Some((first, len, id)), Some(file)) = (memory.piece(base), memory.file(base)) else {
            return error(call, Code::InvalidValue, "no allocation of this process");
        };
        if first != base {
            return error(call, Code::InvalidValue, "not the first byte");
        }
        if is_file {
            let file = file.try_clone().or_else(|why| error(call, Code::Unknown, why.to_string()))?;
            return Ok(Export::File(file));
        }
        Ok(Export::Ipc(to_handle((std::process::id(), self.machine.id, id), file, len)))
    }

    fn export_fabric(&self, base: u64) -> Result<[u8; 64]> {
        const CALL: &str = "cuMemExportToShareableHandle";
        self.called(CALL)?;
        if self.machine.options.fabric.is_none() || self.machine.options.no_export {
            return error(CALL, Code::NotPermitted, "no access to the fabric");
        }
        let memory = self.machine.memory();
        match (memory.piece(base), memory.file(base)) {
            (Some((first, len, id)), Some(file)) if first == base && memory.is_shared(base) => {
                Ok(to_handle((std::process::id(), self.machine.id, id), file, len))
            }
            _ => error(CALL, Code::InvalidValue, "no memory to be shared"),
        }
    }

    fn import(&self, export: Export, bytes: u64) -> Result<Mapping> {
        let call = match &export {
            Export::Ipc(_) => "cuIpcOpenMemHandle",
            Export::File(_) | Export::Fabric(_) => "cuMemImportFromShareableHandle",
        };
        self.called(call)?;
        let is_fabric = matches!(export, Export::Fabric(_));
        if is_fabric && self.machine.options.no_import {
            return error(call, Code::NotPermitted, "no access to the fabric");
        }
        let (key, file, bytes, is_physical) = match export {
            Export::Fabric(handle) => match from_handle(&handle) {
                // A caller need not know the length.
                Some((_, file, len)) if bytes == 0 || len == bytes => {
                    ((0, 0, self.machine.handle().0 as u64), file, len, true)
                }
                _ => return error(call, Code::InvalidValue, "no such handle"),
            },
            Export::Ipc(handle) => match from_handle(&handle) {
                Some((key, _, _)) if key.1 == self.machine.id => {
                    return error(call, Code::InvalidContext, "a handle of this process");
                }
                // A handle contains the length of its memory.
                Some((key, file, bytes)) => (key, file, bytes, false),
                None => return error(call, Code::InvalidValue, "no such handle"),
            },
            Export::File(file) => ((0, 0, self.machine.handle().0 as u64), file, bytes, true),
        };
        let own = self.machine.place(self.properties.ordinal);
        let is_reached = |place: Place| if is_fabric { place.fabric == own.fabric } else { place.peers == own.peers };
        if !Place::of(&file).is_none_or(is_reached) {
            return error(call, Code::InvalidDevice, "no access to the device of this memory");
        }
        let address = self.machine.memory().import(key, file.as_fd(), bytes, self.properties.ordinal);
        let import = address.map(|address| Mapping { address, bytes, is_physical });
        import.map_or_else(|| error(call, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping> {
        const CALL: &str = "cuMemCreate";
        self.called(CALL)?;
        let Properties { ordinal, memory, .. } = self.properties;
        if let Some(peer) = peers.iter().find(|&&peer| !self.machine.can_access(ordinal, peer)) {
            return error("cuMemSetAccess", Code::InvalidDevice, format!("device {peer} has no access"));
        }
        let bytes = bytes.max(1).checked_next_multiple_of(1 << 16).unwrap_or(bytes);
        let place = self.machine.place(ordinal);
        let address =
            if bytes > memory { None } else { self.machine.memory().alloc_shared(bytes, ordinal, place, peers) };
        let mapping = address.map(|address| Mapping { address, bytes, is_physical: true });
        mapping.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn unmap(&self, import: Mapping) -> Result<()> {
        const CALL: &str = "cuIpcCloseMemHandle";
        // Physical memory is released by several calls of CUDA's, none of which is this one.
        if !import.is_physical {
            self.called(CALL)?;
        }
        let mut memory = self.machine.memory();
        if !memory.is_mapped(import.address) || !memory.free(import.address) {
            return error(CALL, Code::InvalidValue, "not mapped");
        }
        Ok(())
    }
}
