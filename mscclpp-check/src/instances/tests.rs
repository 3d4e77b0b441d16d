use super::one_of;
use crate::place::each;
use crate::testing::{ops, plan, text};
use crate::{Checks, check};
use mscclpp_core::lower::replicate::replicate;
use mscclpp_plan::raw::{Op, PlanTree};

/// Both ranks send a chunk over each kind of channel and copy the data that arrives.
const EXCHANGE: &str = "put.m i0 > r0:0; nop; signal.m#0; put.p#1 i1 > r0:1; signal.p#1; flush.p#1; wait.m#0; wait.p#1; nop; \
                        copy s0 > o0; copy s1 > o1; nop; signal.m#1; wait.m#1";

/// A loop of one block passes data to that of another through semaphores.
const FEED: [&str; 2] = [
    "loop 64x1 { copy i0 > s0; nop; sem_release#0 }; barrier#0=2",
    "loop 64x1 { sem_acquire#0; nop; copy s0 > o0 }; barrier#0=2",
];

fn plans() -> Vec<PlanTree> {
    vec![
        plan(&[&[EXCHANGE], &[EXCHANGE]]),
        plan(&[&FEED, &FEED]),
        plan(&[&["ppkt.m i0 > r0:0; upkt s0 > o0"], &["ppkt.m i0 > r0:0; upkt s0 > o0"]]),
        plan(&[&["gstore.w#2 i0 > w2:1"], &[""]]),
    ]
}

fn replicated(plan: &PlanTree, n: u32) -> PlanTree {
    let mut whole = plan.clone();
    replicate(&mut whole, n).expect("small numbers");
    whole
}

/// Returns one instance as a plan: what the rules check.
fn one(plan: &PlanTree) -> Option<PlanTree> {
    let one = one_of(plan)?;
    let mut small = one.tables.clone();
    each(one.view(plan), &mut |at| {
        let mut op = at.op.clone();
        op.srcs.iter_mut().chain(&mut op.dsts).for_each(|range| *range = at.range(range));
        if op.kind.has_ids_of_rank() {
            op.ids.iter_mut().for_each(|id| *id = at.number(*id));
        }
        let ops = &mut small.ranks[at.rank].blocks[at.block].ops;
        match (at.inside, &mut op.body) {
            (None, Some(body)) => body.ops.clear(),
            (None, None) => {}
            (Some(_), _) => {
                let pipeline = ops.last_mut().and_then(|pipeline| pipeline.body.as_mut());
                return pipeline.expect("visited before its body").ops.push(op);
            }
        }
        ops.push(op);
    });
    Some(small)
}

#[test]
fn instances_are_found() {
    for small in plans() {
        assert_eq!(one(&small), None);
        for n in [2, 3, 16] {
            assert_eq!(one(&replicated(&small, n)), Some(small.clone()), "{n}");
        }
    }
    let long = plan(&[&["copy i0+2 > s2+2; copy i4+2 > s0+2"], &[""]]);
    assert_eq!(one(&replicated(&long, 2)), Some(long));
}

#[test]
fn unequally_shared_ranges_are_not_divided() {
    for ops in ["copy i0+2 > s2+2; copy i4 > s0", "copy i0+2 > s1+2", "copy i0+3 > s0+3"] {
        assert_eq!(one(&replicated(&plan(&[&[ops], &[""]]), 2)), None, "{ops}");
    }
}

/// Every change of one operation of one instance.
fn changes(op: &Op) -> Vec<Op> {
    let mut all = Vec::new();
    let mut change = |change: &dyn Fn(&mut Op)| {
        let mut changed = op.clone();
        change(&mut changed);
        if changed != *op {
            all.push(changed);
        }
    };
    change(&|op| op.srcs.iter_mut().for_each(|range| range.index ^= 1));
    change(&|op| op.dsts.iter_mut().for_each(|range| range.index ^= 1));
    change(&|op| op.dsts.iter_mut().for_each(|range| range.size += 1));
    change(&|op| op.ids.iter_mut().for_each(|id| *id ^= 1));
    change(&|op| *op = ops("nop").remove(0));
    change(&|op| *op = ops("signal.m#0").remove(0));
    change(&|op| op.num_blocks ^= 1);
    change(&|op| op.slice = ops("copy/0:2 i0 > s0")[0].slice);
    if let Some(body) = &op.body {
        for (i, inner) in body.ops.iter().enumerate() {
            for inner in changes(inner) {
                let mut changed = op.clone();
                changed.body.as_mut().expect("a loop has a body").ops[i] = inner;
                all.push(changed);
            }
        }
    }
    all
}

/// The result is that of the rules on the whole plan, for every change.
#[test]
fn change_of_one_instance_is_found() {
    let mut refused = 0;
    for small in plans() {
        let whole = replicated(&small, 3);
        let mut all = vec![whole.clone()];
        for (rank, tables) in whole.ranks.iter().enumerate() {
            for (block, list) in tables.blocks.iter().enumerate() {
                for (i, op) in list.ops.iter().enumerate() {
                    all.extend(changes(op).into_iter().map(|op| {
                        let mut changed = whole.clone();
                        changed.ranks[rank].blocks[block].ops[i] = op;
                        changed
                    }));
                }
            }
            let mut changed = whole.clone();
            changed.ranks[rank].semaphores[1] += 1;
            all.push(changed);
            let mut changed = whole.clone();
            changed.ranks[rank].blocks[0].channels[0].1.swap(0, 1);
            all.push(changed);
        }
        for (number, changed) in all.iter().enumerate() {
            let found = check(changed);
            assert_eq!(found, Checks::default().run_rules(changed.into()));
            assert_eq!(one_of(changed).is_some(), number == 0, "{}", text(&changed.ranks[0].blocks[0].ops));
            refused += usize::from(!found.is_empty());
        }
    }
    assert!(refused > 100, "{refused}");
}

/// A mistake that all instances have is found in the small plan, and reported for the whole one.
#[test]
fn mistake_in_all_instances_is_reported_for_the_whole_plan() {
    let small = plan(&[&["copy i0 > s0; wait.m#1"], &[""]]);
    let whole = replicated(&small, 4);
    assert!(one_of(&whole).is_some());
    let found = check(&whole);
    assert!(!found.is_empty());
    assert_eq!(found, Checks::default().run_rules((&whole).into()));
}
