//! Checks the drivers of devices and of fast networks.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use mscclpp_exec::cuda::jit::{Compiler, Nvrtc};
use mscclpp_exec::cuda::{CudaUnavailable, Device, Fabric, device_count};

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
    [Some(cuda()), peer_access(), fabric(), Some(compiler()), Some(verbs())].into_iter().flatten().collect()
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

/// Checks whether devices can access each other's memory; none if there are fewer than two.
fn peer_access() -> Option<Finding> {
    const NAME: &str = "CUDA peer access";
    let devices: Vec<Device> = (0..device_count().ok()?).filter_map(|number| Device::new(number).ok()).collect();
    let number = |uuid: [u8; 16]| devices.iter().position(|device| device.properties().uuid == uuid);
    let mut apart = Vec::new();
    for (one, device) in devices.iter().enumerate() {
        let peers = match device.peers() {
            Ok(peers) => peers,
            Err(reason) => {
                return Some(Finding::bad(NAME, State::Absent, reason.to_string(), "run `nvidia-smi topo -p2p r`"));
            }
        };
        let without = peers.iter().filter(|peer| !peer.can_access).filter_map(|peer| number(peer.uuid));
        apart.extend(without.map(|other| (one.min(other), one.max(other))));
    }
    apart.sort_unstable();
    apart.dedup();
    let count = devices.len();
    match apart.as_slice() {
        _ if count < 2 => None,
        [] => Some(Finding::good(NAME, format!("every two of {count} devices"))),
        [(one, other), ..] => {
            let pairs = count * (count - 1) / 2;
            let found = format!("not between {} of {pairs} pairs of devices, such as {one} and {other}", apart.len());
            let help =
                "data between these devices goes through memory of the host; `nvidia-smi topo -p2p r` has the reason";
            Some(Finding::bad(NAME, State::Small, found, help))
        }
    }
}

/// Reports the NVLink domains of devices; none if no device is in one.
fn fabric() -> Option<Finding> {
    const NAME: &str = "NVLink domain";
    let fabric = |number| Device::new(number).ok().and_then(|device| device.properties().fabric);
    let mut domains: Vec<Fabric> = (0..device_count().ok()?).filter_map(fabric).collect();
    domains.sort_unstable_by_key(|domain| (domain.cluster, domain.clique));
    domains.dedup();
    let name = |domain: &Fabric| {
        let cluster: String = domain.cluster.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("cluster {cluster}, clique {}", domain.clique)
    };
    let names: Vec<String> = domains.iter().map(name).collect();
    if names.is_empty() {
        return None;
    }
    let channels = fs::read_dir("/dev/nvidia-caps-imex-channels").is_ok_and(|mut channels| channels.next().is_some());
    let found = names.join("; ");
    Some(if channels {
        Finding::good(NAME, found)
    } else {
        let help = "set up IMEX, or devices of other hosts in the domain are reached through memory of the host";
        Finding::bad(NAME, State::Small, format!("{found}, but no IMEX channel"), help)
    })
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
        let help = "ranks on different hosts use TCP, or UCX over sockets with MSCCLPP_TRANSPORT=ucx";
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
