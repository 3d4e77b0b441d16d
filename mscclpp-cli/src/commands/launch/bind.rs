//! Which processors each rank runs on: those of the NUMA node of its GPU, divided among the ranks there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::machine::{core, gpus, numa_nodes, usable_cpus};

/// Returns the processors of each of `ranks` ranks on the machine whose `/sys` and `/proc` are in a folder. `visible`: the value of
/// `CUDA_VISIBLE_DEVICES`.
///
/// Rank i is near GPU i, or the ith visible one, modulo their number; without GPUs the ranks are divided among the NUMA nodes.
/// The ranks of a node divide its cores, of those that this process may use; if there are more ranks than cores, they share them.
pub(super) fn processors(root: &Path, ranks: usize, visible: Option<&str>) -> Vec<BTreeSet<u32>> {
    let usable = usable_cpus(root);
    let mut nodes: BTreeMap<u32, BTreeSet<u32>> = numa_nodes(root);
    nodes.values_mut().for_each(|cpus| cpus.retain(|cpu| usable.contains(cpu)));
    nodes.retain(|_, cpus| !cpus.is_empty());
    if nodes.is_empty() {
        nodes.insert(0, usable);
    }
    let gpus = visible_gpus(gpus(root).into_iter().map(|(_, node)| node).collect(), visible);
    let known: Vec<u32> = nodes.keys().copied().collect();
    let node_of = |rank: usize| {
        let of_gpu = gpus.get(rank % gpus.len().max(1)).filter(|node| nodes.contains_key(node));
        of_gpu.copied().unwrap_or(known[rank * known.len() / ranks.max(1)])
    };
    let of_ranks: Vec<u32> = (0..ranks).map(node_of).collect();
    let share = |rank: usize| {
        let node = of_ranks[rank];
        let mut cores: Vec<BTreeSet<u32>> = Vec::new();
        for &cpu in &nodes[&node] {
            if !cores.iter().any(|core| core.contains(&cpu)) {
                cores.push(&core(root, cpu) & &nodes[&node]);
            }
        }
        let on_node = |ranks: &[u32]| ranks.iter().filter(|of| **of == node).count();
        let (index, all) = (on_node(&of_ranks[..rank]), on_node(&of_ranks));
        let first = index * cores.len() / all;
        let end = ((index + 1) * cores.len() / all).max(first + 1);
        cores.iter().take(end).skip(first).flatten().copied().collect()
    };
    (0..ranks).map(share).collect()
}

/// Returns the NUMA nodes of the GPUs that a program sees. Names other than numbers are not looked up: then there are none.
fn visible_gpus(all: Vec<u32>, visible: Option<&str>) -> Vec<u32> {
    let Some(visible) = visible else { return all };
    let numbers: Option<Vec<usize>> = visible.split(',').map(|name| name.trim().parse().ok()).collect();
    let nodes: Option<Vec<u32>> =
        numbers.and_then(|numbers| numbers.into_iter().map(|number| all.get(number).copied()).collect());
    nodes.unwrap_or_default()
}

/// Returns `0-3,8` for processors.
pub(super) fn list(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let range = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fixture::Machine;

    fn lists(machine: &Machine, ranks: usize, visible: Option<&str>) -> Vec<String> {
        processors(&machine.0, ranks, visible).iter().map(list).collect()
    }

    #[test]
    fn ranks_are_near_their_gpus() {
        let machine = Machine::new("gpus", "0-7");
        assert_eq!(lists(&machine, 2, None), ["0-3", "4-7"]);
        assert_eq!(lists(&machine, 2, Some("1,0")), ["4-7", "0-3"]);
        assert_eq!(lists(&machine, 1, Some("1")), ["4-7"]);
        // Ranks 0 and 2 have the first GPU.
        assert_eq!(lists(&machine, 4, None), ["0-1", "4-5", "2-3", "6-7"]);
    }

    #[test]
    fn ranks_without_gpus_divide_the_nodes() {
        let machine = Machine::new("no-gpus", "0-7");
        std::fs::remove_dir_all(machine.0.join("sys/bus")).expect("the GPUs");
        assert_eq!(lists(&machine, 4, None), ["0-1", "2-3", "4-5", "6-7"]);
        // More ranks than cores share them.
        assert_eq!(lists(&machine, 16, None)[..3], ["0", "0", "1"]);
    }

    #[test]
    fn only_usable_processors_are_used_and_threads_of_a_core_stay_together() {
        let machine = Machine::new("cores", "0-3");
        assert_eq!(lists(&machine, 2, None), ["0-1", "2-3"], "rank 1's GPU has no processor");
        for cpu in 0..4 {
            let siblings = format!("{},{}", cpu % 2, cpu % 2 + 2);
            machine.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"), &siblings);
        }
        assert_eq!(lists(&machine, 2, None), ["0,2", "1,3"]);
    }

    #[test]
    fn a_machine_that_says_nothing_binds_nothing() {
        assert_eq!(processors(Path::new("/no such folder"), 2, None), [BTreeSet::new(), BTreeSet::new()]);
    }
}
