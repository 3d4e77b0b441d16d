//! Physical memory, apart from addresses. The simulator knows only memory that is mapped, so a handle is the address where the
//! simulator has put the memory, and whoever reserves addresses gets those of memory that waits for some.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use mscclpp_exec::cuda::{Mapping, SharedDriver};

use crate::code::{self, Code, said};
use crate::state;

/// Memory of one handle.
pub(crate) struct Physical {
    driver: SharedDriver,
    mapping: Mapping,
    pub(crate) handles: u32,
    pub(crate) reserved: bool,
}

static ALL: Mutex<BTreeMap<u64, Physical>> = Mutex::new(BTreeMap::new());

/// New memory of the current context; its handle.
pub(crate) fn add(mapping: Mapping) -> u64 {
    if let Ok(driver) = state::driver() {
        let memory = Physical { driver, mapping, handles: 1, reserved: false };
        ALL.lock().unwrap_or_else(PoisonError::into_inner).insert(mapping.address, memory);
    }
    mapping.address
}

/// Addresses for memory of so many bytes of the current context.
pub(crate) fn reserve(bytes: u64) -> Result<u64, Code> {
    let process = state::driver()?.process();
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let waits = |memory: &Physical| !memory.reserved && memory.mapping.bytes == bytes;
    let found = all.iter_mut().find(|(_, memory)| waits(memory) && memory.driver.process() == process);
    let (address, memory) = found.ok_or(code::INVALID_VALUE)?;
    memory.reserved = true;
    Ok(*address)
}

/// Changes what holds memory; without anything that does, it goes.
pub(crate) fn change(address: u64, change: impl FnOnce(&mut Physical)) -> Result<(), Code> {
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = all.get_mut(&address).ok_or(code::INVALID_VALUE)?;
    change(memory);
    if memory.handles == 0 && !memory.reserved {
        let gone = all.remove(&address);
        drop(all);
        if let Some(Physical { driver, mapping, .. }) = gone {
            driver.close(mapping).map_err(said)?;
        }
    }
    Ok(())
}
