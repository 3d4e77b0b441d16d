//! Devices, their primary contexts, and which of them a thread uses.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_exec::cuda::SharedDriver;
use mscclpp_kernels::{Options, machine, simulator};

use crate::code::{self, Code};

/// Number of devices.
pub(crate) const DEVICES: usize = 64;

/// A device.
#[derive(Default)]
struct Device {
    options: Options,
    /// The first device of its machine, and how many that has; 0: it is alone.
    machine: (usize, u32),
    /// Its primary context, while somebody retains it, and how many do.
    context: Option<(SharedDriver, usize)>,
    /// Bytes of kernels' arguments, by the function's handle.
    arguments: BTreeMap<usize, usize>,
    /// Calls of the function that is to fail and that the simulator does not know.
    calls: u64,
}

static DEVICES_OF_ALL: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

fn devices() -> MutexGuard<'static, BTreeMap<usize, Device>> {
    DEVICES_OF_ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The device whose context is current.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Devices of machines, made with the first of their contexts; each is taken when its own is made.
static MACHINES: Mutex<BTreeMap<usize, Vec<Option<SharedDriver>>>> = Mutex::new(BTreeMap::new());

/// Settings of `count` devices that share a machine, from the next time that their contexts are made. `failing`: the call that
/// fails, or null. `multicast`: how many of the first ones have multicast objects.
///
/// # Safety
/// `failing` is null or a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn mock_cuda_options(
    first: u32,
    count: u32,
    seed: u64,
    stop_at_one_of: u32,
    others: bool,
    failing: *const c_char,
    nth: u64,
    multicast: u32,
) {
    let failing = match failing.is_null() {
        true => None,
        false => {
            // SAFETY: a text, as the caller promises.
            let call = unsafe { CStr::from_ptr(failing) }.to_string_lossy().into_owned();
            Some((&*call.leak(), nth))
        }
    };
    let patience = std::time::Duration::from_secs(if failing.is_some() { 1 } else { 10 });
    let mut devices = devices();
    for number in first..first + count {
        let device = devices.entry(number as usize).or_default();
        device.options = Options { seed, stop_at_one_of, others, failing, patience, multicast, ..Options::default() };
        device.machine = (first as usize, count);
        device.calls = 0;
    }
}

/// Whether a device has multicast objects.
pub(crate) fn has_multicast(device: usize) -> bool {
    let devices = devices();
    devices.get(&device).is_some_and(|of| (device - of.machine.0) < of.options.multicast as usize)
}

/// The number of a device among those of another one's machine, if it is one of them.
pub(crate) fn number_in_machine(device: usize, peer: usize) -> Option<u32> {
    let (first, count) = devices().get(&device).map_or((device, 1), |device| device.machine);
    peer.checked_sub(first).and_then(|number| u32::try_from(number).ok()).filter(|&number| number < count)
}

/// A simulated device, of its machine.
fn open(ordinal: usize, options: Options, (first, count): (usize, u32)) -> Result<SharedDriver, Code> {
    if count < 2 {
        return simulator(options).map_err(|_| code::UNKNOWN);
    }
    let mut machines = MACHINES.lock().unwrap_or_else(PoisonError::into_inner);
    let slots = machines.entry(first).or_default();
    if slots.get(ordinal - first).is_none_or(Option::is_none) {
        *slots = machine(options, count).map_err(|_| code::UNKNOWN)?.into_iter().map(Some).collect();
    }
    slots[ordinal - first].take().ok_or(code::UNKNOWN)
}

/// Counts a call that the simulator does not know, and fails if it is that one's turn.
pub(crate) fn called(ordinal: usize, call: &str) -> Result<(), Code> {
    let mut devices = devices();
    // Devices of a machine count together.
    let (first, count) = devices.entry(ordinal).or_default().machine;
    let device = devices.entry(if count == 0 { ordinal } else { first }).or_default();
    let Some((_, nth)) = device.options.failing.filter(|(name, _)| *name == call) else { return Ok(()) };
    device.calls += 1;
    if device.calls == nth { Err(code::UNKNOWN) } else { Ok(()) }
}

/// The same, of the current context.
pub(crate) fn called_here(call: &str) -> Result<(), Code> {
    called(CURRENT.get().ok_or(code::INVALID_CONTEXT)?, call)
}

pub(crate) fn retain(ordinal: usize) -> Result<(), Code> {
    let mut devices = devices();
    let device = devices.entry(ordinal).or_default();
    match &mut device.context {
        Some((_, count)) => *count += 1,
        None => device.context = Some((open(ordinal, device.options, device.machine)?, 1)),
    }
    Ok(())
}

pub(crate) fn release(ordinal: usize) -> Result<(), Code> {
    let mut devices = devices();
    let device = devices.get_mut(&ordinal).ok_or(code::INVALID_DEVICE)?;
    let (driver, count) = device.context.take().ok_or(code::INVALID_CONTEXT)?;
    if count > 1 {
        device.context = Some((driver, count - 1));
        return Ok(());
    }
    device.arguments.clear();
    let first = device.machine.0;
    drop(devices);
    // Devices of its machine whose contexts were never made.
    let unused = MACHINES.lock().unwrap_or_else(PoisonError::into_inner).remove(&first);
    drop(unused);
    // Says what was left behind.
    drop(driver);
    Ok(())
}

/// Makes a device's context current. A driver knows contexts by their address; here the address is the device's number + 1.
pub(crate) fn enter(context: usize) -> Result<(), Code> {
    let ordinal = context.checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
    called(ordinal, "cuCtxSetCurrent")?;
    CURRENT.set(Some(ordinal));
    driver().map(|_| ())
}

/// The device whose context is current.
pub(crate) fn current() -> Result<usize, Code> {
    CURRENT.get().ok_or(code::INVALID_CONTEXT)
}

/// The simulator behind the current context.
pub(crate) fn driver() -> Result<SharedDriver, Code> {
    driver_of(current()?)
}

/// The simulator behind a device's context.
pub(crate) fn driver_of(ordinal: usize) -> Result<SharedDriver, Code> {
    let devices = devices();
    let context = devices.get(&ordinal).and_then(|device| device.context.as_ref());
    context.map(|(driver, _)| driver.clone()).ok_or(code::INVALID_CONTEXT)
}

/// Remembers what a function takes.
pub(crate) fn set_argument(function: usize, bytes: usize) {
    let ordinal = CURRENT.get().unwrap_or(DEVICES);
    devices().entry(ordinal).or_default().arguments.insert(function, bytes);
}

/// Bytes of a function's argument.
pub(crate) fn argument(function: usize) -> Result<usize, Code> {
    let ordinal = CURRENT.get().ok_or(code::INVALID_CONTEXT)?;
    devices().get(&ordinal).and_then(|device| device.arguments.get(&function).copied()).ok_or(code::INVALID_VALUE)
}
