//! Devices, their primary contexts, and the current context of each thread.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use mscclpp_dev::{KernelProperties, Options, machine, simulator};
use mscclpp_exec::cuda::SharedDriver;

use crate::captures::Captures;
use crate::code::{self, Code};
use crate::streams::{self, Streams};

/// Maximum number of devices.
pub(crate) const DEVICES: usize = 64;

/// A device.
pub(crate) struct Device {
    options: Options,
    /// The first device of its host, and the number of devices of the host; 0: it is alone.
    machine: (usize, u32),
    /// Its primary context with its reference count; `None` if it is not retained.
    context: Option<(SharedDriver, usize)>,
    /// Its functions, by handle.
    functions: BTreeMap<usize, Function>,
    /// Code of the modules that were compiled for the simulator, by handle.
    codes: BTreeMap<usize, Vec<u8>>,
    /// Devices whose memory it was given access to.
    peers: BTreeSet<u32>,
    /// Bytes of the host that streams have still to store: other streams do not wait for them.
    stores: Vec<Store>,
    /// Streams on which other work was enqueued since they were last waited for.
    pending: BTreeSet<usize>,
    /// The default stream, and the streams that synchronize with it.
    pub(crate) streams: Streams,
    pub(crate) captures: Captures,
    /// Calls of the function that is to fail and that the simulator does not have.
    calls: u64,
}

/// Devices as the environment describes them, for programs that do not know that they are simulated.
struct Environment {
    /// `MSCCLPP_MOCK_DEVICES`: number of devices, all of one host. Otherwise there are [`DEVICES`], each of a separate one.
    devices: Option<u32>,
    /// `MSCCLPP_MOCK_MULTICAST`: number of these devices, from the first one, with multicast objects.
    multicast: u32,
    /// `MSCCLPP_MOCK_PEERS`: number of consecutive devices that can access one another's memory; otherwise all can.
    peers: u32,
    /// `MSCCLPP_MOCK_FABRIC`: number of the fabric that connects the devices with those of other hosts.
    fabric: Option<u32>,
    /// `MSCCLPP_MOCK_DRIVER`: the driver's version, 1000 times major plus 10 times minor; otherwise that of CUDA 13.0.
    driver: u32,
    /// `MSCCLPP_MOCK_OTHERS`: whether other processes take part, as [`Options::others`].
    others: bool,
    /// `MSCCLPP_MOCK_LEFT`: number of objects that other libraries leave, as [`Options::left`].
    left: u32,
    /// `MSCCLPP_MOCK_PATIENCE`: seconds without progress after which kernels count as stalled, as [`Options::patience`].
    patience: Option<u32>,
}

fn environment() -> &'static Environment {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
        Environment {
            devices: number("MSCCLPP_MOCK_DEVICES").filter(|devices| (1..=DEVICES as u32).contains(devices)),
            multicast: number("MSCCLPP_MOCK_MULTICAST").unwrap_or(0),
            peers: number("MSCCLPP_MOCK_PEERS").unwrap_or(0),
            fabric: number("MSCCLPP_MOCK_FABRIC"),
            driver: number("MSCCLPP_MOCK_DRIVER").unwrap_or(13_000),
            others: std::env::var_os("MSCCLPP_MOCK_OTHERS").is_some(),
            left: number("MSCCLPP_MOCK_LEFT").unwrap_or(0),
            patience: number("MSCCLPP_MOCK_PATIENCE"),
        }
    })
}

/// Returns the number of devices.
pub(crate) fn count() -> usize {
    environment().devices.map_or(DEVICES, |devices| devices as usize)
}

/// Returns the driver's version.
pub(crate) fn version() -> u32 {
    environment().driver
}

impl Default for Device {
    /// Returns a device whose options were not set.
    fn default() -> Self {
        let Environment { devices, multicast, peers, fabric, others, left, patience, .. } = *environment();
        let patience = patience.map(|seconds| std::time::Duration::from_secs(seconds.into()));
        Self {
            options: Options {
                others,
                multicast,
                peers,
                fabric,
                starts_at_launch: devices.is_some(),
                left: left as usize,
                patience: patience.unwrap_or(Options::default().patience),
                ..Options::default()
            },
            machine: (0, devices.unwrap_or(0)),
            context: None,
            functions: BTreeMap::new(),
            codes: BTreeMap::new(),
            peers: BTreeSet::new(),
            stores: Vec::new(),
            pending: BTreeSet::new(),
            streams: Streams::default(),
            captures: Captures::default(),
            calls: 0,
        }
    }
}

