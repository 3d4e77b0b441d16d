//! Checks the drivers of devices and of fast networks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use mscclpp_exec::cuda::jit::{Compiler, Nvrtc};
use mscclpp_exec::cuda::{CudaUnavailable, Device, device_count};

use super::finding::{Finding, State};

/// The library of CUDA's driver.
const LIBCUDA: &str = "libcuda.so.1";
/// Folders where systems install it, in addition to those of `LD_LIBRARY_PATH`.
const PLACES: [&str; 7] = [
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/lib/wsl/lib",
    "/usr/local/nvidia/lib64",
    "/usr/local/cuda/compat",
];

pub(super) fn findings() -> Vec<Finding> {
    vec![cuda(), compiler(), verbs()]
}

/// Checks CUDA: a library, and its kernel module.
pub(super) fn cuda() -> Finding {
    const NAME: &str = "CUDA driver";
    match device_count() {
        Ok(count) => {
            let devices = (0..count).map(|number| match Device::new(number) {
                Ok(device) => device.properties().to_string(),
                Err(reason) => reason.to_string(),
            });
            // Usually all devices are equal.
            let devices: Vec<_> = devices.collect();
            let alike = devices.chunk_by(|a, b| a == b).map(|alike| match alike.len() {
                1 => alike[0].clone(),
                count => format!("{count} x {}", alike[0]),
            });
            return Finding::good(NAME, alike.collect::<Vec<_>>().join("; "));
        }
        // The code below reports which part is missing.
        Err(CudaUnavailable::NoDriver) => {}
        Err(reason) => {
            let help = "plans run on the CPU until this is fixed";
            return Finding::bad(NAME, State::Absent, reason.to_string(), help);
        }
    }
    let library = library(LIBCUDA, env::var_os("LD_LIBRARY_PATH"));
    let version = fs::read_to_string("/proc/driver/nvidia/version").ok();
    let module = version.as_deref().and_then(|text| text.lines().next()).map(str::trim);
    match (library, module) {
        (Some(at), Some(module)) => {
            let help = format!(
                "add the directory of {LIBCUDA} to LD_LIBRARY_PATH, and check that it is built for this machine"
            );
            Finding::bad(NAME, State::Absent, format!("{}, {module}, but it cannot be loaded", at.display()), help)
        }
        (Some(at), None) => {
            let help = "load the kernel module `nvidia`, or pass the devices to the container: `docker run --gpus all`";
            Finding::bad(NAME, State::Absent, format!("{}, but no kernel module", at.display()), help)
        }
        (None, Some(module)) => {
            let help = format!("install {LIBCUDA}, or add its directory to LD_LIBRARY_PATH");
            Finding::bad(NAME, State::Absent, format!("{module}, but no {LIBCUDA}"), help)
        }
        (None, None) => {
            let help = "plans run on the CPU; install a driver to run on a device";
            Finding::bad(NAME, State::Absent, format!("no {LIBCUDA}, no kernel module"), help)
        }
    }
}

/// Checks the run-time compiler of device code.
fn compiler() -> Finding {
    const NAME: &str = "CUDA compiler";
    // The compiler's answer does not depend on the device, unless the device is outside the range that it supports.
    let capability = Device::new(0).map_or((9, 0), |device| device.properties().capability);
    match Nvrtc::new(capability) {
        Ok(compiler) => Finding::good(NAME, compiler.identity().to_owned()),
        Err(reason) => {
            let help = "required only for specialized kernels, user-supplied kernels, and drivers before CUDA 13.0";
            Finding::bad(NAME, State::Absent, reason.to_string(), help)
        }
    }
}

/// Returns the path at which the loader would find a library.
fn library(name: &str, search: Option<std::ffi::OsString>) -> Option<PathBuf> {
    let own = search.iter().flat_map(env::split_paths).collect::<Vec<_>>();
    let all = own.into_iter().chain(PLACES.iter().map(PathBuf::from));
    all.map(|directory| directory.join(name)).find(|path| path.is_file())
}

/// Checks for network cards with remote direct memory access.
fn verbs() -> Finding {
    const NAME: &str = "InfiniBand";
    let devices = cards(Path::new("/sys/class/infiniband"));
    if devices.is_empty() {
        let help = "ranks on different hosts use TCP";
        return Finding::bad(NAME, State::Absent, "no device", help);
    }
    Finding::good(NAME, devices.join(", "))
}

fn cards(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_where_the_loader_looks_first() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(library("libnosuch.so.9", Some(directory.path().into())), None);
        let at = directory.path().join("libnosuch.so.9");
        fs::write(&at, "").unwrap();
        assert_eq!(library("libnosuch.so.9", Some(directory.path().into())), Some(at));
    }

    #[test]
    fn cards_are_listed_by_name() {
        let directory = tempfile::tempdir().unwrap();
        assert!(cards(&directory.path().join("none")).is_empty());
        for name in ["mlx5_1", "mlx5_0"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        assert_eq!(cards(directory.path()), ["mlx5_0", "mlx5_1"]);
    }
}
