//! Launch barriers: those of the pass are accepted, those with a fault are rejected.

use mscclpp_core::plan::raw::{Op, OpKind};
use mscclpp_core::plan::text;

use super::*;
use mscclpp_base::interpret::Opcode;
use mscclpp_base::interpret::program::Instr;
use mscclpp_base::passes::insert_launch_barriers::{BarriersAt, Placement as BarrierPlacement};

#[test]
fn built_in_algorithms_run_as_proved_on_devices() {
    let mut validated = 0;
    for (name, plan, ranks, node) in built_in(&MACHINES) {
        for launch in DeviceLaunch::variants(ranks, node) {
            validate_devices(&plan, &launch).unwrap_or_else(|invalid| panic!("{name}, {launch:?}: {invalid}"));
            validated += 1;
        }
    }
    println!("{validated} plans and ways to put ranks on devices");
    assert!(validated > 200);
}

/// Removes or moves operations, and keeps the tables consistent.
fn edit(program: &mut ResolvedPlan, mut edit: impl FnMut(u32, u32, &mut Vec<Instr>)) {
    let mut instrs = Vec::new();
    for code in &mut program.agents {
        let mut own = program.instrs[code.start as usize..code.end as usize].to_vec();
        edit(code.rank, code.block, &mut own);
        code.start = instrs.len() as u32;
        instrs.append(&mut own);
        code.end = instrs.len() as u32;
    }
    program.instrs = instrs.into();
}

fn compile(name: &str, ranks: u32) -> PlanTree {
    let algorithm = algorithms::find(name).expect("it is in the library");
    let arguments = algorithm.arguments([]).expect("defaults");
    algorithm.compile_tree(algorithm.spec(ranks, ranks), &arguments).expect("it compiles")
}

/// Returns a plan whose ranks access their peers' buffers without synchronization: it lacks the signals and waits
/// before the first access of each thread block.
fn unopened(name: &str, ranks: u32) -> PlanTree {
    let mut plan = compile(name, ranks);
    for block in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        let is_sync = |op: &Op| op.srcs.is_empty() && op.dsts.is_empty();
        let first = block.ops.iter().take_while(|op| is_sync(op)).count();
        block.ops.drain(..first);
    }
    plan
}

/// Returns a plan whose ranks end with relaxed signals and waits, which publish nothing.
fn relaxed_at_end(mut plan: PlanTree) -> PlanTree {
    for block in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        for op in block.ops.iter_mut().rev().take_while(|op| op.srcs.is_empty() && op.dsts.is_empty()) {
            op.kind = match op.kind {
                OpKind::Signal => OpKind::RelaxedSignal,
                OpKind::Wait => OpKind::RelaxedWait,
                other => other,
            };
        }
    }
    plan
}

/// Returns the pass's output, in a form that the pass may not choose.
fn inserted(plan: &PlanTree, launch: &DeviceLaunch, barriers: BarriersAt) -> ResolvedPlan {
    let mut program = resolve(&Plan::new(plan)).expect("it is a plan");
    let placement = BarrierPlacement { device_of: &launch.devices, node_of: &launch.nodes, far: &[] };
    insert_launch_barriers(&mut program, &placement, barriers);
    program
}

/// Operations of a resolved plan that the pass has added.
struct Added<'p> {
    plan: ResolvedPlan,
    program: &'p ResolvedPlan,
}

impl<'p> Added<'p> {
    fn new(plan: &PlanTree, program: &'p ResolvedPlan) -> Self {
        Self { plan: resolve(&Plan::new(plan)).expect("it is a plan"), program }
    }

    fn is_sync(&self, instr: &Instr) -> bool {
        matches!(instr.action, Opcode::Signal { .. } | Opcode::Wait { .. })
            && self.program.ids(instr)[0] as usize >= self.plan.channels.len()
    }

    fn is_barrier(&self, instr: &Instr) -> bool {
        instr.action == Opcode::Barrier && self.program.ids(instr)[0] as usize >= self.plan.barriers.len()
    }

