//! Available memory of the machine.

use std::fmt;
use std::fs;
use std::path::Path;

use super::control_group::{self, ControlGroup};

/// Memory that a process can allocate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// In bytes.
    pub bytes: u64,
    /// The control group whose limit leaves no more; `None` if it is the machine's memory.
    pub group: Option<ControlGroup>,
}

impl fmt::Display for AvailableMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are available", self.bytes)?;
        match &self.group {
            Some(group) => {
                write!(f, " in control group {}, whose limit is {} bytes", group.folder.display(), group.limit)
            }
            None => Ok(()),
        }
    }
}

/// Returns the memory that can be allocated without swapping or exceeding the limit of a control group, such as a
/// container's; `None` if the system does not report it.
pub fn available_memory() -> Option<AvailableMemory> {
    available(Path::new("/"))
}

/// Returns the memory that the files below `root` report.
fn available(root: &Path) -> Option<AvailableMemory> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| meminfo(&text));
    let machine = machine.map(|bytes| AvailableMemory { bytes, group: None });
    machine.into_iter().chain(control_group::available(root)).min_by_key(|memory| memory.bytes)
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_in_bytes() {
        let text = "MemTotal:       24000000 kB\nMemFree:  1 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(meminfo(text), Some(23_000_000 * 1024));
        for junk in
            ["", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 1", "MemAvailable: 99999999999999999999 kB"]
        {
            assert_eq!(meminfo(junk), None, "{junk}");
        }
    }

    #[test]
    fn smallest_of_machine_and_groups_is_available() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a file's folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        assert_eq!(available(root.path()), None);
        write("proc/meminfo", "MemAvailable: 10 kB\n");
        write("proc/self/cgroup", "0::/a\n");
        write("proc/self/mountinfo", "30 23 0:26 / /groups rw - cgroup2 cgroup2 rw\n");
        write("groups/a/memory.max", "20000\n");
        write("groups/a/memory.current", "1000\n");
        assert_eq!(available(root.path()), Some(AvailableMemory { bytes: 10240, group: None }));
        write("groups/memory.max", "9000\n");
        write("groups/memory.current", "8000\n");
        let text = available(root.path()).expect("it is there").to_string();
        assert_eq!(text, "1000 bytes are available in control group /groups, whose limit is 9000 bytes");
    }
}
