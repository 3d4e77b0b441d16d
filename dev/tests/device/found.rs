//! Plans that the finder finds for odd machines, of up to 16 ranks: packed trees, and the fastest ones between nodes.

use libtest_mimic::Failed;
use mscclpp_core::collective::CollectiveKind::{AllGather, AllReduce, ReduceScatter};
use mscclpp_core::plan::Plan;
use mscclpp_find::{Finder, Ranked, Request};
use mscclpp_predict::Machine;

use super::{Rig, Test, at, plans};

/// Bytes of the message that plans are found for.
const BYTES: u64 = 64 << 20;

/// Names of machines, ranks, ranks per node, and links as ends and bandwidth; those to `all:` are shared by all nodes.
type Links = &'static [(&'static str, &'static str, u32)];
const MACHINES: [(&str, u32, u32, Links); 5] = [
    ("five", 5, 5, &[("gpu", "switch", 450)]),
    ("islands", 8, 8, &[("gpu0-3", "left", 450), ("gpu4-7", "right", 450), ("left", "right", 25)]),
    ("slow", 4, 4, &[("gpu0-2", "switch", 400), ("gpu3", "switch", 200)]),
    ("dead", 4, 4, &[("gpu0", "gpu1", 25), ("gpu1", "gpu2", 25), ("gpu2", "gpu3", 25)]),
    ("nodes", 16, 8, &[("gpu", "switch", 450), ("gpu", "all:network", 50)]),
];

pub(crate) fn tests() -> Vec<Test> {
    let all = MACHINES.iter();
    all.map(|machine| Test::new(format!("plans::found::{}", machine.0), move |rig| of_machine(rig, machine))).collect()
}

fn described(&(name, ranks, per_node, links): &(&str, u32, u32, Links)) -> Result<Machine, Failed> {
    let mut text =
        format!("name = \"{name}\"\ndescription = \"a test\"\nranks = {ranks}\nranks_per_node = {per_node}\n");
    for (from, to, rate) in links {
        let (to, shared) = to.strip_prefix("all:").map_or((*to, false), |to| (to, true));
        text += &format!(
            "[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ngb_per_s = {rate}\nshared = {shared}\nsource = \"test\"\n"
        );
    }
    Ok(Machine::parse(&text)?)
}

fn of_machine(rig: &Rig, machine: &(&str, u32, u32, Links)) -> Result<(), Failed> {
    let described = described(machine)?;
    for kind in [AllGather, ReduceScatter, AllReduce] {
        let num_ranks = described.ranks;
        // So many thread blocks of all ranks are co-resident.
        let request = Request { kind, machine: &described, num_ranks, max_blocks: Some(16), in_place: None };
        let rankings = Finder::new(request).rank(&[BYTES], 50)?;
        let ranked = || rankings.iter().flat_map(|ranking| &ranking.ranked);
        let is_new = |found: &&Ranked| found.candidate.builtin().is_none();
        // The fastest one, if there are no trees.
        let found = ranked().find(is_new).or_else(|| ranked().next()).ok_or("no plan")?;
        let plan = Plan::new(found.candidate.plan());
        plans::check(rig, &plan).map_err(|failed| at(format!("{} {}", kind.name(), plan.name()), &failed))?;
    }
    Ok(())
}
