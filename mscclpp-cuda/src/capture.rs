//! Captures of the current thread: what is rejected in one, and set-up, which a driver allows in a capture if the thread
//! asks for it.
//!
//! While a thread captures a stream, the driver rejects calls of the thread that allocate memory or need the host at once,
//! and the capture is lost; during a capture in CUDA's global mode this holds for all threads. These calls do not disturb
//! the capture if they concern other streams, so a thread may allow itself to make them: [`SetUp`] does. Waits for a
//! captured stream, or for a device that has one, are rejected even so.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::driver::{CaptureMode, Result, SharedDriver};
use crate::unused::Unused;
use mscclpp_base::error::Error;

thread_local! {
    /// Number of nested [`Stream::capture`](crate::device::stream::Stream::capture)s of this thread.
    static CAPTURES: Cell<u32> = const { Cell::new(0) };
    /// Number of nested [`SetUp`]s of this thread.
    static SET_UPS: Cell<u32> = const { Cell::new(0) };
    /// Whether a set-up of this thread is for a captured call.
    static IS_CAPTURED: Cell<bool> = const { Cell::new(false) };
}

/// Guard of a [`Stream::capture`](crate::device::stream::Stream::capture) of this thread.
pub(super) struct CaptureGuard(PhantomData<*const ()>);

impl CaptureGuard {
    pub(super) fn begin() -> Self {
        CAPTURES.set(CAPTURES.get() + 1);
        Self(PhantomData)
    }
}

impl Drop for CaptureGuard {
    fn drop(&mut self) {
        CAPTURES.set(CAPTURES.get() - 1);
    }
}

/// Guard of set-up by this thread: it makes calls that no capture otherwise allows, and waits for no work of a device
/// except its own.
///
/// Memory that is freed meanwhile is memory that no launch uses.
pub struct SetUp {
    driver: SharedDriver,
    before: CaptureMode,
    was_captured: bool,
    /// The mode is the thread's.
    _of_thread: PhantomData<*const ()>,
}

impl SetUp {
    /// Begins set-up; `is_captured`: for a call that is captured.
    ///
    /// # Errors
    /// Only those of every call of the driver.
    pub fn begin(driver: &SharedDriver, is_captured: bool) -> Result<Self> {
        let before = driver.exchange_capture_mode(CaptureMode::Relaxed)?;
        SET_UPS.set(SET_UPS.get() + 1);
        let was_captured = IS_CAPTURED.replace(is_captured || IS_CAPTURED.get());
        Ok(Self { driver: driver.clone(), before, was_captured, _of_thread: PhantomData })
    }
}

impl Drop for SetUp {
    fn drop(&mut self) {
        SET_UPS.set(SET_UPS.get() - 1);
        IS_CAPTURED.set(self.was_captured);
        // A destructor cannot report a failure.
        let _ = self.driver.exchange_capture_mode(self.before);
    }
}

/// Returns whether this thread is in set-up for a call that is captured.
pub fn is_captured_set_up() -> bool {
    IS_CAPTURED.get()
}

/// Waits until no work of a device uses memory that is freed next, and returns whether the memory may be freed. It does not
/// wait for memory that is known to be [unused](Unused), nor in set-up, which frees no other memory. The memory of a device
/// that has a captured stream must be leaked, since the driver does not allow the wait.
pub fn wait_for_users(driver: &SharedDriver) -> bool {
    SET_UPS.get() > 0 || Unused::is_set() || !driver.wait_idle().is_err_and(|error| error.is_capture_error())
}

/// Rejects what the driver would reject while this thread is in a [`Stream::capture`](crate::device::stream::Stream::capture), which would
/// invalidate the capture, except in set-up. In a capture that other code has begun the driver rejects it.
///
/// # Errors
/// [`Error::Capturing`].
pub fn refuse_in_capture(what: &str) -> std::result::Result<(), Error> {
    match CAPTURES.get() > 0 && SET_UPS.get() == 0 {
        true => Err(Error::Capturing { what: what.to_owned() }),
        false => Ok(()),
    }
}
