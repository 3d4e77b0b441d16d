//! Pools of memory that is allocated in the order of streams: one per device.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::driver;
use crate::error::{self, Code};
use crate::runtime::runtime;

// Attributes: integers that say whether memory may be reused, then numbers of bytes.
const REUSE: std::ops::RangeInclusive<c_int> = 1..=3;
const RELEASE_THRESHOLD: c_int = 4;
const RESERVED: std::ops::RangeInclusive<c_int> = 5..=6;
const USED: std::ops::RangeInclusive<c_int> = 7..=8;

/// `cudaMemAccessDesc`: kind and number of the place, and access.
type Access = [c_int; 3];

/// Attributes that were set, by pool and number.
static SET: Mutex<BTreeMap<(usize, c_int), u64>> = Mutex::new(BTreeMap::new());

fn set() -> MutexGuard<'static, BTreeMap<(usize, c_int), u64>> {
    SET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the device of a pool.
fn device(pool: usize) -> Result<c_int, Code> {
    let device = pool.checked_sub(1).and_then(|device| c_int::try_from(device).ok());
    let device = device.filter(|device| driver::cuDeviceGetCount().is_ok_and(|count| *device < count));
    device.ok_or(error::INVALID_VALUE)
}

runtime! {
    fn cudaDeviceGetDefaultMemPool(pool: *mut usize, device: c_int) -> pool {
        if (0..driver::cuDeviceGetCount()?).contains(&device) { Ok(device as usize + 1) } else { Err(error::INVALID_DEVICE) }
    }

    // Freed memory is not kept, so there is none to release.
    fn cudaMemPoolTrimTo(pool: usize, _bytes: usize) { device(pool).map(|_| ()) }

    fn cudaMemPoolSetAttribute(pool: usize, attribute: c_int, value: *const c_void) {
        device(pool)?;
        let value = match attribute {
            _ if value.is_null() => return Err(error::INVALID_VALUE),
            // SAFETY: an integer of this size, as the caller guarantees.
            _ if REUSE.contains(&attribute) => unsafe { value.cast::<c_int>().read() as u64 },
            // SAFETY: as above.
            RELEASE_THRESHOLD => unsafe { value.cast::<u64>().read() },
            _ => return Err(error::INVALID_VALUE),
        };
        set().insert((pool, attribute), value);
        Ok(())
    }

    fn cudaMemPoolGetAttribute(pool: usize, attribute: c_int, value: *mut c_void) {
        device(pool)?;
        if value.is_null() {
            return Err(error::INVALID_VALUE);
        }
        let known = set().get(&(pool, attribute)).copied();
        if REUSE.contains(&attribute) {
            // SAFETY: an integer of this size, as the caller guarantees.
            unsafe { value.cast::<c_int>().write(known.map_or(1, |known| known as c_int)) };
            return Ok(());
        }
        let bytes = match attribute {
            RELEASE_THRESHOLD => known.unwrap_or(0),
            // The driver counts the memory of a device, of the pool and outside of it.
            _ if RESERVED.contains(&attribute) || USED.contains(&attribute) => {
                let (mut free, mut total) = (0, 0);
                // SAFETY: two variables.
                unsafe { driver::cuMemGetInfo_v2(&raw mut free, &raw mut total) }?;
                (total - free) as u64
            }
            _ => return Err(error::INVALID_VALUE),
        };
        // SAFETY: an integer of this size, as the caller guarantees.
        unsafe { value.cast::<u64>().write(bytes) };
        Ok(())
    }

    // All devices of a host reach the pools of the others.
    fn cudaMemPoolSetAccess(pool: usize, all: *const Access, count: usize) {
        let of = device(pool)?;
        // SAFETY: guaranteed by the caller.
        (0..count).map(|at| unsafe { all.add(at).read() }).try_for_each(|[_, peer, _]| {
            match peer == of || driver::cuDeviceCanAccessPeer(of, peer)? != 0 {
                true => Ok(()),
                false => Err(error::INVALID_DEVICE),
            }
        })
    }
}
