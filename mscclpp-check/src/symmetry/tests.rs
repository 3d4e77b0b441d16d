//! Plans that are symmetric, and plans that are nearly symmetric.

use super::Symmetry;
use crate::{Pairs, check, is_accepted, model, shape, slices};
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_plan::collective::CollectiveKind;
use mscclpp_plan::raw::{Expectation, Op, PlanTree};
use mscclpp_plan::types::{BlockSync, Protocol};

fn lowered(spec: AlgoSpec, body: impl Fn(&Program)) -> PlanTree {
    let program = Program::new(spec);
    body(&program);
    lower(&program.finish().expect("a program")).unwrap_or_else(|found| panic!("{found}"))
}

/// Every rank forwards what it receives.
fn ring(ranks: u32) -> PlanTree {
    lowered(AlgoSpec::new("ring", CollectiveKind::AllGather, ranks), |p| {
        let ranks = p.num_ranks();
        for rank in p.ranks() {
            let id = rank.id();
            let (next, previous) = (p.rank((id + 1) % ranks), p.rank((id + ranks - 1) % ranks));
            let (to_next, to_previous) = (rank.memory_channel(next), rank.memory_channel(previous));
            to_previous.signal(0).relaxed();
            rank.copy(rank.output().chunk(id), rank.input().chunk(0), 0);
            to_next.wait(0).relaxed().sync(BlockSync::After);
            for step in 0..ranks - 1 {
                let index = (id + ranks - step) % ranks;
                to_next.put(next.output().chunk(index), rank.output().chunk(index), 0);
                to_next.signal(0).sync(BlockSync::Before);
                to_previous.wait(0).sync(BlockSync::After);
            }
        }
    })
}

/// Nodes sum, then the ranks across them, each in the order of their numbers.
fn nodes(nodes: u32) -> PlanTree {
    let mut spec = AlgoSpec::new("nodes", CollectiveKind::AllReduce, 2 * nodes);
    (spec.ranks_per_node, spec.protocol, spec.double_scratch) = (2, Protocol::LL, true);
    lowered(spec, |p| {
        // All chunks at once: one range from the neighbor, one from each node.
        let all = p.num_ranks();
        let scratch: Vec<_> = p.ranks().map(|rank| rank.scratch(all + all * p.num_nodes())).collect();
        for rank in p.ranks() {
            let (id, slots) = (rank.id(), scratch[rank.id()]);
            let other = p.rank(id ^ 1);
            let near = rank.memory_channel(other);
            near.put_packets(scratch[other.id()].chunk(0..all), rank.input().chunk(0..all), 0);
            rank.reduce_packets(rank.input().chunk(0..all), [slots.chunk(0..all)], 0).to(rank.output().chunk(0..all));
            let across: Vec<_> =
                p.ranks().filter(|peer| peer.local_id() == rank.local_id() && peer.id() != id).collect();
            let slot = |node: usize| all + all * node..2 * all + all * node;
            let mine = slots.chunk(slot(rank.node()));
            rank.copy_packets(mine, rank.output().chunk(0..all), 0);
            rank.barrier([0]);
            for peer in &across {
                rank.port_channel(*peer).put_packets(scratch[peer.id()].chunk(slot(rank.node())), mine, 0);
            }
            let arrived: Vec<_> = across.iter().map(|peer| slots.chunk(slot(peer.node()))).collect();
            rank.reduce_packets(rank.output().chunk(0..all), arrived, 0);
        }
    })
}

fn own(plan: &PlanTree) -> Option<u32> {
    assert!(shape::check(plan.into()).is_empty());
    Symmetry::of(plan.into(), &Pairs::of(plan)).map(|symmetry| symmetry.representatives)
}

/// Returns whether the check of representatives finds nothing; `None` without symmetry.
fn folded(plan: &PlanTree) -> Option<bool> {
    let pairs = Pairs::of(plan);
    let symmetry = Symmetry::of(plan.into(), &pairs)?;
    let sizes = model::sizes(plan.into())
        .expect("a plan of few pieces")
        .into_iter()
        .chain(slices::sizes(plan.into(), Some(&symmetry)).expect("few sizes").sizes);
    Some(is_accepted(
        plan.into(),
        &pairs,
        sizes.map(|size| model::Model::reduced(plan.into(), &pairs, size, Some(&symmetry))),
    ))
}

