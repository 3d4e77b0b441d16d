//! Plans whose sizes are counts: what the checks find is compared with the checks and schedules of the plan at single tables of counts.

use std::collections::BTreeMap;

use mscclpp_core::check::check;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::{Count, Op, OpKind, PlanTree, Slice};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;
use mscclpp_fuzz::{ScheduleFuzzer, at_counts};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Mutants of each plan.
fn mutants() -> u64 {
    std::env::var("MSCCLPP_COUNT_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(150)
}

/// Returns the plans to test, with their names.
fn plans(ranks: u32) -> Vec<(String, PlanTree)> {
    // On one node, and on nodes of one rank, between which there are ports.
    let mut plans = Vec::new();
    for per_node in [ranks, 1] {
        let algorithms = mscclpp_algorithms::counted().iter();
        for algorithm in algorithms.filter(|algorithm| algorithm.supports(ranks, per_node)) {
            let plan = algorithm.compile_tree(algorithm.spec(ranks, per_node), &[]).expect("a right plan");
            plans.push((format!("{}, {per_node} per node", algorithm.name()), plan));
        }
    }
    plans.push(("staged".to_owned(), staged(ranks)));
    plans.push(("divided".to_owned(), divided(ranks)));
    plans
}

/// Every rank puts what it has for each rank into scratch of that rank, which copies it to its output.
fn staged(ranks: u32) -> PlanTree {
    let program = Program::new(AlgoSpec::new("staged", CollectiveKind::AllToAllV, ranks));
    let p = &program;
    let all = p.num_ranks();
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(all)).collect();
    for rank in p.ranks() {
        let id = rank.id();
        rank.exchange_counts(0);
        rank.copy_counted(rank.output().chunk(id), rank.input().chunk(id), rank, rank, 0);
        let channels = rank.memory_channels((1..all).map(|step| (id + step) % all));
        for channel in &channels {
            let peer = channel.peer();
            let to = scratch[peer.id()].chunk(id);
            channel.put_counted(to, rank.input().chunk(peer.id()), rank, peer, 0);
        }
        channels.handshake(0).sync(BlockSync::Both);
        for channel in &channels {
            let peer = channel.peer();
            rank.copy_counted(rank.output().chunk(peer.id()), scratch[id].chunk(peer.id()), peer, rank, 0);
        }
        // Scratch has been read when the peers write to it again: they have counts of all ranks.
    }
    lower(&program.finish().expect("a program")).expect("a plan")
}

/// Two thread blocks read halves of what other ranks have.
fn divided(ranks: u32) -> PlanTree {
    let program = Program::new(AlgoSpec::new("divided", CollectiveKind::AllToAllV, ranks));
    let p = &program;
    let all = p.num_ranks();
    for rank in p.ranks() {
        let id = rank.id();
        let group = p.thread_block_group([0, 1]);
        rank.exchange_counts(0);
        rank.barrier(&group);
        rank.copy_counted(rank.output().chunk(id), rank.input().chunk(id), rank, rank, &group);
        let channels = rank.memory_channels((1..all).map(|step| (id + step) % all));
        for channel in &channels {
            let peer = channel.peer();
            channel.get_counted(rank.output().chunk(peer.id()), peer.input().chunk(id), peer, rank, &group);
        }
        rank.barrier(&group);
        channels.handshake(0).relaxed();
    }
    lower(&program.finish().expect("a program")).expect("a plan")
}

/// Returns every table of counts up to a maximum, or some of them if there are more.
fn tables(ranks: u32, max: u32, most: u64) -> impl Iterator<Item = Vec<Vec<u32>>> {
    let all = u64::from(max + 1).pow(ranks * ranks);
    let step = (all / most).max(1);
    (0..all.min(most)).map(move |at| {
        // The first and the last one are among them.
        let mut rest = if at + 1 == all.min(most) { all - 1 } else { at * step };
        let mut next = || {
            let count = rest % u64::from(max + 1);
            rest /= u64::from(max + 1);
            count as u32
        };
        (0..ranks).map(|_| (0..ranks).map(|_| next()).collect()).collect()
    })
}

