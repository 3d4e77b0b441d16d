//! Kernels of the program as algorithms, by `mscclppRegisterKernels` of `include/mscclpp.h`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{DeviceSlice, Executor, Stream};
use mscclpp_select::defaults::{Defaults, check_name};
use mscclpp_select::kernels::{NativeAlgorithm, NativeError};
use mscclpp_select::{Algorithm, Registry, RegistryError, Request};

use crate::abi::Handle;
use crate::call_info::{CallInfo, CallTexts};
use crate::entry;

/// The header's `mscclppLaunch_t`.
#[repr(C)]
pub(crate) struct LaunchInfo {
    size: usize,
    call: *const CallInfo,
    comm: Handle,
    input: *const c_void,
    output: *mut c_void,
    stream: *mut c_void,
    rank: c_int,
}

/// The header's `mscclppKernels_t`.
pub(crate) type Callback = unsafe extern "C" fn(*const LaunchInfo, *mut c_void) -> *const c_char;

/// Kernels that the program has registered.
#[derive(Clone, Copy)]
pub(crate) struct Registered {
    pub collective: CollectiveKind,
    pub callback: Callback,
    pub user: *mut c_void,
}

// SAFETY: the program states that its function may be called by any thread.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

/// By name.
static REGISTERED: Mutex<BTreeMap<String, Registered>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<String, Registered>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers kernels for communicators that are created afterwards.
///
/// # Errors
/// [`RegistryError`] for a name that is known or cannot be shown, or a collective that no call makes.
pub(crate) fn register(name: &str, kernels: Registered) -> Result<(), RegistryError> {
    check_name(name)?;
    let mut registered = lock();
    if registered.contains_key(name) || Defaults::current().plans().any(|(known, _)| known == name) {
        return Err(RegistryError::Duplicate { name: name.to_owned() });
    }
    Registry::builtin().add(Launcher { kernels, comm: 0, rank: 0 }.algorithm(name))?;
    registered.insert(name.to_owned(), kernels);
    Ok(())
}

/// Registers something else under a name.
///
/// # Errors
/// [`RegistryError::Duplicate`] if kernels have the name, and those of `register`.
pub(crate) fn unless_known<T>(
    name: &str,
    register: impl FnOnce() -> Result<T, RegistryError>,
) -> Result<T, RegistryError> {
    let registered = lock();
    match registered.contains_key(name) {
        true => Err(RegistryError::Duplicate { name: name.to_owned() }),
        false => register(),
    }
}

/// Removes kernels for communicators that are created afterwards. Returns whether there were any.
pub(crate) fn remove(name: &str) -> bool {
    lock().remove(name).is_some()
}

/// Returns the algorithms of a communicator for what is registered.
pub(crate) fn algorithms(comm: usize, rank: u32) -> impl Iterator<Item = Algorithm> {
    let registered = lock().clone();
    registered.into_iter().map(move |(name, kernels)| Launcher { kernels, comm, rank }.algorithm(&name))
}

/// Kernels in the registry of a communicator.
struct Launcher {
    kernels: Registered,
    /// The handle of the communicator.
    comm: usize,
    rank: u32,
}

/// What launches of one request have in common.
struct Prepared {
    texts: CallTexts,
    request: Request,
}

impl Launcher {
    fn algorithm(self, name: &str) -> Algorithm {
        Algorithm::kernels(name, self.kernels.collective, self)
    }
}

impl NativeAlgorithm for Launcher {
    type Kernels = ();
    type Context = Prepared;

    fn init(&self, _: &Executor) -> Result<(), NativeError> {
        Ok(())
    }

    fn context(
        &self,
        (): &(),
        _: &Executor,
        request: &Request,
        _: &[[DeviceSlice; 2]],
    ) -> Result<Prepared, NativeError> {
        Ok(Prepared { texts: CallTexts::new(request)?, request: *request })
    }

    unsafe fn launch(
        &self,
        (): &(),
        prepared: &mut Prepared,
        ranks: &[[DeviceSlice; 2]],
        stream: &Stream,
    ) -> Result<(), NativeError> {
        let [[first, second]] = ranks else { return Err("expected the memory of one rank".into()) };
        let Prepared { texts, request } = prepared;
        let [input_bytes, _] = request.input_and_output_bytes();
        let [input, output] = match (request.in_place, request.collective) {
            (false, _) => [first.address, second.address],
            // The rank's part of the memory of all.
            (true, CollectiveKind::AllGather) => [first.address + u64::from(self.rank) * input_bytes, first.address],
            (true, _) => [first.address; 2],
        };
        let call = texts.info(request, stream.is_capturing()?);
        let info = LaunchInfo {
            size: size_of::<LaunchInfo>(),
            call: &call,
            comm: self.comm as Handle,
            input: input as *const c_void,
            output: output as *mut c_void,
            stream: stream.raw().unwrap_or_default() as *mut c_void,
            rank: self.rank as c_int,
        };
        let _entered = stream.enter()?;
        let launching = entry::enter_launch();
        // SAFETY: the program passed a function of this type; what it gets is valid during the call. The memory is, as the caller guarantees,
        // until the work on the stream is complete.
        let failure = unsafe { (self.kernels.callback)(&info, self.kernels.user) };
        drop(launching);
        if failure.is_null() {
            return Ok(());
        }
        // SAFETY: the function returns null or a text that is valid until the thread's next call of it.
        Err(unsafe { CStr::from_ptr(failure) }.to_string_lossy().into_owned().into())
    }
}
