//! Devices of the mock driver: the executor calls CUDA's functions, and the simulator implements them.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use libloading::os::unix::{Library, Symbol};
use mscclpp_dev::Options;
use mscclpp_exec::cuda::{CudaUnavailable, Device};

/// `mock_cuda_options`: first device, number of devices, seed, one stop in this number of accesses, whether other hosts
/// take part, the call that fails and its number, number of devices with multicast objects, the patience in
/// milliseconds, number of devices with access to each other, the number of the first one on its host, the fabric or -1, and
/// what it refuses.
type SetOptions = unsafe extern "C" fn(u32, u32, u64, u32, bool, *const c_char, u64, u32, u64, u32, u32, i64, u32);

/// The library, and which of its devices are in use.
pub(crate) struct Driver {
    set_options: Symbol<SetOptions>,
    used: Mutex<[bool; 64]>,
    freed: Condvar,
}

/// Devices of one host, with their numbers reserved as long as this exists.
pub(crate) struct Mock {
    pub(crate) devices: Vec<Device>,
    _numbers: Numbers,
}

/// Numbers of devices, released when this is dropped.
struct Numbers(std::ops::Range<usize>, &'static Driver);

impl Drop for Numbers {
    fn drop(&mut self) {
        self.1.used.lock().unwrap_or_else(PoisonError::into_inner)[self.0.clone()].fill(false);
        self.1.freed.notify_all();
    }
}

/// Loads the mock driver in place of CUDA's. It stays loaded for the rest of the process, so there must not be a real
/// one.
///
/// # Errors
/// The reason why it cannot be loaded.
pub(crate) fn driver() -> Result<&'static Driver, String> {
    static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(Clone::clone)
}

/// Returns the path of the library: a dependency of this test, so it is in the same folder.
fn path() -> Result<PathBuf, String> {
    let name = format!("{}mscclpp_mock_cuda{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    Ok(std::env::current_exe().map_err(|error| error.to_string())?.with_file_name(name))
}

/// Links the library under the name of NVML in a folder of its own, which it returns.
///
/// # Errors
/// The reason why it cannot be linked.
pub(crate) fn link_nvml() -> Result<PathBuf, String> {
    let link = || -> std::io::Result<PathBuf> {
        let folder = PathBuf::from(concat!(env!("CARGO_TARGET_TMPDIR"), "/mock-nvml"));
        std::fs::create_dir_all(&folder)?;
        let path = path().map_err(std::io::Error::other)?;
        // Several tests link it at the same time.
        let own = folder.join(format!("link-{}-{:?}", std::process::id(), std::thread::current().id()));
        std::os::unix::fs::symlink(path, &own)?;
        std::fs::rename(own, folder.join("libnvidia-ml.so.1"))?;
        Ok(folder)
    };
    link().map_err(|error| format!("cannot link the mock of NVML: {error}"))
}

fn load() -> Result<Driver, String> {
    let beside = path()?;
    // SAFETY: this repository's own library, whose initialization has no effects.
    let library = unsafe { Library::new(&beside) }.map_err(|error| error.to_string())?;
    // SAFETY: a function of the library, with its type.
    let set_options = unsafe { library.get::<SetOptions>(b"mock_cuda_options") }.map_err(|error| error.to_string())?;
    // Later calls find it under CUDA's name.
    std::mem::forget(library);
    Ok(Driver { set_options, used: Mutex::new([false; 64]), freed: Condvar::new() })
}

impl Driver {
    /// Reserves devices of a host for one test. Of the options it uses the seed, where threads stop, whether others
    /// take part, what fails, the patience, and which devices have access. Waits as long as other tests use all devices.
    ///
    /// # Errors
    /// Those of [`Device::new`], including that of the call that is to fail, if it is one of those that open a device.
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
        let Options { seed, stop_at_one_of, others, multicast, patience, peers, first_device, .. } = options;
        let patience = patience.as_millis() as u64;
        let fabric = options.fabric.map_or(-1, i64::from);
        let no_fabric = u32::from(options.no_export) | u32::from(options.no_import) << 1;
        let set = &self.set_options;
        // SAFETY: the text exists during the call.
        unsafe {
            set(
                first,
                count,
                seed,
                stop_at_one_of,
                others,
                call,
                nth,
                multicast,
                patience,
                peers,
                first_device,
                fabric,
                no_fabric,
            );
        }
        let devices = numbers.0.clone().map(|number| Device::new(number as u32)).collect::<Result<_, _>>()?;
        Ok(Mock { devices, _numbers: numbers })
    }
}