    /// Returns the position of the first or the last barrier of a thread block.
    fn barrier(&self, own: &[Instr], is_end: bool) -> usize {
        let mut barriers = (0..own.len()).filter(|&at| self.is_barrier(&own[at]));
        let found = if is_end { barriers.next_back() } else { barriers.next() };
        found.expect("every thread block has some")
    }
}

/// Removes the ids for which `keep` is false from the signals and waits that the pass has added at some ends.
fn drop_ids(added: &Added, program: &mut ResolvedPlan, ends: &[bool], keep: impl Fn(&Instr, usize, u32) -> bool) {
    let before = added.program;
    let mut ids = before.ids.clone();
    edit(program, |_, _, own| {
        let middle = own.len() / 2;
        for (at, instr) in own.iter_mut().enumerate() {
            if added.is_sync(instr) && ends.contains(&(at > middle)) {
                let range = instr.first_id as usize..(instr.first_id + instr.ids) as usize;
                let old = before.ids[range.clone()].iter().copied().enumerate();
                let kept: Vec<u32> = old.filter(|&(at, id)| keep(instr, at, id)).map(|(_, id)| id).collect();
                instr.ids = kept.len() as u32;
                ids[range.start..range.start + kept.len()].copy_from_slice(&kept);
            }
        }
    });
    program.ids = ids;
}

/// Returns faults at one end of launches, each with its description.
fn faults(plan: &PlanTree, launch: &DeviceLaunch, at: BarriersAt, is_end: bool) -> Vec<(&'static str, ResolvedPlan)> {
    let fresh = inserted(plan, launch, at);
    let added = Added::new(plan, &fresh);
    let (mut faults, ends) = (Vec::new(), [is_end, !is_end]);
    // Device 0 and device 1 do not synchronize: their signals and waits are missing on both sides.
    let mut program = inserted(plan, launch, at);
    // The waits for both ends are at the end if there is no barrier at the start.
    drop_ids(&added, &mut program, if at == BarriersAt::BothEnds { &ends[..1] } else { &ends }, |_, _, id| {
        let channel = fresh.channels[id as usize];
        let mut pair = [channel.rank, channel.peer].map(|rank| launch.devices[rank as usize]);
        pair.sort_unstable();
        pair != [0, 1]
    });
    faults.push(("two devices do not synchronize", program));
    // A block skips the barrier of its device.
    let mut program = inserted(plan, launch, at);
    edit(&mut program, |rank, block, own| {
        let at = added.barrier(own, is_end);
        if launch.devices[rank as usize] == 0 {
            if (rank, block) == (0, 1) {
                own.remove(at);
            } else {
                own[at].count -= 1;
            }
        }
    });
    faults.push(("a block passes the barrier of its device", program));
    // The first block releases the others before it has waited, or waits for other devices before the others have
    // finished.
    let mut program = inserted(plan, launch, at);
    edit(&mut program, |_, _, own| {
        if own.iter().any(|instr| added.is_sync(instr)) {
            let barrier = own.remove(added.barrier(own, is_end));
            own.insert(if is_end { own.len() } else { 0 }, barrier);
        }
    });
    faults.push(("the barrier of the device and that of all devices are in the wrong order", program));
    // A device's writes need not be visible to the others.
    let mut program = inserted(plan, launch, at);
    edit(&mut program, |_, _, own| {
        let middle = own.len() / 2;
        for (_, instr) in
            own.iter_mut().enumerate().filter(|(at, instr)| is_end && *at > middle && added.is_sync(instr))
        {
            if let Opcode::Signal { relaxed } = &mut instr.action {
                *relaxed = true;
            }
        }
    });
    if is_end {
        faults.push(("signals at the end are relaxed", program));
    }
    faults
}