/// Bytes of the host that a stream has still to store at an address.
struct Store {
    stream: usize,
    to: u64,
    bytes: Vec<u8>,
}

/// A kernel.
#[derive(Clone, Copy)]
struct Function {
    module: usize,
    properties: KernelProperties,
    is_loaded: bool,
}

static DEVICES_OF_ALL: Mutex<BTreeMap<usize, Device>> = Mutex::new(BTreeMap::new());

fn devices() -> MutexGuard<'static, BTreeMap<usize, Device>> {
    DEVICES_OF_ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The device whose context is current.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
    /// The contexts below the current one, which are current again when those above them are popped.
    static BELOW: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
    /// The function that is to fail for the devices whose options this thread set last, the number of its calls without
    /// a device, and the number of the call that fails.
    static FAILING: Cell<Option<(&'static str, u64, u64)>> = const { Cell::new(None) };
}

/// Devices of hosts, created with the first of their contexts; each is taken when its own context is created.
static MACHINES: Mutex<BTreeMap<usize, Vec<Option<SharedDriver>>>> = Mutex::new(BTreeMap::new());

/// Sets the options of `count` devices that share a host, from the next creation of their contexts on. `failing`: the
/// call that fails, or null. `multicast`: number of devices, from the first one, with multicast objects. `patience_ms`,
/// `peers`, `first_device`: as in the simulator's options. `fabric`: number of the fabric, or -1; `no_fabric`: bit 0 and bit 1
/// for the simulator's `no_export` and `no_import`.
///
/// # Safety
/// `failing` must be null or a text.
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
    patience_ms: u64,
    peers: u32,
    first_device: u32,
    fabric: i64,
    no_fabric: u32,
) {
    let failing = match failing.is_null() {
        true => None,
        false => {
            // SAFETY: a text, as the caller guarantees.
            let call = unsafe { CStr::from_ptr(failing) }.to_string_lossy().into_owned();
            Some((&*call.leak(), nth))
        }
    };
    FAILING.set(failing.map(|(call, nth)| (call, 0, nth)));
    let patience = std::time::Duration::from_millis(patience_ms);
    let mut devices = devices();
    for number in first..first + count {
        let device = devices.entry(number as usize).or_default();
        let options = Options { seed, stop_at_one_of, others, failing, patience, ..Options::default() };
        let (no_export, no_import) = (no_fabric & 1 != 0, no_fabric & 2 != 0);
        let fabric = u32::try_from(fabric).ok();
        device.options = Options { multicast, peers, first_device, fabric, no_export, no_import, ..options };
        device.machine = (first as usize, count);
        device.calls = 0;
    }
}

/// Returns whether a device has multicast objects.
pub(crate) fn has_multicast(device: usize) -> bool {
    let mut devices = devices();
    let of = devices.entry(device).or_default();
    (device - of.machine.0) < of.options.multicast as usize
}

/// Returns the number of a device among those of another one's host, if it is one of them.
pub(crate) fn number_in_machine(device: usize, peer: usize) -> Option<u32> {
    let (first, count) = match devices().entry(device).or_default().machine {
        (_, 0) => (device, 1),
        machine => machine,
    };
    peer.checked_sub(first).and_then(|number| u32::try_from(number).ok()).filter(|&number| number < count)
}

/// Returns the fabric of a device.
pub(crate) fn fabric(device: usize) -> Option<u32> {
    devices().entry(device).or_default().options.fabric
}

/// Returns whether memory of a device can have handles of a fabric.
pub(crate) fn can_export_to_fabric(device: usize) -> bool {
    let mut devices = devices();
    let options = devices.entry(device).or_default().options;
    options.fabric.is_some() && !options.no_export
}

