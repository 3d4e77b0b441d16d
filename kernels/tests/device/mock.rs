//! Devices of the mock driver: the executor calls CUDA's functions, and the simulator answers.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, Symbol};
use mscclpp_exec::cuda::{Device, Unavailable};
use mscclpp_kernels::Options;

/// `mock_cuda_options`: device, seed, one stop in so many accesses, the call that fails and which of them.
type SetOptions = unsafe extern "C" fn(u32, u64, u32, *const c_char, u64);

/// The library, and which of its devices are in use.
pub(crate) struct Driver {
    set_options: Symbol<SetOptions>,
    used: Mutex<[bool; 64]>,
}

/// A device, and its number for as long.
pub(crate) struct Mock {
    pub(crate) device: Device,
    _number: Number,
}

/// A device's number, given back when this is dropped.
struct Number(u32, &'static Driver);

impl Drop for Number {
    fn drop(&mut self) {
        self.1.used.lock().unwrap_or_else(PoisonError::into_inner)[self.0 as usize] = false;
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
    Ok(Driver { set_options, used: Mutex::new([false; 64]) })
}

impl Driver {
    /// A device that nobody else uses. Of the options, the seed, where threads stop and what fails.
    ///
    /// # Errors
    /// As [`Device::new`]. While the call that fails is one of those that open a device, that is the one.
    pub(crate) fn device(&'static self, options: Options) -> Result<Mock, Unavailable> {
        let number = {
            let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
            let free = used.iter().position(|used| !used).expect("fewer tests at a time than devices");
            used[free] = true;
            Number(free as u32, self)
        };
        let failing = options.failing.and_then(|(call, _)| CString::new(call).ok());
        let (call, nth) =
            (failing.as_ref().map_or(std::ptr::null(), |call| call.as_ptr()), options.failing.map_or(0, |f| f.1));
        // SAFETY: the text is there during the call.
        unsafe { (self.set_options)(number.0, options.seed, options.stop_at_one_of, call, nth) };
        Ok(Mock { device: Device::new(number.0)?, _number: number })
    }
}
