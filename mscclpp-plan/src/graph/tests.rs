use std::collections::BTreeMap;

use proptest::prelude::*;

use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::spec::AlgoSpec;

use super::*;
use crate::json::{ReadOptions, read};
use crate::stats::Stats;
use crate::types::ChannelKind;

/// Reads a document far enough to know that it is well-formed; how often each element begins.
fn elements(text: &str) -> Result<BTreeMap<String, usize>, String> {
    let (mut open, mut counts, mut rest) = (Vec::new(), BTreeMap::new(), text);
    let mut roots = 0;
    while let Some(start) = rest.find('<') {
        let before = &rest[..start];
        if before.contains('>') || (open.is_empty() && !before.trim().is_empty()) {
            return Err(format!("stray text {before:?}"));
        }
        entities(before)?;
        let end = rest.find('>').ok_or("a tag does not end")?;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("</{name}> closes nothing"));
            }
            continue;
        }
        let (tag, closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let quotes: Vec<_> = attributes.split('"').collect();
        if quotes.len() % 2 == 0 || quotes.iter().step_by(2).any(|part| !part.is_empty() && !part.ends_with('=')) {
            return Err(format!("bad attributes in <{tag}>"));
        }
        entities(attributes)?;
        *counts.entry(name.to_owned()).or_insert(0) += 1;
        roots += usize::from(open.is_empty());
        if !closed {
            open.push(name);
        }
    }
    match (open.is_empty(), roots, rest.trim().is_empty()) {
        (true, 1, true) => Ok(counts),
        _ => Err(format!("{open:?} open at the end, {roots} roots")),
    }
}

fn entities(text: &str) -> Result<(), String> {
    let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
    match text.split('&').skip(1).find(|rest| !known.iter().any(|name| rest.starts_with(name))) {
        Some(rest) => Err(format!("&{rest:?}")),
        None if text.chars().any(|c| c.is_control() && !"\t\n\r".contains(c)) => Err(format!("control in {text:?}")),
        None => Ok(()),
    }
}

/// The plan of a program. The core uses another build of this crate, so the plan goes through a file.
fn lowered(program: Program) -> PlanTree {
    let plan = lower(&program.finish().unwrap()).unwrap();
    read(&mscclpp_core::plan::json::write(&plan, Default::default()), ReadOptions::default()).unwrap().0
}

/// Every rank puts its chunk into every other one's output.
fn all_gather(name: &str, ranks: u32) -> PlanTree {
    let program = Program::new(AlgoSpec::new(name, mscclpp_core::collective::CollectiveKind::AllGather, ranks));
    for from in program.ranks() {
        for to in program.ranks().filter(|to| *to != from) {
            let channel = from.memory_channel(to);
            channel.put(to.output().chunk(from.id()), from.input().chunk(0), 0);
            channel.signal(0);
            channel.wait(0);
        }
    }
    lowered(program)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_tree_can_be_drawn(tree in crate::arbitrary::tree(), rank in 0_u32..4) {
        for graph in [Graph::plan(&tree), Graph::rank(&tree, rank)] {
            let text = graph.to_string();
            prop_assert!(elements(&text).is_ok(), "{:?}\n{text}", elements(&text));
        }
    }
}

#[test]
fn names_are_escaped() {
    let name = "a<b> & \"c\" 'd' ]]> \u{1}";
    let text = Graph::plan(&all_gather(name, 2)).to_string();
    elements(&text).unwrap();
    assert!(
        text.contains("a&lt;b&gt; &amp; &quot;c&quot; &apos;d&apos; ]]&gt; \u{fffd}: allgather of 2 ranks"),
        "{text}"
    );
}

#[test]
fn each_pair_of_ranks_has_an_arrow_and_few_have_labels() {
    for (ranks, labels) in [(2, 2), (3, 6), (4, 12), (16, 0)] {
        let text = Graph::plan(&all_gather("all", ranks)).to_string();
        let counts = elements(&text).unwrap();
        let arrows = (ranks * (ranks - 1)) as usize;
        // A line for each rank, one between two steps, and the head of the one color. Each rank waits after each put.
        assert_eq!(counts["path"], arrows + ranks as usize + (ranks as usize - 2) + 1, "{ranks} ranks: {text}");
        let title = "<title>put from rank 0 to rank 1: 1 transfer of 1 chunk, input[0] to output[0]</title>";
        assert!(text.contains(title), "{text}");
        assert!(text.contains(&format!("put: {arrows} transfers of {arrows} chunks")), "{text}");
        assert_eq!(text.matches("paint-order").count(), labels, "{ranks} ranks");
    }
}

