//! What a process uses.

use std::fs;
use std::thread;
use std::time::Duration;

/// Resources of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resources {
    descriptors: usize,
    threads: usize,
    /// Mappings, and those of them that are shared memory.
    maps: usize,
    segments: usize,
    /// Bytes of memory without files, which the system loads and evicts.
    bytes: u64,
}

impl Resources {
    /// Counts what the process uses now, without free memory that the allocator retains.
    pub(crate) fn now() -> Self {
        // SAFETY: it only returns free memory to the system.
        unsafe { libc::malloc_trim(0) };
        let entries = |folder: &str| fs::read_dir(folder).expect("Linux has it").count();
        let maps = fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let status = fs::read_to_string("/proc/self/status").expect("Linux has it");
        let kib = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a size");
            line.split_whitespace().next().and_then(|kib| kib.parse().ok()).expect("a number")
        };
        Self {
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            maps: maps.lines().count(),
            segments: maps.lines().filter(|line| line.contains("memfd:mscclpp")).count(),
            bytes: ["RssAnon:", "RssShmem:", "VmSwap:"].map(kib).iter().sum::<u64>() << 10,
        }
    }

    /// Checks that nothing has accumulated since. The memory and mappings that caches and allocators retain vary by a
    /// little, the memory by `slack` bytes. Threads that have ended remain for a moment, so it waits for them.
    pub(crate) fn check(&self, slack: u64, what: &str) {
        let mut now = Self::now();
        for _ in 0..200 {
            if now.threads <= self.threads && now.descriptors <= self.descriptors {
                break;
            }
            thread::sleep(Duration::from_millis(50));
            now = Self::now();
        }
        let context = format!("after {what}: {now:?}, before {self:?}");
        println!("{context}");
        assert!(now.descriptors <= self.descriptors && now.threads <= self.threads, "{context}");
        assert!(now.segments <= self.segments + self.segments / 4, "{context}");
        assert!(now.maps <= self.maps + self.maps / 4 + 64, "{context}");
        assert!(now.bytes <= self.bytes + slack, "{context}");
    }
}
