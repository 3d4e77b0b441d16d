//! Memory that is allocated and freed in the order of streams.

use std::sync::{Mutex, PoisonError};

use mscclpp_exec::cuda::{Handle, SharedDriver};

use crate::calls::ask;
use crate::code::{self, Code, said};
use crate::{pointers, state};

/// Memory that is freed when a stream has completed what preceded the call.
struct Freed {
    driver: SharedDriver,
    event: Handle,
    address: u64,
}

static FREED: Mutex<Vec<Freed>> = Mutex::new(Vec::new());

/// Allocates memory of the current device. It may be used immediately, earlier than a driver guarantees.
pub(crate) fn alloc(bytes: u64) -> Result<u64, Code> {
    reclaim()?;
    ask(|driver| driver.alloc(bytes))
}

/// Frees memory once a stream has completed the work that was enqueued on it so far.
pub(crate) fn free(address: u64, stream: usize) -> Result<(), Code> {
    if pointers::find(address)?.base != address {
        return Err(code::INVALID_VALUE);
    }
    state::enqueue_on(stream)?;
    let driver = state::driver()?;
    let event = driver.create_event().map_err(said)?;
    driver.record(event, Handle(stream)).map_err(said)?;
    pointers::remove(address);
    FREED.lock().unwrap_or_else(PoisonError::into_inner).push(Freed { driver, event, address });
    reclaim()
}

/// Frees the memory whose streams have completed.
fn reclaim() -> Result<(), Code> {
    let mut freed = FREED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_complete = |freed: &mut Freed| freed.driver.is_done(freed.event).unwrap_or(true);
    let complete: Vec<Freed> = freed.extract_if(.., is_complete).collect();
    drop(freed);
    for Freed { driver, event, address } in complete {
        driver.destroy_event(event).and_then(|()| driver.free(address)).map_err(said)?;
    }
    Ok(())
}
