//! Memory shared between processes: files, which handles refer to.

use std::os::fd::AsFd;

use mscclpp_exec::cuda::calls::IpcMemory;
use mscclpp_exec::cuda::{Allocation, Export, Mapping, Properties};

use super::Simulator;
use crate::alloc::{from_handle, to_handle};
use crate::host::{Code, Result, error};

impl IpcMemory for Simulator {
    fn allocation(&self, address: u64) -> Result<Allocation> {
        self.called("cuMemGetAddressRange")?;
        self.called("cuPointerGetAttribute")?;
        let piece = self.machine.memory().piece(address);
        let found = piece.map(|(base, bytes, id)| Allocation { base, bytes, id });
        found.map_or_else(|| error("cuMemGetAddressRange", Code::InvalidValue, format!("{address:#x}")), Ok)
    }

    fn export(&self, base: u64) -> Result<Export> {
        const CALL: &str = "cuIpcGetMemHandle";
        self.called(CALL)?;
        let memory = self.machine.memory();
        let (Some((first, len, id)), Some(file)) = (memory.piece(base), memory.file(base)) else {
            return error(CALL, Code::InvalidValue, "no allocation of this process");
        };
        if first != base {
            return error(CALL, Code::InvalidValue, "not the first byte");
        }
        if self.machine.options.files || memory.is_shared(base) {
            let file = file.try_clone().or_else(|why| error(CALL, Code::Unknown, why.to_string()))?;
            return Ok(Export::File(file));
        }
        Ok(Export::Ipc(to_handle((std::process::id(), self.machine.id, id), file, len)))
    }

    fn import(&self, export: Export, bytes: u64) -> Result<Mapping> {
        const CALL: &str = "cuIpcOpenMemHandle";
        self.called(CALL)?;
        let (key, file, bytes, is_file) = match export {
            Export::Ipc(handle) => match from_handle(&handle) {
                Some((key, _, _)) if key.1 == self.machine.id => {
                    return error(CALL, Code::InvalidContext, "a handle of this process");
                }
                // A handle contains the length of its memory.
                Some((key, file, bytes)) => (key, file, bytes, false),
                None => return error(CALL, Code::InvalidValue, "no such handle"),
            },
            Export::File(file) => ((0, 0, self.machine.handle().0 as u64), file, bytes, true),
        };
        let address = self.machine.memory().import(key, file.as_fd(), bytes, self.properties.ordinal);
        let import = address.map(|address| Mapping { address, bytes, is_file });
        import.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping> {
        const CALL: &str = "cuMemCreate";
        self.called(CALL)?;
        let Properties { ordinal, memory, .. } = self.properties;
        let bytes = bytes.max(1).checked_next_multiple_of(1 << 16).unwrap_or(bytes);
        let address = if bytes > memory { None } else { self.machine.memory().alloc_shared(bytes, ordinal, peers) };
        let mapping = address.map(|address| Mapping { address, bytes, is_file: true });
        mapping.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn unmap(&self, import: Mapping) -> Result<()> {
        const CALL: &str = "cuIpcCloseMemHandle";
        let done = self.finish_work();
        self.called(CALL)?;
        let mut memory = self.machine.memory();
        if !memory.is_mapped(import.address) || !memory.free(import.address) {
            return error(CALL, Code::InvalidValue, "not mapped");
        }
        done
    }
}
