//! What the system says about this machine: its processors, and which of them are near to which devices.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Returns the processors of each NUMA node.
pub(crate) fn numa_nodes(root: &Path) -> BTreeMap<u32, BTreeSet<u32>> {
    let nodes = entries(&root.join("sys/devices/system/node")).into_iter();
    let nodes = nodes.filter_map(|name| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        let cpus = fs::read_to_string(root.join("sys/devices/system/node").join(&name).join("cpulist")).ok()?;
        Some((node, numbers(cpus.trim())))
    });
    nodes.collect()
}

/// Returns the processors that this process may use.
pub(crate) fn usable_cpus(root: &Path) -> BTreeSet<u32> {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    numbers(allowed.unwrap_or_default().trim())
}

/// Returns the processors that are one core with a processor, itself included.
pub(crate) fn core(root: &Path, cpu: u32) -> BTreeSet<u32> {
    let siblings = root.join(format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    let mut core = numbers(fs::read_to_string(siblings).unwrap_or_default().trim());
    core.insert(cpu);
    core
}

/// Returns network interfaces and RDMA adapters with a NUMA node.
pub(crate) fn adapters(root: &Path) -> Vec<(String, u32)> {
    let of = |class: &str| {
        let class = root.join("sys/class").join(class);
        let with_node = |name: String| Some((name.clone(), node(&class.join(&name).join("device"))?));
        entries(&class).into_iter().filter_map(with_node).collect::<Vec<_>>()
    };
    [of("infiniband"), of("net")].concat()
}

/// PCI vendor of CUDA devices. Boards have display controllers of others.
const VENDOR: &str = "0x10de";

/// Returns CUDA devices with a NUMA node, in the order of their PCI addresses.
pub(crate) fn gpus(root: &Path) -> Vec<(String, u32)> {
    let devices = root.join("sys/bus/pci/devices");
    let gpu = |name: String| {
        let device = devices.join(&name);
        let says =
            |file: &str, begin: &str| fs::read_to_string(device.join(file)).is_ok_and(|it| it.starts_with(begin));
        // Class 03 is display controllers, with 0302 for those without a display.
        let is_gpu = says("class", "0x03") && says("vendor", VENDOR);
        is_gpu.then(|| Some((format!("GPU {name}"), node(&device)?))).flatten()
    };
    entries(&devices).into_iter().filter_map(gpu).collect()
}

/// Returns the NUMA node of a device; `None` if it is near to all, for which the system has -1.
fn node(device: &Path) -> Option<u32> {
    fs::read_to_string(device.join("numa_node")).ok()?.trim().parse().ok()
}

/// Returns the names in a folder, in order; none if there is no such folder.
fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Most processors of a range in a list.
const MAX_CPUS: u32 = 1 << 16;

/// Returns the numbers of a list such as `0-3,8`; ranges that are not understood have none.
pub(crate) fn numbers(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| -> Option<_> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(first.saturating_add(MAX_CPUS)))
    };
    list.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
pub(crate) mod fixture {
    use std::fs;

    /// A machine of two nodes with an adapter and a GPU each, in a folder of its own.
    pub(crate) struct Machine(pub(crate) std::path::PathBuf);

    impl Machine {
        pub(crate) fn new(name: &str, cpus: &str) -> Self {
            let machine = Self(std::env::temp_dir().join(format!("mscclpp-locality-{}-{name}", std::process::id())));
            machine.write("proc/self/status", &format!("Name:\tmscclpp\nCpus_allowed_list:\t{cpus}\n"));
            for (node, cpus) in [(0, "0-3"), (1, "4-7")] {
                machine.write(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
                machine.write(&format!("sys/class/infiniband/mlx5_{node}/device/numa_node"), &node.to_string());
                machine.write(&format!("sys/bus/pci/devices/0000:{node}1:00.0/numa_node"), &node.to_string());
                machine.write(&format!("sys/bus/pci/devices/0000:{node}1:00.0/class"), "0x030200");
                machine.write(&format!("sys/bus/pci/devices/0000:{node}1:00.0/vendor"), "0x10de");
            }
            // The display controller of the board.
            machine.write("sys/bus/pci/devices/0000:00:02.0/numa_node", "0");
            machine.write("sys/bus/pci/devices/0000:00:02.0/class", "0x030000");
            machine.write("sys/bus/pci/devices/0000:00:02.0/vendor", "0x1a03");
            machine.write("sys/class/net/eth0/device/numa_node", "-1");
            machine
        }

        pub(crate) fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-2,8"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!(numbers("3-1,x,"), BTreeSet::new());
        assert_eq!(numbers("0-4294967295").len(), MAX_CPUS as usize + 1);
    }
}