/// Returns the numbers of the devices that can access the memory of a device, itself included: those of its host that are
/// in its group.
pub(crate) fn devices_with_access(device: usize) -> Vec<u32> {
    let (options, (_, count)) = {
        let mut devices = devices();
        let of = devices.entry(device).or_default();
        (of.options, of.machine)
    };
    let own = number_in_machine(device, device).unwrap_or(0);
    let group = |number: u32| (options.first_device + number).checked_div(options.peers);
    (0..count.max(1)).filter(|&number| group(number) == group(own)).collect()
}

/// Opens a simulated device of its host.
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

/// Counts a call that the simulator does not have, and fails if it is the one that is to fail.
pub(crate) fn called(ordinal: usize, call: &str) -> Result<(), Code> {
    let mut devices = devices();
    // Devices of a host are counted together.
    let (first, count) = devices.entry(ordinal).or_default().machine;
    let device = devices.entry(if count == 0 { ordinal } else { first }).or_default();
    let Some((_, nth)) = device.options.failing.filter(|(name, _)| *name == call) else { return Ok(()) };
    device.calls += 1;
    if device.calls == nth { Err(code::UNKNOWN) } else { Ok(()) }
}

/// Counts a call that refers to no device; it fails for the thread that requested the failure.
pub(crate) fn called_anywhere(call: &str) -> Result<(), Code> {
    let Some((failing, calls, nth)) = FAILING.get().filter(|(name, ..)| *name == call) else { return Ok(()) };
    FAILING.set(Some((failing, calls + 1, nth)));
    if calls + 1 == nth { Err(code::UNKNOWN) } else { Ok(()) }
}

/// Counts a call of the current context.
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
    device.functions.clear();
    device.peers.clear();
    device.stores.clear();
    device.pending.clear();
    let default_stream = std::mem::take(&mut device.streams).default;
    device.captures = Captures::default();
    let first = device.machine.0;
    drop(devices);
    let destroyed = default_stream.map_or(Ok(()), |stream| driver.destroy_stream(stream).map_err(code::said));
    // Devices of its host whose contexts were never created.
    let unused = MACHINES.lock().unwrap_or_else(PoisonError::into_inner).remove(&first);
    drop(unused);
    // The destructor reports leaks.
    drop(driver);
    destroyed
}

/// Makes a device's context current, or, given 0, none. A driver identifies contexts by their address; here the address
/// is the device's number + 1.
pub(crate) fn enter(context: usize) -> Result<(), Code> {
    let Some(ordinal) = context.checked_sub(1) else {
        CURRENT.set(None);
        return Ok(());
    };
    called(ordinal, "cuCtxSetCurrent")?;
    CURRENT.set(Some(ordinal));
    driver().map(|_| ())
}

/// Makes a context current until it is popped.
pub(crate) fn push(pushed: usize) -> Result<(), Code> {
    let before = context();
    enter(pushed)?;
    BELOW.with_borrow_mut(|below| below.push(before));
    Ok(())
}

/// Makes the context current that was current before the current one was pushed, and returns the latter.
pub(crate) fn pop() -> Result<usize, Code> {
    let popped = context();
    let before = BELOW.with_borrow_mut(Vec::pop).filter(|_| popped != 0).ok_or(code::INVALID_CONTEXT)?;
    enter(before)?;
    Ok(popped)
}

/// Returns the device whose context is current.
pub(crate) fn current() -> Result<usize, Code> {
    CURRENT.get().ok_or(code::INVALID_CONTEXT)
}

/// Returns the current context; 0 for none.
pub(crate) fn context() -> usize {
    CURRENT.get().map_or(0, |device| device + 1)
}

/// Returns the simulator of the current context.
pub(crate) fn driver() -> Result<SharedDriver, Code> {
    driver_of(current()?)
}

/// Returns the simulator of a device's context.
pub(crate) fn driver_of(ordinal: usize) -> Result<SharedDriver, Code> {
    let devices = devices();
    let context = devices.get(&ordinal).and_then(|device| device.context.as_ref());
    context.map(|(driver, _)| driver.clone()).ok_or(code::INVALID_CONTEXT)
}