/// Returns whether the check of all ranks finds nothing: expectations of a program are not rotated.
fn looked_at_all(plan: &PlanTree) -> bool {
    let nothing = Expectation {
        rank: 0,
        chunk: 0,
        len: 0,
        inputs: vec![(0, 0)],
        origin: mscclpp_plan::origin::Origin::default(),
    };
    let plan = PlanTree { expectations: vec![nothing], ..plan.clone() };
    assert!(Symmetry::of((&plan).into(), &Pairs::of(&plan)).is_none());
    check(&plan).is_empty()
}

#[test]
fn rings_and_nodes_are_symmetric() {
    for ranks in [3, 5, 8] {
        assert_eq!(own(&ring(ranks)), Some(1), "{ranks}");
        assert_eq!(folded(&ring(ranks)), Some(true), "{ranks}");
    }
    for count in [2, 3, 4] {
        assert!(check(&nodes(count)).is_empty());
        assert_eq!(own(&nodes(count)), Some(2), "{count}");
        assert_eq!(folded(&nodes(count)), Some(true), "{count}");
        assert!(looked_at_all(&nodes(count)));
    }
}

/// All changes of one operation.
fn changes() -> Vec<fn(&mut Vec<Op>, usize)> {
    fn first(ops: &mut [Op], i: usize, change: impl Fn(&mut mscclpp_plan::raw::Operand)) {
        let op = &mut ops[i];
        op.dsts.iter_mut().chain(&mut op.srcs).take(1).for_each(change);
    }
    vec![
        |ops, i| drop(ops.remove(i)),
        |ops, i| ops.insert(i, ops[i].clone()),
        |ops, i| {
            if i > 0 {
                ops.swap(i - 1, i)
            }
        },
        |ops, i| first(ops, i, |range| range.index ^= 1),
        |ops, i| first(ops, i, |range| range.index += 1),
        |ops, i| ops[i].srcs.iter_mut().take(1).for_each(|range| range.index ^= 1),
        |ops, i| ops[i].ids.iter_mut().for_each(|id| *id ^= 1),
        |ops, i| {
            use mscclpp_plan::raw::OpKind as K;
            let relaxed = match ops[i].kind {
                K::Signal => K::RelaxedSignal,
                K::Wait => K::RelaxedWait,
                kind => kind,
            };
            ops[i].kind = relaxed;
        },
    ]
}

#[test]
fn mistake_on_all_ranks_is_found_on_representatives() {
    let (mut symmetric, mut right) = (0, 0);
    for plan in [ring(4), ring(5), nodes(2), nodes(3)] {
        for i in 0..plan.ranks[0].blocks[0].ops.len() {
            for change in changes() {
                let mut broken = plan.clone();
                broken.ranks.iter_mut().for_each(|rank| change(&mut rank.blocks[0].ops, i));
                if !shape::check((&broken).into()).is_empty() {
                    continue;
                }
                let all = looked_at_all(&broken);
                if let Some(some) = folded(&broken) {
                    assert!(all || !some, "operation {i}\n{:?}", broken.ranks[0].blocks);
                    symmetric += 1;
                }
                assert_eq!(check(&broken).is_empty(), all);
                right += usize::from(all);
            }
        }
    }
    assert!(symmetric > 150 && right > 10, "{symmetric} {right}");
}

#[test]
fn mistake_on_one_rank_makes_a_plan_asymmetric() {
    let mut wrong = 0;
    for plan in [ring(4), nodes(2), nodes(3)] {
        for rank in 0..plan.ranks.len() {
            for i in 0..plan.ranks[0].blocks[0].ops.len() {
                for change in changes() {
                    let mut broken = plan.clone();
                    change(&mut broken.ranks[rank].blocks[0].ops, i);
                    if !shape::check((&broken).into()).is_empty() {
                        continue;
                    }
                    let all = looked_at_all(&broken);
                    assert!(all || folded(&broken) != Some(true), "rank {rank}, operation {i}");
                    assert_eq!(check(&broken).is_empty(), all);
                    wrong += usize::from(!all);
                }
            }
        }
    }
    assert!(wrong > 300, "{wrong}");
}
