//! Limits of the system other than its memory: which of them a request exceeds, and how to raise it.
//!
//! The system reports most of them as a lack of memory, so they are compared with what was requested.

use std::fmt;

/// A limit of the system that a request exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExceededLimit {
    /// The limit.
    pub limit: SystemLimit,
    /// Its value.
    pub allowed: u64,
    /// The smallest value with which the request would have succeeded, as far as this is known.
    pub required: u64,
}

/// A limit of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SystemLimit {
    /// `vm.max_map_count`: memory mappings of a process.
    Mappings,
    /// `RLIMIT_AS`: bytes of the address space of a process.
    AddressSpace,
    /// `RLIMIT_DATA`: bytes of the private memory of a process.
    PrivateMemory,
    /// `RLIMIT_FSIZE`: bytes of a file, also of one in memory.
    FileSize,
    /// `RLIMIT_NOFILE`: file descriptors of a process.
    Descriptors,
    /// `fs.file-max`: open files of all processes.
    OpenFiles,
}

impl SystemLimit {
    /// Returns its name and what it counts.
    const fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Mappings => ("vm.max_map_count", "memory mappings of a process"),
            Self::AddressSpace => ("RLIMIT_AS", "bytes of addresses of a process"),
            Self::PrivateMemory => ("RLIMIT_DATA", "bytes of private memory of a process"),
            Self::FileSize => ("RLIMIT_FSIZE", "bytes of a file"),
            Self::Descriptors => ("RLIMIT_NOFILE", "file descriptors of a process"),
            Self::OpenFiles => ("fs.file-max", "open files of all processes"),
        }
    }
}

impl ExceededLimit {
    /// Returns how to raise the limit.
    pub fn help(&self) -> String {
        let kib = self.required.div_ceil(1024);
        match self.limit {
            SystemLimit::Mappings => format!("raise it: `sysctl -w vm.max_map_count={}`", 2 * self.required),
            SystemLimit::AddressSpace => format!("raise it to at least {kib} KiB with `ulimit -v`"),
            SystemLimit::PrivateMemory => format!("raise it to at least {kib} KiB with `ulimit -d`"),
            SystemLimit::FileSize => format!("raise it to at least {kib} KiB with `ulimit -f`, which counts blocks"),
            SystemLimit::Descriptors => "raise it with `ulimit -n`".into(),
            SystemLimit::OpenFiles => format!("raise it: `sysctl -w fs.file-max={}`", 2 * self.required),
        }
    }
}

impl fmt::Display for ExceededLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = self.limit.text();
        write!(f, "{name} allows {} {what}, {} are required", self.allowed, self.required)
    }
}

#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;

    #[cfg(feature = "process")]
    use rustix::io::Errno;
    use rustix::process::{Resource, getrlimit};

    use super::{ExceededLimit, SystemLimit};

    /// How much more than was requested an allocator may map.
    const ALLOCATOR_BYTES: u64 = 64 << 10;

    fn exceeded(limit: SystemLimit, allowed: Option<u64>, required: Option<u64>) -> Option<ExceededLimit> {
        let (allowed, required) = (allowed?, required?);
        (required > allowed).then_some(ExceededLimit { limit, allowed, required })
    }

    /// Returns the limit that a file of a length exceeds. The system would end the process with a signal.
    pub fn exceeded_by_file(bytes: u64) -> Option<ExceededLimit> {
        exceeded(SystemLimit::FileSize, getrlimit(Resource::Fsize).current, Some(bytes))
    }

    /// Returns the limit of open files that an error is about.
    #[cfg(feature = "process")]
    pub fn exceeded_by_descriptor(errno: Errno) -> Option<ExceededLimit> {
        match errno {
            Errno::MFILE => {
                let allowed = getrlimit(Resource::Nofile).current?;
                exceeded(SystemLimit::Descriptors, Some(allowed), allowed.checked_add(1))
            }
            Errno::NFILE => {
                let text = fs::read_to_string("/proc/sys/fs/file-max").ok()?;
                let allowed = text.trim().parse::<u64>().ok()?;
                exceeded(SystemLimit::OpenFiles, Some(allowed), allowed.checked_add(1))
            }
            _ => None,
        }
    }

    /// Returns the limit that prevented a mapping of `bytes`, after the system has reported that it has no memory for it.
    /// `is_private`: no other process shares it.
    pub fn exceeded_by_mapping(bytes: u64, is_private: bool) -> Option<ExceededLimit> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let status = read("/proc/self/status").unwrap_or_default();
        let bytes = bytes.saturating_add(if is_private { ALLOCATOR_BYTES } else { 0 });
        let with = |key: &str| status_bytes(&status, key)?.checked_add(bytes);
        let mappings = || read("/proc/self/maps").map(|maps| maps.lines().count() as u64 + 1);
        let max_mappings = || read("/proc/sys/vm/max_map_count")?.trim().parse().ok();
        let address_space = exceeded(SystemLimit::AddressSpace, getrlimit(Resource::As).current, with("VmSize:"));
        let data = || exceeded(SystemLimit::PrivateMemory, getrlimit(Resource::Data).current, with("VmData:"));
        address_space
            .or_else(|| data().filter(|_| is_private))
            .or_else(|| exceeded(SystemLimit::Mappings, max_mappings(), mappings()))
    }

    /// Returns a size of `/proc/self/status`, in bytes.
    fn status_bytes(status: &str, key: &str) -> Option<u64> {
        let value = status.lines().find_map(|line| line.strip_prefix(key))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    }
}

/// Elsewhere no limit is known.
#[cfg(not(target_os = "linux"))]
pub fn exceeded_by_file(_: u64) -> Option<ExceededLimit> {
    None
}

/// Elsewhere no limit is known.
#[cfg(not(target_os = "linux"))]
pub fn exceeded_by_mapping(_: u64, _: bool) -> Option<ExceededLimit> {
    None
}