/// A step ends where a thread block waits; ranks of a node are named together.
#[test]
fn steps_are_divided_by_waits() {
    let program = Program::new(AlgoSpec::new("ring", mscclpp_core::collective::CollectiveKind::AllGather, 4));
    let ring: Vec<_> = program.ranks().map(|rank| rank.memory_channel(program.rank((rank.id() + 1) % 4))).collect();
    let back: Vec<_> = program.ranks().map(|rank| rank.memory_channel(program.rank((rank.id() + 3) % 4))).collect();
    for step in 0..3 {
        for rank in program.ranks() {
            let (next, chunk) = (program.rank((rank.id() + 1) % 4), (rank.id() + 4 - step) % 4);
            match step {
                0 => ring[rank.id()].put(next.output().chunk(chunk), rank.input().chunk(0), 0),
                _ => ring[rank.id()].put(next.output().chunk(chunk), rank.output().chunk(chunk), 0),
            };
            ring[rank.id()].signal(0);
            back[rank.id()].wait(0);
        }
    }
    let mut plan = lowered(program);
    plan.ranks_per_node = 2;
    let moves = Moves::of(&plan, None);
    assert_eq!(moves.num_steps(), 3);
    let steps: Vec<_> = moves.between.keys().map(|(step, from, to, _)| (*step, *from, *to)).collect();
    let expected: Vec<_> = (0..3).flat_map(|step| (0..4).map(move |from| (step, from, (from + 1) % 4))).collect();
    assert_eq!(steps, expected);
    let text = Graph::plan(&plan).to_string();
    for said in ["step 3<", "node 1<"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// All ranks reduce a chunk each in a switch, and send the result back through it.
#[test]
fn switches_send_to_and_from_all_members() {
    let program = Program::new(AlgoSpec::new("switched", mscclpp_core::collective::CollectiveKind::AllReduce, 4));
    let switch = program.switch_channel(0..4, mscclpp_core::types::BufferKind::Input);
    for rank in program.ranks() {
        let chunk = rank.id();
        switch.at(rank).reduce(rank.input().chunk(chunk), chunk, 0);
        switch.at(rank).broadcast(chunk, rank.input().chunk(chunk), 0);
    }
    let plan = lowered(program);
    let text = Graph::plan(&plan).to_string();
    elements(&text).unwrap();
    for said in [
        "switch reduce from rank 0 to rank 2: 1 transfer of 1 chunk",
        "switch broadcast from rank 2 to rank 0: 1 transfer of 1 chunk",
        "switch reduce: 12 transfers of 12 chunks",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let one = Graph::rank(&plan, 2).to_string();
    assert!(one.contains("switch broadcast from rank 2 to rank 0: 1 transfer of 1 chunk"), "{one}");
}

#[test]
fn one_rank_has_its_own_arrows_only() {
    let plan = all_gather("all", 8);
    let counts = elements(&Graph::rank(&plan, 3).to_string()).unwrap();
    // Arrows, the lines of all ranks and between the steps, and the head.
    assert_eq!(counts["path"], 14 + 8 + 6 + 1);
    let none = Graph::rank(&plan, 99).to_string();
    assert!(elements(&none).is_ok() && none.contains("nothing moves between ranks"), "{none}");
}

#[test]
fn many_ranks_are_a_matrix_of_bounded_size() {
    let text = Graph::plan(&all_gather("all", 40)).to_string();
    let counts = elements(&text).unwrap();
    // A cell for each pair, the ground, the frame, the legend.
    assert_eq!(counts["rect"], 40 * 39 + 3);
    assert!(text.contains("<title>rank 0 to rank 39: put 1 transfer of 1 chunk</title>"), "{text}");
    let shared = Graph::plan(&all_gather("all", 130)).to_string();
    assert_eq!(elements(&shared).unwrap()["rect"], 44 * 44 - 1 + 3, "three ranks share a row, and the last is alone");
    assert!(shared.contains("<title>ranks 0 to 2 to rank 129: put 3 transfers of 3 chunks</title>"));
}

/// Where no switch is used, as much moves as the statistics count.
#[test]
fn amounts_are_those_of_the_statistics() {
    for plan in [all_gather("all", 5), read(include_str!("../pair.json"), ReadOptions::default()).unwrap().0] {
        let stats = Stats::sum(&Stats::of_plan(&plan));
        let chunks = |of: &BTreeMap<ChannelKind, crate::stats::Chunks>| {
            let all = of.iter().filter(|(kind, _)| **kind != ChannelKind::Switch);
            all.map(|(_, chunks)| chunks.plain + chunks.packets).sum::<f64>()
        };
        let moves = Moves::of(&plan, None);
        let moved: f64 = moves
            .between
            .iter()
            .filter(|((.., way), _)| !way.by_switch())
            .map(|(_, transfer)| transfer.amount.chunks)
            .sum();
        assert_eq!(chunks(&stats.sent) + chunks(&stats.fetched), moved, "{moves:?}");
        assert!(moved > 1.0);
    }
}