#[test]
fn injected_faults_in_launch_barriers_are_detected() {
    // The first plan needs barriers at both ends, the others only the one at the end; launches of other sizes may
    // not follow those of the last one without it, as it has single scratch here.
    let needs = relaxed_at_end(unopened("allreduce_all_pairs", 4));
    let plans = [
        (needs.clone(), BarriersAt::BothEnds, [false, true].as_slice()),
        (relaxed_at_end(compile("allreduce_all_pairs", 4)), BarriersAt::End, &[true]),
        (compile("allreduce_packets", 4), BarriersAt::End, &[true]),
    ];
    assert!(
        !launch_boundaries(&plans[2].0).sizes_may_follow && launch_boundaries(&plans[2].0).can_start_without_barrier
    );
    for launch in DeviceLaunch::variants(4, 4) {
        for (plan, barriers, ends) in &plans {
            let fresh = inserted(plan, &launch, *barriers);
            validate_launch_barriers(plan, &fresh, &launch).expect("nothing is planted");
            for &is_end in *ends {
                for (what, program) in faults(plan, &launch, *barriers, is_end) {
                    let found = validate_launch_barriers(plan, &program, &launch);
                    assert!(found.is_err(), "{what}, at the end: {is_end}, {}, {launch:?}", plan.name);
                }
            }
        }
        // Omitted although the plan needs it.
        let found = validate_launch_barriers(&needs, &inserted(&needs, &launch, BarriersAt::End), &launch);
        assert!(matches!(found, Err(ValidationError::Rejected(_))), "{found:?}");
    }
}

#[test]
fn launch_without_barriers_between_sizes_is_rejected() {
    // Launches of one size need no barrier at either end; those of several sizes do, and there is none.
    let plan = compile("allreduce_packets", 4);
    let facts = launch_boundaries(&plan);
    assert!(facts.can_start_without_barrier && facts.can_end_without_barrier && !facts.sizes_may_follow);
    for launch in DeviceLaunch::variants(4, 4) {
        let (before, mut program) =
            (inserted(&plan, &launch, BarriersAt::End), inserted(&plan, &launch, BarriersAt::End));
        let added = Added::new(&plan, &before);
        edit(&mut program, |_, _, own| own.retain(|instr| !added.is_sync(instr)));
        let found = validate_launch_barriers(&plan, &program, &launch);
        assert!(found.is_err(), "{launch:?}");
    }
}

#[test]
fn end_barrier_that_waits_for_the_start_only_is_rejected() {
    let plan = relaxed_at_end(compile("allreduce_all_pairs", 4));
    for launch in DeviceLaunch::variants(4, 4) {
        let (before, mut program) =
            (inserted(&plan, &launch, BarriersAt::End), inserted(&plan, &launch, BarriersAt::End));
        // The second half of a wait is for the signals at the end, which are missing as well.
        drop_ids(&Added::new(&plan, &before), &mut program, &[true], |instr, at, _| {
            matches!(instr.action, Opcode::Wait { .. }) && at < instr.ids as usize / 2
        });
        let found = validate_launch_barriers(&plan, &program, &launch);
        assert!(found.is_err(), "{launch:?}");
    }
}

#[test]
fn launches_without_barriers_wait_for_starts() {
    for name in ["allreduce_all_pairs", "allreduce_packets", "allreduce_one_shot_packets", "allreduce_ring"] {
        let plan = compile(name, 4);
        for launch in DeviceLaunch::variants(4, 4) {
            let before = inserted(&plan, &launch, BarriersAt::Neither);
            validate_launch_barriers(&plan, &before, &launch).unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut program = inserted(&plan, &launch, BarriersAt::Neither);
            drop_ids(&Added::new(&plan, &before), &mut program, &[false, true], |_, _, id| {
                let channel = before.channels[id as usize];
                let mut pair = [channel.rank, channel.peer].map(|rank| launch.devices[rank as usize]);
                pair.sort_unstable();
                pair != [0, 1]
            });
            let found = validate_launch_barriers(&plan, &program, &launch);
            assert!(found.is_err(), "{name}: two devices may be further apart than one launch, {launch:?}");
            let single = ResolvedPlan { double_scratch: false, ..inserted(&plan, &launch, BarriersAt::Neither) };
            let found = validate_launch_barriers(&plan, &single, &launch);
            assert_eq!(found.is_err(), name.ends_with("packets"), "{name} in single scratch, {launch:?}");
        }
    }
}

