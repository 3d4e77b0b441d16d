//! All launches of a form: those that apply are validated, those that executors reject are listed, plans that are not
//! proved fail.

use mscclpp_core::plan::raw::OpKind;

use super::*;
use mscclpp_exec::cuda::NotSpecialized;

fn plan(name: &str, ranks: u32, node: u32) -> PlanTree {
    let algorithm = algorithms::find(name).expect("it is in the library");
    algorithm
        .compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([]).expect("defaults"))
        .expect("it compiles")
}

#[test]
fn launches_that_apply_are_validated_and_others_listed() {
    // On 3 nodes there are 2 ranks on each, on 2 nodes 3: memory channels connect ranks of different nodes.
    let ring = plan("allreduce_ring", 6, 6);
    let found = validate_form(&ring, ExecutorForm::Processes).expect("it is right");
    assert_eq!((found.launches, found.inapplicable.len()), (4, 8));
    let other_node =
        |launch: &InvalidLaunch| matches!(launch.error, ValidationError::Plan(Error::CrossNodeAccess { .. }));
    assert!(found.inapplicable.iter().all(other_node), "{:?}", found.inapplicable);
    let found = validate_form(&ring, ExecutorForm::Devices).expect("it is right");
    assert_eq!((found.launches, found.inapplicable.len()), (3, 2));
    assert_eq!(found.inapplicable[0].launch, "ranks on devices 0 1 2 3 4 5, devices on nodes 0 0 0 1 1 1");
    // A plan of sums has a kernel for each reduction, one without reductions has one.
    assert_eq!(validate_form(&ring, ExecutorForm::Kernel).expect("it is right").launches, 5);
    let gather = plan("allgather_ring_ports", 4, 1);
    assert_eq!(validate_form(&gather, ExecutorForm::Kernel).expect("it is right").launches, 1);
    // Ports reach any node: 1, 2 and 4 nodes.
    assert_eq!(validate_form(&gather, ExecutorForm::Processes).expect("it is right").launches, 12);
    assert_eq!(validate_form(&gather, ExecutorForm::Devices).expect("it is right").launches, 5);
}

#[test]
fn plans_that_normalize_rows_are_validated() {
    for (name, ranks) in [
        ("allreduce_norm_one_shot", 2),
        ("allreduce_norm_pull", 2),
        ("allreduce_norm_pull", 3),
        ("allreduce_norm_two_shot", 2),
        ("allreduce_norm_scatter", 3),
        ("reducescatter_norm", 2),
        ("allgather_norm_packets", 3),
        ("allgather_norm", 2),
    ] {
        for in_place in [false, true] {
            let algorithm = algorithms::find(name).expect("it is in the library");
            if in_place && algorithm.buffer_mode() == algorithms::BufferMode::OutOfPlace {
                continue;
            }
            let mut spec = algorithm.spec(ranks, ranks);
            (spec.collective.in_place, spec.collective.chunk_factor) = (in_place, 1);
            let arguments = algorithm.arguments([]).expect("defaults");
            let plan = algorithm.compile_tree(spec, &arguments).expect("it compiles");
            for &form in ExecutorForm::ALL {
                let found = validate_form(&plan, form).unwrap_or_else(|invalid| panic!("{name}, {form:?}: {invalid}"));
                assert!(found.launches > 0, "{name}, {form:?}");
            }
        }
    }
}

#[test]
fn norm_that_is_omitted_in_a_kernel_is_found() {
    let mut plan = plan("allreduce_norm_one_shot", 2, 2);
    let written = plan.clone();
    let message = launches::messages(&plan).expect("a plan")[0];
    let (source, shapes) = specialized_source(&Plan::new(&written), message).expect("a kernel");
    plan.ranks[0].blocks[0].ops.iter_mut().for_each(|op| {
        if op.kind == OpKind::RowNorm {
            op.kind = OpKind::Copy;
        }
    });
    let executed = |plan: &PlanTree| {
        let mut program = resolve(&Plan::new(plan)).expect("a plan");
        elide_own_packets(&mut program);
        program
    };
    assert!(crate::kernel::compare(&executed(&plan), source.text(), &shapes, Some("Sum")).is_err());
    let program = executed(&written);
    crate::kernel::compare(&program, source.text(), &shapes, Some("Sum")).expect("the plan's own kernel");
}

#[test]
fn plan_without_specialized_kernel_is_listed() {
    let mut large = plan("allgather_ring_ports", 2, 2);
    for rank in &mut large.ranks {
        let sync = mscclpp_core::plan::raw::Op::new(OpKind::Nop, rank.blocks[0].ops[0].origin);
        rank.blocks[0].ops.extend(std::iter::repeat_n(sync, 3000));
    }
    let found = validate_form(&large, ExecutorForm::Kernel).expect("there is none");
    assert_eq!((found.launches, found.inapplicable.len()), (0, 1));
    let ValidationError::NotSpecialized(NotSpecialized::TooLarge { .. }) = &found.inapplicable[0].error else {
        panic!("{:?}", found.inapplicable);
    };
}

#[test]
fn plan_that_is_not_proved_is_invalid() {
    let mut stalling = plan("allreduce_ring", 3, 3);
    let ops = &mut stalling.ranks[1].blocks[0].ops;
    let signal = ops.iter().position(|op| op.kind == OpKind::Signal).expect("a signal");
    ops.remove(signal);
    for form in [ExecutorForm::Processes, ExecutorForm::Devices] {
        let invalid = validate_form(&stalling, form).expect_err("it stalls");
        assert!(matches!(invalid.error, ValidationError::Rejected(_)), "{invalid}");
    }
}
