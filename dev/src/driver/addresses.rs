//! Ranges of addresses, to which physical memory is mapped again.

use mscclpp_exec::cuda::calls::Addresses;
use mscclpp_exec::cuda::{Export, Source};

use super::Simulator;
use crate::alloc::from_handle;
use crate::file::Place;
use crate::host::{Code, Result, error};

impl Addresses for Simulator {
    fn reserve(&self, bytes: u64) -> Result<u64> {
        const CALL: &str = "cuMemAddressReserve";
        self.called(CALL)?;
        let address = self.machine.memory().ranges.reserve(bytes);
        address.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes of addresses")), Ok)
    }

    fn map_into(&self, address: u64, memory: Source, bytes: u64) -> Result<()> {
        const CALL: &str = "cuMemMap";
        self.called(CALL)?;
        let own = self.machine.place(self.properties.ordinal);
        let file = match memory {
            Source::Own(base) => {
                let mut memory = self.machine.memory();
                let is_whole = memory.piece(base).is_some_and(|(first, len, _)| (first, len) == (base, bytes));
                let is_mapped = is_whole && memory.is_mapped(base) && memory.ranges.map_again(address, base, bytes);
                let refused = || error(CALL, Code::InvalidValue, format!("{bytes} bytes of {base:#x} at {address:#x}"));
                return if is_mapped { Ok(()) } else { refused() };
            }
            Source::Exported(Export::File(file)) => Some(file),
            Source::Exported(Export::Fabric(handle)) => from_handle(&handle).map(|(_, file, _)| file),
            Source::Exported(Export::Ipc(_)) => None,
        };
        let Some(file) = file else { return error(CALL, Code::InvalidValue, "no physical memory") };
        if Place::of(&file).is_some_and(|place| place.peers != own.peers) {
            return error(CALL, Code::InvalidDevice, "no access to the device of this memory");
        }
        let is_mapped = self.machine.memory().ranges.map_file(address, &file, bytes);
        if is_mapped { Ok(()) } else { error(CALL, Code::InvalidValue, format!("{bytes} bytes at {address:#x}")) }
    }

    fn unmap_from(&self, address: u64, bytes: u64) -> Result<()> {
        let is_unmapped = self.machine.memory().ranges.unmap(address, bytes);
        if is_unmapped { Ok(()) } else { error("cuMemUnmap", Code::InvalidValue, format!("{address:#x}")) }
    }

    fn free_range(&self, address: u64, bytes: u64) -> Result<()> {
        let is_freed = self.machine.memory().ranges.free(address, bytes);
        if is_freed { Ok(()) } else { error("cuMemAddressFree", Code::InvalidValue, format!("{address:#x}")) }
    }
}
