//! Devices of the mock driver: the executor calls CUDA's functions, and the simulator answers.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, Symbol};
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{CudaUnavailable, Device};

/// `mock_cuda_options`: first device, number of devices, seed, one stop in so many accesses, whether other machines take part,
/// the call that fails and which of them, how many devices have multicast objects, the patience in milliseconds.
type SetOptions = unsafe extern "C" fn(u32, u32, u64, u32, bool, *const c_char, u64, u32, u64);

/// The library, and which of its devices are in use.
pub(crate) struct Driver {
    set_options: Symbol<SetOptions>,
    used: Mutex<[bool; 64]>,
    freed: Condvar,
}

/// Devices of one machine, and their numbers for as long.
pub(crate) struct Mock {
    pub(crate) devices: Vec<Device>,
    _numbers: Numbers,
}

/// Numbers of devices, given back when this is dropped.
struct Numbers(std::ops::Range<usize>, &'static Driver);

impl Drop for Numbers {
    fn drop(&mut self) {
        self.1.used.lock().unwrap_or_else(PoisonError::into_inner)[self.0.clone()].fill(false);
        self.1.freed.notify_all();
    }
}

/// Loads the mock driver in place of CUDA's. It stays for the rest of the process, so there must not be a real one.
///
/// # Errors
/// Says why it cannot be loaded.
pub(crate) fn driver() -> Result<&'static Driver, String> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Driver, String> {
    // A dependency of this test, so it lies beside it.
    let name = format!("{}mscclpp_mock_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let beside: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name(name);
    // SAFETY: our own library, which does nothing when it is loaded.
    let library = unsafe { Library::new(&beside) }.map_err(|error| error.to_string())?;
    // SAFETY: a function of it, with its type.
    let set_options = unsafe { library.get::<SetOptions>(b"mock_cuda_options") }.map_err(|error| error.to_string())?;
    // Later calls find it by CUDA's name.
    std::mem::forget(library);
    Ok(Driver { set_options, used: Mutex::new([false; 64]), freed: Condvar::new() })
}

impl Driver {
    /// Devices of a machine that nobody else uses. Of the options, the seed, where threads stop, whether
    /// others take part, what fails, and the patience. Waits as long as other tests have all devices.
    ///
    /// # Errors
    /// As [`Device::new`]. While the call that fails is one of those that open a device, that is the one.
    pub(crate) fn devices(&'static self, options: Options, count: usize) -> Result<Mock, CudaUnavailable> {
        let numbers = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let first = loop {
                match (0..=used.len() - count).find(|&first| !used[first..first + count].contains(&true)) {
                    Some(first) => break first,
                    None => used = self.freed.wait(used).unwrap_or_else(PoisonError::into_inner),
                }
            };
            used[first..first + count].fill(true);
            Numbers(first..first + count, self)
        };
        let failing = options.failing.and_then(|(call, _)| CString::new(call).ok());
        let (call, nth) =
            (failing.as_ref().map_or(std::ptr::null(), |call| call.as_ptr()), options.failing.map_or(0, |f| f.1));
        let (first, count) = (numbers.0.start as u32, count as u32);
        let Options { seed, stop_at_one_of, others, multicast, patience, .. } = options;
        let patience = patience.as_millis() as u64;
        // SAFETY: the text is there during the call.
        unsafe { (self.set_options)(first, count, seed, stop_at_one_of, others, call, nth, multicast, patience) };
        let devices = numbers.0.clone().map(|number| Device::new(number as u32)).collect::<Result<_, _>>()?;
        Ok(Mock { devices, _numbers: numbers })
    }
}