#[test]
fn launches_that_need_a_barrier_at_the_end_are_rejected_without() {
    // Rank 1 reads scratch of rank 0, which learns that only in the next launch.
    let read_late = text::parse(
        "plan read_late\ncollective test 1 -> 1\nranks 2\nprotocol Simple\nthreads_per_block 64\n\
         rank 0 (input 1, output 1, scratch 1) {\n  block 0:\n    uses channels memory rank 1\n\
         rlxwait memory rank 1\n    nop\n    copy scratch[0] <- input[0]\n    nop\n    signal memory rank 1\n}\n\
         rank 1 (input 1, output 1, scratch 0) {\n  block 0:\n    uses channels memory rank 0\n\
         uses buffers memory rank 0 scratch\n    rlxsignal memory rank 0\n    wait memory rank 0\n    nop\n\
         get memory output[0] <- rank 0 scratch[0] via rank 0\n}\n",
    );
    let read_late = read_late.expect("it is a plan");
    assert!(check(&read_late).is_empty(), "{}", check(&read_late));
    let facts = launch_boundaries(&read_late);
    assert!(facts.can_start_without_barrier && facts.can_end_without_barrier && facts.sizes_may_follow, "{facts:?}");
    assert!(!facts.can_free_without_barrier);
    let plans = [read_late, relaxed_at_end(compile("allreduce_all_pairs", 2)), compile("allreduce_ring_ports", 2)];
    for plan in plans {
        let launch = DeviceLaunch::variants(2, 2).remove(0);
        validate_devices(&plan, &launch).unwrap_or_else(|error| panic!("{}: {error}", plan.name));
        let found = validate_launch_barriers(&plan, &inserted(&plan, &launch, BarriersAt::Neither), &launch);
        assert!(matches!(found, Err(ValidationError::Boundary { boundary: "end" })), "{}: {found:?}", plan.name);
    }
}

/// Puts for which no operation waits may arrive after the barrier at the end.
#[test]
fn start_without_barrier_is_rejected_where_puts_may_be_late() {
    let mut plan = compile("alltoall_ports", 3);
    for block in plan.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
        block.ops.retain(|op| op.kind != OpKind::Wait);
    }
    let launch = DeviceLaunch::variants(3, 3).remove(0);
    assert!(!launch_boundaries(&plan).puts_arrive_in_launch);
    let validated = validate_launch_barriers(&plan, &inserted(&plan, &launch, BarriersAt::End), &launch);
    assert!(validated.is_err(), "{validated:?}");
}

/// Between nodes, thread blocks must continue after the mark for the proxy.
#[test]
fn start_without_barrier_is_rejected_on_several_nodes() {
    let algorithm = algorithms::find("allreduce_hierarchical").expect("it is in the library");
    let arguments = algorithm.arguments([]).expect("defaults");
    let plan = algorithm.compile_tree(algorithm.spec(4, 2), &arguments).expect("it compiles");
    let launch = DeviceLaunch::variants(4, 2).remove(0);
    validate_devices(&plan, &launch).expect("the pass keeps the barrier");
    let mut program = resolve(&Plan::new(&plan)).expect("it is a plan");
    let placement = BarrierPlacement { device_of: &launch.devices, node_of: &launch.nodes, far: &[0, 1, 2, 3] };
    insert_launch_barriers(&mut program, &placement, BarriersAt::End);
    let found = validate_launch_barriers(&plan, &program, &launch);
    assert!(matches!(found, Err(ValidationError::Boundary { boundary: "start" })), "{found:?}");
}
