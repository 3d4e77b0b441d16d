//! Memory of a device and of its host.

use mscclpp_exec::cuda::calls::Memory;
use mscclpp_exec::cuda::{Mapped, Properties};

use super::Simulator;
use crate::host::{Code, Result, error};

impl Simulator {
    /// Counts the wait for a stream of the driver's own, which has no work here.
    fn waited(&self) {
        if let Some(counts) = self.machine.options.calls {
            counts.count("cuStreamSynchronize");
        }
    }
}

impl Memory for Simulator {
    fn alloc(&self, bytes: u64) -> Result<u64> {
        self.called("cuMemAlloc")?;
        let Properties { ordinal, memory, .. } = self.properties;
        let shared = self.machine.options.others.then(|| self.machine.place(ordinal));
        let address = if bytes > memory { None } else { self.machine.memory().alloc(bytes, Some(ordinal), shared) };
        address.map_or_else(|| error("cuMemAlloc", Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn free(&self, address: u64) -> Result<()> {
        self.called("cuMemFree")?;
        let mut memory = self.machine.memory();
        if memory.is_mapped(address) || !memory.free(address) {
            return error("cuMemFree", Code::InvalidValue, "not allocated");
        }
        Ok(())
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        self.called("cuMemHostAlloc")?;
        let address = self.machine.memory().alloc(bytes, None, None);
        address.map_or_else(
            || error("cuMemHostAlloc", Code::OutOfMemory, format!("{bytes} bytes")),
            |address| Ok(Mapped { host: address as usize, device: address }),
        )
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        self.called("cuMemFreeHost")?;
        if !self.machine.memory().free(mapped.device) {
            return error("cuMemFreeHost", Code::InvalidValue, "not allocated");
        }
        Ok(())
    }

    fn initialize(&self, zeros: &[(u64, u64)], copies: &[(u64, &[u8])]) -> Result<()> {
        for &(address, bytes) in zeros.iter().filter(|zeros| zeros.1 > 0) {
            const CALL: &str = "cuMemsetD8Async";
            self.called(CALL)?;
            self.machine.check_unsafe(CALL)?;
            self.machine.check(CALL, address, bytes)?;
            let _held = self.machine.memory();
            // SAFETY: allocated, as just checked.
            unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        }
        for &(to, from) in copies.iter().filter(|copy| !copy.1.is_empty()) {
            self.called("cuMemcpyHtoDAsync")?;
            self.machine.check("cuMemcpyHtoDAsync", to, from.len() as u64)?;
            let _held = self.machine.memory();
            // SAFETY: allocated, as just checked, and disjoint from a slice that the caller holds.
            unsafe { (to as *mut u8).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        }
        self.waited();
        Ok(())
    }

    fn memcpy_to_host(&self, to: &mut [u8], from: u64) -> Result<()> {
        self.called("cuMemcpyDtoHAsync")?;
        self.machine.check("cuMemcpyDtoHAsync", from, to.len() as u64)?;
        let _held = self.machine.memory();
        // SAFETY: as in `initialize`.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, to.len()) };
        self.waited();
        Ok(())
    }
}
