//! Checks whether the processors of this process are near the network adapters and GPUs of the machine.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::{Finding, State};
use crate::machine::{adapters, gpus, numa_nodes, usable_cpus};

const NAME: &str = "locality";

pub(super) fn finding() -> Finding {
    of(Path::new("/"))
}

/// Checks the machine whose `/sys` and `/proc` are in a folder.
fn of(root: &Path) -> Finding {
    let nodes = numa_nodes(root);
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
         `mscclpp launch --bind`, or `numactl --cpunodebind={node} --membind={node}`{}",
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

/// Returns `NUMA node 0` or `NUMA nodes 0, 1`.
fn list(nodes: &BTreeSet<u32>) -> String {
    let numbers: Vec<_> = nodes.iter().map(u32::to_string).collect();
    format!("NUMA node{} {}", if nodes.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::machine::fixture::Machine;

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
}