#[test]
fn accepted_plans_are_right_for_every_table() {
    for (ranks, max, most) in [(1, 3, u64::MAX), (2, 3, u64::MAX), (3, 2, 200)] {
        for (name, plan) in plans(ranks) {
            let found = check(&plan);
            assert!(found.is_empty(), "{name}: {found}");
            for (number, counts) in tables(ranks, max, most).enumerate() {
                let fixed = at_counts(&plan, &counts, max).expect("no pipeline");
                let found = check(&fixed);
                assert!(found.is_empty(), "{name} {counts:?}: {found}");
                if number % 50 == 1 {
                    let failure = ScheduleFuzzer::new(&fixed).find_failure(0..10).expect("a plan of few chunks");
                    assert_eq!(failure, None, "{name} {counts:?}");
                }
            }
        }
    }
}

/// Changes an operation, and returns whether it did.
fn mutate(plan: &mut PlanTree, random: &mut SplitMix64) -> bool {
    let mut below = |limit: usize| (random.next_u64() % limit.max(1) as u64) as usize;
    let ranks = plan.ranks.len();
    let tables = &mut plan.ranks[below(ranks)];
    let (block, scratch) = (below(tables.blocks.len()), tables.scratch_chunks as usize);
    let ops = &mut tables.blocks[block].ops;
    if ops.len() < 2 {
        return false;
    }
    let at = below(ops.len() - 1);
    let kind = below(9);
    let counted = ops[at].count.is_some();
    match kind {
        0 => drop(ops.remove(at)),
        1 => ops.swap(at, at + 1),
        2 => ops.insert(at, ops[at].clone()),
        3..=8 if !counted => return false,
        3 => ops[at].count = ops[at].count.map(|count| Count { sender: below(ranks) as u32, ..count }),
        4 => ops[at].count = ops[at].count.map(|count| Count { receiver: below(ranks) as u32, ..count }),
        5 => ops[at].count = ops[at].count.map(|count| Count { sender: count.receiver, receiver: count.sender }),
        6 => ops[at].srcs[0].index = below(ranks.max(scratch)) as u32,
        7 => ops[at].dsts[0].index = below(ranks.max(scratch)) as u32,
        _ => {
            let slice = Some(Slice { index: below(2) as u32, count: 2 });
            let op = Op { slice, ..ops[at].clone() };
            ops[at] = op;
        }
    }
    true
}

/// How often which verdict was found.
type Verdicts = BTreeMap<String, u32>;

/// Compares what the checks find with the checks of the plan at tables of counts.
fn compare(plan: &PlanTree, (max, most): (u32, u64), name: impl Fn() -> String, verdicts: &mut Verdicts) {
    let found = check(plan);
    // Reported in the order in which the rules rely on each other; the first one decides.
    let code = found.iter().next().map(|finding| finding.code);
    let mut fixed = tables(plan.ranks.len() as u32, max, most).filter_map(|counts| at_counts(plan, &counts, max));
    let wrong = fixed.find(|fixed| !check(fixed).is_empty());
    match (code, &wrong) {
        (None, None) | (Some(_), Some(_)) => {}
        (None, Some(fixed)) => panic!("accepted, but wrong: {}\n{}", name(), check(fixed)),
        // Not modeled at a table: that counts are unknown before the exchange, and chunks that do not exist.
        (Some(Code::MissingCounts | Code::ChunkOutOfRange), None) => {}
        // What is true for this plan, but not proved: a chunk of two counts, a divided chunk of scratch, …
        (Some(Code::CountMismatch | Code::NotCountable), None) => {}
        (Some(_), None) => panic!("rejected, but right: {}: {found}", name()),
    }
    let verdict = code.map_or("accepted".to_owned(), |code| format!("{code:?}"));
    *verdicts.entry(format!("{verdict}, {}", if wrong.is_some() { "wrong" } else { "right" })).or_default() += 1;
}

#[test]
fn verdict_on_mutants_is_that_of_all_tables() {
    let mut verdicts = Verdicts::new();
    for (ranks, max, most) in [(2, 2, u64::MAX), (3, 2, 60)] {
        for (name, plan) in plans(ranks) {
            for seed in 0..mutants() {
                let mut random = SplitMix64::seed_from_u64(seed);
                let mut mutant = plan.clone();
                if mutate(&mut mutant, &mut random) && mutant != plan {
                    compare(&mutant, (max, most), || format!("{name}, {ranks} ranks, seed {seed}"), &mut verdicts);
                }
            }
        }
    }
    println!("{verdicts:#?}");
    let count = |name: &str| verdicts.get(name).copied().unwrap_or(0);
    // The rule rejects little that is right.
    assert!(count("CountMismatch, right") * 10 <= count("CountMismatch, wrong"), "{verdicts:#?}");
    assert!(count("CountMismatch, wrong") > 50 && count("accepted, right") > 5, "{verdicts:#?}");
}