/// Applies a function to the state of the current device.
pub(crate) fn here<T>(change: impl FnOnce(&mut Device) -> T) -> Result<T, Code> {
    Ok(change(devices().entry(current()?).or_default()))
}

/// Records the properties of a function.
pub(crate) fn set_properties(module: usize, function: usize, properties: KernelProperties) -> Result<(), Code> {
    let known = Function { module, properties, is_loaded: false };
    here(|device| device.functions.insert(function, known)).map(|_| ())
}

/// Loads a function.
pub(crate) fn load(function: usize) -> Result<(), Code> {
    here(|device| device.functions.get_mut(&function).map(|known| known.is_loaded = true))?.ok_or(code::INVALID_HANDLE)
}

/// Records the code of a module.
pub(crate) fn set_code(module: usize, compiled: &[u8]) -> Result<(), Code> {
    here(|device| device.codes.insert(module, compiled.to_vec())).map(|_| ())
}

/// Returns the code of a module; none if it is one of the prebuilt ones.
pub(crate) fn code(module: usize) -> Result<Option<Vec<u8>>, Code> {
    here(|device| device.codes.get(&module).cloned())
}

/// Removes the code and the functions of a module.
pub(crate) fn unload(module: usize) -> Result<(), Code> {
    here(|device| {
        device.codes.remove(&module);
        device.functions.retain(|_, function| function.module != module);
    })
}

/// Returns the properties of a function. The function must be loaded: otherwise a driver would load it now, in
/// captures too, and perhaps wait for all pending work.
pub(crate) fn properties(function: usize) -> Result<KernelProperties, Code> {
    let found = here(|device| device.functions.get(&function).copied())?;
    found.filter(|known| known.is_loaded).map(|known| known.properties).ok_or(code::INVALID_HANDLE)
}

/// Records that the current device may access another one's memory.
pub(crate) fn connect(peer: u32) -> Result<(), Code> {
    match here(|device| device.peers.insert(peer))? {
        true => Ok(()),
        false => Err(code::PEER_ACCESS_ALREADY_ENABLED),
    }
}

/// Copies bytes of the host in the order of a stream. Until the stream is waited for, or has other work, the device reads other
/// bytes.
pub(crate) fn store_on(stream: usize, to: u64, bytes: &[u8]) -> Result<(), Code> {
    streams::order(stream)?;
    let others: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    driver()?.memcpy_to_device(to, &others).map_err(code::said)?;
    here(|device| device.stores.push(Store { stream, to, bytes: bytes.to_vec() }))
}

/// Executes the copies of the host's bytes on a stream; `None`: on all streams of the device.
pub(crate) fn store_now(stream: Option<usize>) -> Result<(), Code> {
    here(|device| {
        for store in device.stores.extract_if(.., |store| stream.is_none_or(|stream| stream == store.stream)) {
            // SAFETY: memory of the simulator, which has accepted the copy; it is not freed before this.
            unsafe { (store.to as *mut u8).copy_from(store.bytes.as_ptr(), store.bytes.len()) };
        }
    })
}

/// Records work on a stream other than copies of the host's bytes, which are executed before it.
pub(crate) fn enqueue_on(stream: usize) -> Result<(), Code> {
    streams::order(stream)?;
    store_now(Some(stream))?;
    here(|device| device.mark_pending(stream))
}

/// Returns whether work is pending on a stream, other than copies of the host's bytes.
pub(crate) fn has_work(stream: usize) -> Result<bool, Code> {
    here(|device| device.pending.contains(&stream))
}

impl Device {
    /// Records work on a stream other than copies of the host's bytes.
    pub(crate) fn mark_pending(&mut self, stream: usize) {
        self.pending.insert(stream);
    }

    /// Returns whether any work is pending on a stream.
    pub(crate) fn is_pending(&self, stream: usize) -> bool {
        self.pending.contains(&stream) || self.stores.iter().any(|store| store.stream == stream)
    }
}

/// Records that a stream was waited for; `None`: all of the device.
pub(crate) fn waited_for(stream: Option<usize>) -> Result<(), Code> {
    store_now(stream)?;
    here(|device| device.pending.retain(|&other| stream.is_some_and(|stream| stream != other)))
}
