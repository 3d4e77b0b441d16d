//! Findings of the checks compared with results: plans with an error in their data movement or reductions are checked
//! and run.

use mscclpp_algorithms as algorithms;
use mscclpp_core::check::check;
use mscclpp_core::diag::Code;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::{
    Plan,
    raw::{BufferRef, Op, PlanTree},
};
use mscclpp_core::types::BufferKind;
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Message};
use proptest::prelude::*;
use proptest::sample::Index;

const NAMES: [&str; 12] = [
    "allreduce_all_pairs",
    "allreduce_packets",
    "allreduce_ring",
    "allreduce_switch",
    "allreduce_switch_pipeline",
    "allgather_ring",
    "allgather_two_nodes",
    "allgather_packed_once",
    "alltoall_direct",
    "alltoall_rotated",
    "reducescatter_hierarchical_packets",
    "broadcast_scatter",
];

fn seeds() -> Vec<PlanTree> {
    let build = |name: &str| {
        let algorithm = algorithms::find(name).unwrap_or_else(|| panic!("{name}"));
        let mut spec = algorithm.spec(4, algorithm.ranks_per_node(4).expect("four ranks make nodes"));
        spec.instances = 1;
        lower(&algorithm.record(spec, &algorithm.arguments([]).expect("defaults")).expect(name)).expect(name)
    };
    NAMES.into_iter().map(build).collect()
}

/// A change of a data operation: which operation, and which change.
type Change = (Index, u8, Index, u32);

fn data_ops(tree: &mut PlanTree) -> Vec<&mut Op> {
    let ops = tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks).flat_map(|block| &mut block.ops);
    let inner = ops.flat_map(|op| {
        if op.body.is_some() {
            op.body.as_mut().map_or(&mut [][..], |body| &mut body.ops)
        } else {
            std::slice::from_mut(op)
        }
    });
    inner.filter(|op| op.kind.is_data()).collect()
}

fn change(tree: &mut PlanTree, (which, what, reference, value): &Change) {
    let mut ops = data_ops(tree);
    let count = ops.len();
    let at = which.index(count);
    // An earlier change may have removed its operands.
    let (srcs, sides) = (ops[at].srcs.len(), ops[at].srcs.len() + ops[at].dsts.len());
    if srcs == 0 || sides == srcs {
        return;
    }
    let reference = reference.index(sides);
    match what {
        // The same operation on other chunks, or on another buffer.
        0..=3 => {
            let op = &mut *ops[at];
            let one = op.srcs.iter_mut().chain(&mut op.dsts).nth(reference).expect("it has so many");
            match what {
                0 => one.index = one.index.wrapping_add(1 + value % 3),
                1 => one.index = one.index.saturating_sub(1 + value % 3),
                2 => one.buffer = BufferRef::Local(BufferKind::ALL[*value as usize % 3]),
                _ => one.buffer = BufferRef::Remote(value % 6),
            }
        }
        // Another order, more sources, fewer.
        4 => ops[at].srcs.rotate_left(1),
        5 => {
            let more = ops[at].srcs[reference % srcs];
            ops[at].srcs.push(more);
        }
        6 => {
            ops[at].srcs.pop();
        }
        // Operands of another operation of the plan.
        7 => {
            let other = ops[*value as usize % count].srcs.clone();
            ops[at].srcs = other;
        }
        8 => {
            let other = ops[*value as usize % count].dsts.clone();
            ops[at].dsts = other;
        }
        _ => {
            let other = ops[(at + 1) % count].clone();
            *ops[at] = other;
        }
    }
}

/// Returns whether every launch fulfills the collective's postcondition.
fn runs_right(tree: &PlanTree) -> bool {
    let plan = Plan::new(tree);
    [(Schedule::RoundRobin, 4 * 4 * 600), (Schedule::Seeded(5), 4 * 4), (Schedule::Seeded(6), 4 * 4 * 4 * 1024)]
        .into_iter()
        .all(|(schedule, count)| {
            let options = Options::default().schedule(schedule).workers(Some(2));
            let world = Executor::with_options(plan.num_ranks(), options);
            let message = Message::new(DataType::I32, count).any_size();
            let Ok(mut run) = world.prepare(&plan, message) else { return false };
            let Ok(mut buffers) = run.buffers() else { return false };
            (0..2).all(|launch| {
                let verifier = Verifier::new(&run, launch);
                verifier.fill(&mut buffers);
                run.launch_buffers(&mut buffers).is_ok() && verifier.check(&buffers).is_correct()
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 150 } else { 4000 }, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn results_agree_with_the_checks(
        seed in 0..NAMES.len(), changes in proptest::collection::vec((any::<Index>(), 0..10u8, any::<Index>(), 0..64u32), 0..3),
    ) {
        thread_local! { static SEEDS: Vec<PlanTree> = seeds(); }
        let mut tree = SEEDS.with(|seeds| seeds[seed].clone());
        changes.iter().for_each(|one| change(&mut tree, one));
        let found = check(&tree);
        let of_results = |code: &Code| matches!(code, Code::WrongResult | Code::DoubleCounted);
        let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
        if codes.is_empty() {
            prop_assert!(runs_right(&tree), "{}: accepted, but its results are wrong", tree.name);
        } else if codes.iter().all(of_results) {
            prop_assert!(!runs_right(&tree), "{}: refused, but its results are right: {found}", tree.name);
        }
    }
}

/// Changes produce both kinds of plans; otherwise the test above would be void.
#[test]
fn changes_produce_correct_and_incorrect_plans() {
    let (mut right, mut wrong) = (0, 0);
    for tree in seeds() {
        for op in 0..data_ops(&mut tree.clone()).len() {
            for what in [0, 1, 4, 5, 6] {
                let mut changed = tree.clone();
                let mut ops = data_ops(&mut changed);
                let op = &mut *ops[op];
                match what {
                    0 => op.srcs[0].index += 1,
                    1 => op.dsts[0].index = op.dsts[0].index.saturating_sub(1),
                    4 => op.srcs.rotate_left(1),
                    5 => op.srcs.push(op.srcs[0]),
                    _ => drop(op.srcs.pop()),
                }
                let found = check(&changed);
                right += usize::from(found.is_empty());
                wrong += usize::from(found.iter().any(|finding| finding.code == Code::WrongResult));
            }
        }
    }
    assert!(right > 20 && wrong > 100, "{right} are right, {wrong} wrong");
}
