//! Multicast objects. As with physical memory, the simulator has only mapped addresses: a reservation of some size
//! returns those of an object that is to be mapped, to which all of its members have bound memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::{Handle, SharedDriver};

use crate::code::{self, Code, said};
use crate::physical::Stage;
use crate::state::{self, DEVICES};

/// `CUmulticastObjectProp`.
#[repr(C)]
pub(crate) struct Wanted {
    pub(crate) devices: u32,
    pub(crate) bytes: usize,
    pub(crate) handle_types: u64,
    pub(crate) flags: u64,
}

/// A handle.
struct Object {
    driver: SharedDriver,
    handle: Handle,
    /// 0 if another process has created it: then only the simulator has the size.
    bytes: u64,
    /// Address of its range.
    address: Option<u64>,
}

/// First handle: no memory has such an address.
const FIRST: u64 = 1 << 60;

#[derive(Default)]
struct All {
    count: u64,
    objects: BTreeMap<u64, Object>,
    /// Reserved address ranges.
    windows: BTreeMap<u64, Window>,
}

/// A range of addresses.
struct Window {
    bytes: u64,
    driver: SharedDriver,
    stage: Stage,
}

static ALL: Mutex<All> = Mutex::new(All { count: 0, objects: BTreeMap::new(), windows: BTreeMap::new() });

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether a handle is that of an object.
pub(crate) fn is_one(handle: u64) -> bool {
    handle >= FIRST
}

/// Creates a handle for the simulator's handle of an object of this number of bytes, in the current context.
pub(crate) fn add(handle: Handle, bytes: u64) -> Result<u64, Code> {
    let driver = state::driver()?;
    let mut all = all();
    all.count += 1;
    let number = FIRST + all.count;
    all.objects.insert(number, Object { driver, handle, bytes, address: None });
    Ok(number)
}

/// Returns the simulator's handle.
pub(crate) fn handle(number: u64) -> Result<Handle, Code> {
    all().objects.get(&number).map(|object| object.handle).ok_or(code::INVALID_VALUE)
}

/// Releases a handle.
pub(crate) fn release(number: u64) -> Result<(), Code> {
    let object = all().objects.remove(&number).ok_or(code::INVALID_VALUE)?;
    object.driver.release_multicast(object.handle).map_err(said)
}

/// Reserves addresses for an object of this number of bytes of the current context.
pub(crate) fn reserve(bytes: u64) -> Result<u64, Code> {
    let driver = state::driver()?;
    let mut all = all();
    let All { objects, windows, .. } = &mut *all;
    let waits = |object: &Object| {
        object.address.is_none() && [bytes, 0].contains(&object.bytes) && object.driver.process() == driver.process()
    };
    let peers: Vec<u32> = (0..DEVICES as u32).collect();
    let mut result = Err(code::INVALID_VALUE);
    for object in objects.values_mut().filter(|object| waits(object)) {
        result = driver.map_multicast(object.handle, bytes, &peers).map_err(said);
        if let Ok(address) = result {
            object.address = Some(address);
            windows.insert(address, Window { bytes, driver, stage: Stage::Reserved });
            break;
        }
    }
    result
}

/// Returns whether these addresses are an object's.
pub(crate) fn is_of(address: u64, number: u64) -> bool {
    all().objects.get(&number).is_some_and(|object| object.address == Some(address))
}

/// Moves the addresses of an object to the next stage; `None` if they are no object's, an error unless they have this
/// number of bytes.
pub(crate) fn go(address: u64, bytes: usize, from: &[Stage], to: Stage) -> Option<Result<(), Code>> {
    let mut all = all();
    let window = all.windows.get_mut(&address)?;
    if window.bytes != bytes as u64 {
        return Some(Err(code::INVALID_VALUE));
    }
    let gone = window.stage.go(from, to);
    if gone.is_err() || to != Stage::Free {
        return Some(gone);
    }
    let Window { driver, .. } = all.windows.remove(&address)?;
    all.objects.values_mut().filter(|object| object.address == Some(address)).for_each(|object| object.address = None);
    drop(all);
    Some(driver.unmap_multicast(address, bytes as u64).map_err(said))
}
