//! Physical memory, apart from addresses. The simulator knows only memory that is mapped, so a handle is the address where the
//! simulator has put the memory, and whoever reserves addresses gets those of memory that waits for some.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::{Mapping, SharedDriver};

use crate::code::{self, Code, said};
use crate::state;

/// Memory of one handle.
struct Physical {
    driver: SharedDriver,
    mapping: Mapping,
    handles: u32,
    stage: Stage,
}

/// What has become of a range of addresses: each stage follows from the one before, there and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    Reserved,
    Mapped,
    /// Devices may use it.
    Open,
}

impl Stage {
    /// Goes on to another stage; an error unless it is one of these.
    pub(crate) fn go(&mut self, from: &[Self], to: Self) -> Result<(), Code> {
        if !from.contains(self) {
            eprintln!("addresses that are {self:?} cannot become {to:?}");
            return Err(code::INVALID_VALUE);
        }
        *self = to;
        Ok(())
    }
}

static ALL: Mutex<BTreeMap<u64, Physical>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<u64, Physical>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// New memory of the current context; its handle.
pub(crate) fn add(mapping: Mapping) -> u64 {
    if let Ok(driver) = state::driver() {
        all().insert(mapping.address, Physical { driver, mapping, handles: 1, stage: Stage::Free });
    }
    mapping.address
}

/// Addresses for memory of so many bytes of the current context.
pub(crate) fn reserve(bytes: u64) -> Result<u64, Code> {
    let process = state::driver()?.process();
    let mut all = all();
    let waits = |memory: &Physical| memory.stage == Stage::Free && memory.mapping.bytes == bytes;
    let found = all.iter_mut().find(|(_, memory)| waits(memory) && memory.driver.process() == process);
    let (address, memory) = found.ok_or(code::INVALID_VALUE)?;
    memory.stage = Stage::Reserved;
    Ok(*address)
}

/// Changes what holds memory; without anything that does, it goes.
fn change(address: u64, change: impl FnOnce(&mut Physical) -> Result<(), Code>) -> Result<(), Code> {
    let mut all = all();
    let memory = all.get_mut(&address).ok_or(code::INVALID_VALUE)?;
    change(memory)?;
    if memory.handles == 0 && memory.stage == Stage::Free {
        let gone = all.remove(&address);
        drop(all);
        if let Some(Physical { driver, mapping, .. }) = gone {
            driver.unmap(mapping).map_err(said)?;
        }
    }
    Ok(())
}

/// Another handle.
pub(crate) fn retain(address: u64) -> Result<u64, Code> {
    // Only of what is mapped.
    change(address, |memory| match memory.stage {
        Stage::Mapped | Stage::Open => {
            memory.handles += 1;
            Ok(())
        }
        _ => Err(code::INVALID_VALUE),
    })?;
    Ok(address)
}

/// Gives a handle back.
pub(crate) fn release(address: u64) -> Result<(), Code> {
    change(address, |memory| {
        memory.handles = memory.handles.checked_sub(1).ok_or(code::INVALID_VALUE)?;
        Ok(())
    })
}

/// Whether it is a handle that was not given back.
pub(crate) fn is_handle(address: u64) -> bool {
    all().get(&address).is_some_and(|memory| memory.handles > 0)
}

/// The next stage of the addresses of memory; `None` if there is none, an error unless they have so many bytes.
pub(crate) fn go(address: u64, bytes: usize, from: &[Stage], to: Stage) -> Option<Result<(), Code>> {
    let whole = all().get(&address)?.mapping.bytes == bytes as u64;
    Some(if whole { change(address, |memory| memory.stage.go(from, to)) } else { Err(code::INVALID_VALUE) })
}
