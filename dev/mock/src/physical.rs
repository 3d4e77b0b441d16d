//! Physical memory, separate from addresses. The simulator has only mapped memory, so a handle is the address at which
//! the simulator has mapped the memory, and a reservation returns that of memory that is to be mapped: of the calling thread's,
//! if it has one, as other threads map their own memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use mscclpp_exec::cuda::{Mapping, SharedDriver};

use crate::code::{self, Code, said};
use crate::{pointers, state};

/// Memory of one handle.
struct Physical {
    driver: SharedDriver,
    mapping: Mapping,
    /// The thread that has created or imported it.
    thread: ThreadId,
    handles: u32,
    stage: Stage,
    /// Whether it can be exported to the hosts of a fabric.
    has_fabric: bool,
    /// Whether it was mapped: afterwards only handles keep it, and new addresses are those of other memory.
    was_mapped: bool,
}

/// Stage of a range of addresses: it moves from each stage to the next one, forward and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    Reserved,
    Mapped,
    /// Devices may use it.
    Open,
}

impl Stage {
    /// Moves to another stage; an error unless the present one is one of these.
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

/// Adds memory of the current context; returns its handle.
pub(crate) fn add(mapping: Mapping, has_fabric: bool) -> u64 {
    if let Ok(driver) = state::driver() {
        let (stage, was_mapped, thread) = (Stage::Free, false, thread::current().id());
        all().insert(mapping.address, Physical { driver, mapping, thread, handles: 1, stage, has_fabric, was_mapped });
    }
    mapping.address
}

/// Reserves addresses for memory of this number of bytes of the current context.
pub(crate) fn reserve(bytes: u64) -> Result<u64, Code> {
    let (process, thread) = (state::driver()?.process(), thread::current().id());
    let mut all = all();
    let waits = |memory: &Physical| memory.stage == Stage::Free && !memory.was_mapped && memory.mapping.bytes == bytes;
    let found = all.iter_mut().filter(|(_, memory)| waits(memory) && memory.driver.process() == process);
    let (address, memory) = found.min_by_key(|(_, memory)| memory.thread != thread).ok_or(code::INVALID_VALUE)?;
    memory.stage = Stage::Reserved;
    Ok(*address)
}

/// Changes the references to memory, which is freed with the last one.
fn change(address: u64, change: impl FnOnce(&mut Physical) -> Result<(), Code>) -> Result<(), Code> {
    let mut all = all();
    let memory = all.get_mut(&address).ok_or(code::INVALID_VALUE)?;
    change(memory)?;
    if memory.handles == 0 && memory.stage == Stage::Free {
        let gone = all.remove(&address);
        drop(all);
        if let Some(Physical { driver, mapping, .. }) = gone {
            driver.unmap(mapping).map_err(said)?;
            pointers::remove(mapping.address);
        }
    }
    Ok(())
}

/// Creates another handle.
pub(crate) fn retain(address: u64) -> Result<u64, Code> {
    // Only mapped memory can be retained.
    change(address, |memory| match memory.stage {
        Stage::Mapped | Stage::Open => {
            memory.handles += 1;
            Ok(())
        }
        _ => Err(code::INVALID_VALUE),
    })?;
    Ok(address)
}

/// Releases a handle.
pub(crate) fn release(address: u64) -> Result<(), Code> {
    change(address, |memory| {
        memory.handles = memory.handles.checked_sub(1).ok_or(code::INVALID_VALUE)?;
        Ok(())
    })
}

/// Returns whether memory can be exported to the hosts of a fabric.
pub(crate) fn has_fabric(address: u64) -> bool {
    all().get(&address).is_some_and(|memory| memory.has_fabric)
}

/// Returns whether it is a handle that was not released.
pub(crate) fn is_handle(address: u64) -> bool {
    all().get(&address).is_some_and(|memory| memory.handles > 0)
}

/// Moves the addresses of memory to the next stage; `None` if there is none, an error unless they have this number of
/// bytes.
pub(crate) fn go(address: u64, bytes: usize, from: &[Stage], to: Stage) -> Option<Result<(), Code>> {
    let whole = all().get(&address)?.mapping.bytes == bytes as u64;
    Some(if whole {
        change(address, |memory| {
            memory.was_mapped |= to == Stage::Mapped;
            memory.stage.go(from, to)
        })
    } else {
        Err(code::INVALID_VALUE)
    })
}
