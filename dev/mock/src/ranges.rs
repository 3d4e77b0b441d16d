//! Reserved ranges of addresses, to which memory is mapped that may be mapped elsewhere too. They are told from those of one mapping
//! by their length, a multiple of [`UNIT`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::{SharedDriver, Source};

use crate::code::{self, Code, said};
use crate::physical::Stage;
use crate::state;

/// Unit of the lengths of ranges.
pub(crate) const UNIT: u64 = 1 << 32;

struct Range {
    driver: SharedDriver,
    bytes: u64,
    /// By address, the number of bytes and the stage of what is mapped.
    mapped: BTreeMap<u64, (u64, Stage)>,
}

static ALL: Mutex<BTreeMap<u64, Range>> = Mutex::new(BTreeMap::new());

fn all() -> MutexGuard<'static, BTreeMap<u64, Range>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls a function with the range that has an address; `None` if there is none.
fn with_range<T>(address: u64, call: impl FnOnce(&mut Range) -> T) -> Option<T> {
    let mut all = all();
    let (first, range) = all.range_mut(..=address).next_back()?;
    (address - first < range.bytes).then(|| call(range))
}

/// Reserves a range for the current context.
pub(crate) fn reserve(bytes: u64) -> Result<u64, Code> {
    let driver = state::driver()?;
    let address = driver.reserve(bytes).map_err(said)?;
    all().insert(address, Range { driver, bytes, mapped: BTreeMap::new() });
    Ok(address)
}

/// Frees a range; `None` if there is none at the address.
pub(crate) fn free(address: u64, bytes: u64) -> Option<Result<(), Code>> {
    let mut all = all();
    let driver = all.get(&address)?.driver.clone();
    // The simulator checks the length, and that nothing is mapped.
    let freed = driver.free_range(address, bytes).map_err(said);
    if freed.is_ok() {
        all.remove(&address);
    }
    Some(freed)
}

/// Maps memory that is mapped at `memory`; `None` if the address is of no range.
pub(crate) fn map(address: u64, bytes: u64, memory: u64) -> Option<Result<(), Code>> {
    with_range(address, |range| {
        range.driver.map_into(address, Source::Own(memory), bytes).map_err(said)?;
        range.mapped.insert(address, (bytes, Stage::Mapped));
        Ok(())
    })
}

/// Lets devices access what is mapped; `None` if the address is of no range.
pub(crate) fn open(address: u64, bytes: u64) -> Option<Result<(), Code>> {
    with_range(address, |range| match range.mapped.get_mut(&address) {
        Some((found, stage)) if *found == bytes => stage.go(&[Stage::Mapped, Stage::Open], Stage::Open),
        _ => Err(code::INVALID_VALUE),
    })
}

/// Unmaps what is mapped; `None` if the address is of no range.
pub(crate) fn unmap(address: u64, bytes: u64) -> Option<Result<(), Code>> {
    with_range(address, |range| {
        range.driver.unmap_from(address, bytes).map_err(said)?;
        range.mapped.remove(&address);
        Ok(())
    })
}
