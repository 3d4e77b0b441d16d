//! Checks whether the processors of this process are near the network adapters and GPUs of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::finding::{Finding, State};

const NAME: &str = "locality";

pub(super) fn finding() -> Finding {
    of(Path::new("/"))
}

/// Checks the machine whose `/sys` and `/proc` are in a folder.
fn of(root: &Path) -> Finding {
    let nodes = nodes(root);
    let usable = usable_cpus(root);
    let of_process: BTreeSet<u32> =
        nodes.iter().filter(|(_, cpus)| cpus.iter().any(|cpu| usable.contains(cpu))).map(|(&node, _)| node).collect();
    if nodes.len() < 2 || of_process.is_empty() {
        return Finding::good(NAME, "all processors are equally near to all devices");
    }
    let (adapters, gpus) = (adapters(root), gpus(root));
    let mut found = format!("processors of {}", list(&of_process));
    for (name, node) in adapters.iter().chain(&gpus) {
        found += &format!(", {name} at {node}");
    }
    let [of_adapters, of_gpus] =
        [&adapters, &gpus].map(|devices| devices.iter().map(|(_, node)| *node).collect::<BTreeSet<_>>());
    let is_near = |devices: &BTreeSet<u32>| devices.is_empty() || !devices.is_disjoint(&of_process);
    if of_process.len() == 1 && is_near(&of_adapters) && is_near(&of_gpus) {
        return Finding::good(NAME, found);
    }
    // A GPU moves data without processors, so its node decides; a rank without one is near its adapter.
    let node = of_gpus.first().or(of_adapters.first()).or(of_process.first()).copied().unwrap_or_default();
    let help = format!(
        "the threads of a rank run on the processors that its process may use: start each rank near its device, such as with \
         `numactl --cpunodebind={node} --membind={node}`{}",
        adapter_at(&adapters, node)
    );
    Finding::bad(NAME, State::Small, found, help)
}

/// Returns the advice to use the adapter of a node, if another node has one too.
fn adapter_at(adapters: &[(String, u32)], node: u32) -> String {
    let several = adapters.iter().any(|(_, other)| *other != node);
    match adapters.iter().find(|(_, of)| *of == node) {
        Some((name, _)) if several => format!("; the adapter near it is {name} (UCX: `UCX_NET_DEVICES`)"),
        _ => String::new(),
    }
}

/// Returns the processors of each NUMA node.
fn nodes(root: &Path) -> BTreeMap<u32, BTreeSet<u32>> {
    let nodes = entries(&root.join("sys/devices/system/node")).into_iter();
    let nodes = nodes.filter_map(|name| {
        let node = name.strip_prefix("node")?.parse().ok()?;
        let cpus = fs::read_to_string(root.join("sys/devices/system/node").join(&name).join("cpulist")).ok()?;
        Some((node, numbers(cpus.trim())))
    });
    nodes.collect()
}

/// Returns the processors that this process may use.
fn usable_cpus(root: &Path) -> BTreeSet<u32> {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    numbers(allowed.unwrap_or_default().trim())
}

/// Returns network interfaces and RDMA adapters with a NUMA node.
fn adapters(root: &Path) -> Vec<(String, u32)> {
    let of = |class: &str| {
        let class = root.join("sys/class").join(class);
        let with_node = |name: String| Some((name.clone(), node(&class.join(&name).join("device"))?));
        entries(&class).into_iter().filter_map(with_node).collect::<Vec<_>>()
    };
    [of("infiniband"), of("net")].concat()
}

/// Returns GPUs with a NUMA node, by PCI address.
fn gpus(root: &Path) -> Vec<(String, u32)> {
    let devices = root.join("sys/bus/pci/devices");
    let gpu = |name: String| {
        let device = devices.join(&name);
        // Class 03 is display controllers, with 0302 for those without a display.
        let is_gpu = fs::read_to_string(device.join("class")).is_ok_and(|class| class.starts_with("0x03"));
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
fn numbers(list: &str) -> BTreeSet<u32> {
    let range = |part: &str| -> Option<_> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some(first..=last.min(first.saturating_add(MAX_CPUS)))
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Returns `NUMA node 0` or `NUMA nodes 0, 1`.
fn list(nodes: &BTreeSet<u32>) -> String {
    let numbers: Vec<_> = nodes.iter().map(u32::to_string).collect();
    format!("NUMA node{} {}", if nodes.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of two nodes with an adapter and a GPU each, in a folder of its own.
    struct Machine(std::path::PathBuf);

    impl Machine {
        fn new(name: &str, cpus: &str) -> Self {
            let machine = Self(std::env::temp_dir().join(format!("mscclpp-locality-{}-{name}", std::process::id())));
            machine.write("proc/self/status", &format!("Name:\tmscclpp\nCpus_allowed_list:\t{cpus}\n"));
            for (node, cpus) in [(0, "0-3"), (1, "4-7")] {
                machine.write(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
                machine.write(&format!("sys/class/infiniband/mlx5_{node}/device/numa_node"), &node.to_string());
                machine.write(&format!("sys/bus/pci/devices/0000:{node}1:00.0/numa_node"), &node.to_string());
                machine.write(&format!("sys/bus/pci/devices/0000:{node}1:00.0/class"), "0x030200");
            }
            machine.write("sys/class/net/eth0/device/numa_node", "-1");
            machine
        }

        fn write(&self, path: &str, text: &str) {
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

    #[test]
    fn process_bound_to_a_node_with_devices_is_near() {
        let finding = of(&Machine::new("bound", "4-7").0);
        assert_eq!(finding.state, State::Good, "{finding:?}");
        let expected =
            "processors of NUMA node 1, mlx5_0 at 0, mlx5_1 at 1, GPU 0000:01:00.0 at 0, GPU 0000:11:00.0 at 1";
        assert_eq!(finding.found, expected);
    }

    #[test]
    fn process_of_several_nodes_is_advised_to_bind_its_ranks() {
        let finding = of(&Machine::new("unbound", "0-7").0);
        assert_eq!(finding.state, State::Small, "{finding:?}");
        let help = finding.help.expect("advice");
        assert!(help.contains("--cpunodebind=0") && help.contains("mlx5_0"), "{help}");
    }

    #[test]
    fn process_far_from_the_only_gpu_is_advised_to_run_near_it() {
        let machine = Machine::new("far", "0-3");
        fs::remove_dir_all(machine.0.join("sys/bus/pci/devices/0000:01:00.0")).expect("the GPU of node 0");
        let help = of(&machine.0).help.expect("advice");
        assert!(help.contains("--cpunodebind=1") && help.contains("mlx5_1"), "{help}");
    }

    #[test]
    fn machine_of_one_node_has_no_distances() {
        let machine = Machine::new("one", "0-7");
        fs::remove_dir_all(machine.0.join("sys/devices/system/node/node1")).expect("node 1");
        assert_eq!(of(&machine.0).state, State::Good);
        assert_eq!(of(Path::new("/no such folder")).state, State::Good);
    }

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-2,8"), BTreeSet::from([0, 1, 2, 8]));
        assert_eq!(numbers("3-1,x,"), BTreeSet::new());
        assert_eq!(numbers("0-4294967295").len(), MAX_CPUS as usize + 1);
    }
}
