//! What memory addresses belong to: the kind of memory, and its device.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::code::{self, Code};
use crate::state;

/// Kind of memory, with the value of `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Host = 1,
    Device = 2,
}

/// An allocation, or memory of the host that was registered.
#[derive(Clone, Copy)]
pub(crate) struct Range {
    pub(crate) base: u64,
    pub(crate) bytes: u64,
    pub(crate) kind: Kind,
    /// The device on which it was allocated or registered.
    pub(crate) device: usize,
    /// Whether the program allocated it and the driver only locks its pages.
    pub(crate) is_registered: bool,
}

static RANGES: Mutex<BTreeMap<u64, Range>> = Mutex::new(BTreeMap::new());

fn ranges() -> MutexGuard<'static, BTreeMap<u64, Range>> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records an allocation of the current device.
pub(crate) fn add(base: u64, bytes: u64, kind: Kind) -> Result<(), Code> {
    let device = state::current()?;
    ranges().insert(base, Range { base, bytes, kind, device, is_registered: false });
    Ok(())
}

/// Records memory of the host that is registered; an error if part of it is known.
pub(crate) fn register(base: u64, bytes: u64) -> Result<(), Code> {
    let (device, end) = (state::current()?, base.checked_add(bytes).ok_or(code::INVALID_VALUE)?);
    let mut ranges = ranges();
    let is_known = ranges.range(..end).next_back().is_some_and(|(_, last)| last.base + last.bytes > base);
    if is_known {
        return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    ranges.insert(base, Range { base, bytes, kind: Kind::Host, device, is_registered: true });
    Ok(())
}

/// Removes registered memory of the host.
pub(crate) fn unregister(base: u64) -> Result<(), Code> {
    let mut ranges = ranges();
    match ranges.get(&base) {
        Some(range) if range.is_registered => {
            ranges.remove(&base);
            Ok(())
        }
        _ => Err(code::HOST_MEMORY_NOT_REGISTERED),
    }
}

/// Removes an allocation that is freed.
pub(crate) fn remove(base: u64) {
    ranges().remove(&base);
}

/// Returns whether memory of the host is page-locked.
pub(crate) fn is_page_locked(address: u64) -> bool {
    let known = ranges().range(..=address).next_back().map(|(_, range)| *range);
    let is_in = |range: &Range| address - range.base < range.bytes.max(1);
    known.filter(is_in).is_some_and(|range| range.is_registered || matches!(range.kind, Kind::Host))
}

/// Returns the allocation or the registered memory that contains an address.
///
/// # Errors
/// `CUDA_ERROR_INVALID_VALUE` for other memory.
pub(crate) fn find(address: u64) -> Result<Range, Code> {
    let known = ranges().range(..=address).next_back().map(|(_, range)| *range);
    let known = known.filter(|range| address - range.base < range.bytes.max(1));
    if let Some(range) = known.filter(|range| range.is_registered) {
        return Ok(range);
    }
    // The simulator has the allocations, also those of other processes.
    let found = state::driver()?.allocation(address).map_err(|error| error.code)?;
    let (kind, device) = match known {
        Some(range) => (range.kind, range.device),
        None => (Kind::Device, state::current()?),
    };
    Ok(Range { base: found.base, bytes: found.bytes, kind, device, is_registered: false })
}

/// Returns the bytes that are allocated on a device.
pub(crate) fn used(device: usize) -> u64 {
    ranges()
        .values()
        .filter(|range| range.kind == Kind::Device && range.device == device)
        .map(|range| range.bytes)
        .sum()
}