/// A program that brings each part by a way of its own: read, written, or written to scratch, through memory or a port, in any thread
/// block; sometimes without an operation that it needs, or with another count.
fn random_program(ranks: u32, per_node: u32, random: &mut SplitMix64) -> Option<PlanTree> {
    let mut spec = AlgoSpec::new("random", CollectiveKind::AllToAllV, ranks);
    spec.ranks_per_node = per_node;
    let program = Program::new(spec);
    let (p, all) = (&program, ranks as usize);
    let mut below = |limit: usize| (random.next_u64() % limit as u64) as usize;
    let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(all)).collect();
    for rank in p.ranks() {
        rank.exchange_counts(0);
        if below(24) > 0 {
            rank.barrier([0, 1]);
        }
    }
    for (from, to) in (0..all).flat_map(|from| (0..all).map(move |to| (from, to))) {
        let (sender, receiver, at, there) = (p.rank(from), p.rank(to), below(2), below(2));
        let (source, target) = (sender.input().chunk(to), receiver.output().chunk(from));
        let (s, r) = if below(24) == 0 { (below(all), below(all)) } else { (from, to) };
        if from == to {
            sender.copy_counted(target, source, s, r, at);
            continue;
        }
        let is_far = sender.node() != receiver.node();
        match below(3) {
            0 if !is_far => {
                let (own, peer) = (sender.memory_channel(receiver), receiver.memory_channel(sender));
                peer.get_counted(target, source, s, r, there);
                if below(24) > 0 {
                    peer.signal(there).relaxed();
                    own.wait(at).relaxed();
                }
            }
            way if is_far || below(2) == 0 => {
                let (own, peer) = (sender.port_channel(receiver), receiver.port_channel(sender));
                match way {
                    2 => own.put_counted(scratch[to].chunk(from), source, s, r, at),
                    _ => own.put_counted(target, source, s, r, at),
                }
                if below(24) > 0 {
                    own.signal(at);
                    peer.wait(there);
                }
                if way == 2 {
                    receiver.copy_counted(target, scratch[to].chunk(from), s, r, there);
                }
                if below(24) > 0 {
                    own.flush(at);
                }
            }
            way => {
                let (own, peer) = (sender.memory_channel(receiver), receiver.memory_channel(sender));
                match way {
                    2 => own.put_counted(scratch[to].chunk(from), source, s, r, at),
                    _ => own.put_counted(target, source, s, r, at),
                }
                if below(24) > 0 {
                    own.signal(at);
                    peer.wait(there);
                }
                if way == 2 {
                    receiver.copy_counted(target, scratch[to].chunk(from), s, r, there);
                }
            }
        }
    }
    lower(&program.finish().ok()?).ok()
}

#[test]
fn verdict_on_random_programs_is_that_of_all_tables() {
    let mut verdicts = Verdicts::new();
    for (ranks, max, most) in [(2, 2, u64::MAX), (3, 2, 40)] {
        for seed in 0..mutants() {
            let mut random = SplitMix64::seed_from_u64(seed);
            let per_node = if random.next_u64().is_multiple_of(2) { ranks } else { 1 };
            let Some(plan) = random_program(ranks, per_node, &mut random) else { continue };
            let name = || format!("{ranks} ranks, {per_node} per node, seed {seed}");
            compare(&plan, (max, most), name, &mut verdicts);
            // What is accepted also runs, in the worst orders.
            if seed % 16 == 0 && check(&plan).is_empty() {
                let failure = ScheduleFuzzer::new(&plan).find_failure(0..10).expect("a plan of few chunks");
                assert_eq!(failure, None, "{}", name());
            }
        }
    }
    println!("{verdicts:#?}");
    let of = |what: &str| verdicts.iter().filter(|(name, _)| name.ends_with(what)).map(|(_, count)| count).sum::<u32>();
    let accepted = verdicts.get("accepted, right").copied().unwrap_or(0);
    assert!(accepted > 20 && of("wrong") > 20, "{verdicts:#?}");
}

#[test]
fn exchange_is_required_on_every_rank() {
    let (_, plan) = plans(2).swap_remove(0);
    for rank in 0..2 {
        let mut mutant = plan.clone();
        mutant.ranks[rank].blocks[0].ops.retain(|op| op.kind != OpKind::ExchangeCounts);
        let found = check(&mutant);
        assert!(found.iter().all(|finding| finding.code == Code::MissingCounts) && !found.is_empty(), "{found}");
    }
}
