//! Every built-in algorithm, every file test, and every plan of the folder that `MSCCLPP_TEST_PLANS` or `MSCCLPP_CONFORMANCE` names.

use std::path::PathBuf;

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::plan::{LoadPlan, Plan};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::{Executor, PrepareOptions};
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Message, cpu};

use super::bits::{Pair, anywhere};
use super::filetests::{self, FileTest};
use super::row_norms;
use super::{Rig, Test, at};

pub(crate) fn tests() -> Vec<Test> {
    let shipped = algorithms::all()
        .iter()
        .map(|algorithm| Test::new(format!("plans::{}", algorithm.name()), move |rig| every_machine(rig, algorithm)));
    let files = plan_files().into_iter().map(|file| {
        let name = format!("plans::file::{}", file.file_stem().unwrap_or_default().to_string_lossy());
        Test::new(name, move |rig| of_file(rig, &file))
    });
    let written = filetests::tests("device")
        .into_iter()
        .map(|test| Test::new(format!("plans::filetest::{}", test.name), move |rig| of_file_test(rig, &test)));
    shipped.chain(files).chain(written).collect()
}

/// Returns the plans of the folder that the environment names.
pub(crate) fn plan_files() -> Vec<PathBuf> {
    let folder = std::env::var_os("MSCCLPP_TEST_PLANS").or_else(|| std::env::var_os("MSCCLPP_CONFORMANCE"));
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let mut files: Vec<PathBuf> = files.into_iter().flatten().filter_map(|file| Some(file.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    files
}

/// Messages that divide evenly and that do not, short and long.
fn messages(rig: &Rig, ranks: u32) -> Vec<Message> {
    let (f32, f16): (&[u64], &[u64]) = if rig.small { (&[16, 53], &[7]) } else { (&[1, 64, 1021, 50_000], &[7, 3333]) };
    let message = |dtype| move |count: &u64| Message::new(dtype, count * u64::from(ranks)).any_size();
    // 60 seeds cover all pairs.
    let types = DataType::ALL.len() as u64;
    let dtype = DataType::ALL[(rig.seed % types) as usize];
    let op = ReduceOp::ALL[(rig.seed / types) as usize % ReduceOp::ALL.len()];
    let turn = message(dtype)(&19).op(op);
    f32.iter().map(message(DataType::F32)).chain(f16.iter().map(message(DataType::F16))).chain([turn]).collect()
}

/// Compares launches of a plan with those of the CPU executor.
pub(crate) fn check(rig: &Rig, plan: &Plan) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, plan.num_ranks());
    for (turn, message) in (rig.seed..).zip(messages(rig, plan.num_ranks())) {
        match Pair::new(&world, plan, message) {
            Ok(Some(mut pair)) => {
                pair.check(if rig.small { 2 } else { 3 })?;
                anywhere(&world, plan, message, PrepareOptions::default(), turn)?;
            }
            // More thread blocks than are co-resident on the device.
            Ok(None) => {}
            // A plan that is not a sum keeps its own reduction.
            Err(_) if message.op.is_some() && world.prepare(plan, Message { op: None, ..message }).is_ok() => {}
            Err(failed) => return Err(failed),
        }
    }
    Ok(())
}

fn every_machine(rig: &Rig, algorithm: &BuiltinAlgorithm) -> Result<(), Failed> {
    const MACHINES: [(u32, u32); 10] = [(2, 2), (3, 3), (4, 2), (2, 1), (3, 1), (4, 4), (6, 3), (7, 7), (8, 8), (8, 4)];
    let in_place: &[bool] = match algorithm.buffer_mode() {
        BufferMode::InPlace => &[true],
        BufferMode::OutOfPlace => &[false],
        BufferMode::Any => &[true, false],
    };
    let machines = if rig.small { &MACHINES[..5] } else { &MACHINES };
    for &(ranks, ranks_per_node) in machines.iter().filter(|&&(ranks, node)| algorithm.supports(ranks, node)) {
        for &in_place in in_place {
            let mut spec = algorithm.spec(ranks, ranks_per_node);
            spec.collective.in_place = in_place;
            let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
            let place = format_args!("{ranks} ranks, {ranks_per_node} per node, in place {in_place}").to_string();
            check(rig, &plan).map_err(|failed| at(place, &failed))?;
        }
    }
    Ok(())
}

/// The runner `device` of the file tests (`mscclpp-core/filetests`): results are those of the CPU executor, and of the naive
/// reference.
fn of_file_test(rig: &Rig, test: &FileTest) -> Result<(), Failed> {
    let tree = test.plan();
    let plan = Plan::new(&tree);
    if tree.collective.rows {
        return row_norms::normalizes_rows(rig, &plan);
    }
    check(rig, &plan)?;
    let world = Executor::new(&rig.device, plan.num_ranks());
    for count in [1, 53] {
        let message = Message::new(DataType::I32, count * u64::from(plan.num_ranks()));
        let (mut run, cpu) =
            (world.prepare(&plan, message)?, cpu::Executor::new(plan.num_ranks()).prepare(&plan, message)?);
        let (mut buffers, mut host, stream) = (run.buffers()?, cpu.buffers()?, world.stream()?);
        let verifier = Verifier::new(&cpu, rig.seed).with_expectations(&tree.expectations);
        verifier.fill(&mut host);
        for rank in 0..plan.num_ranks() {
            buffers.write_output(rank, host.output(rank))?;
            buffers.write_input(rank, host.input(rank))?;
        }
        run.launch_buffers(&mut buffers, &stream)?;
        run.synchronize(&stream)?;
        for rank in 0..plan.num_ranks() {
            buffers.read_output(rank, host.output_mut(rank))?;
        }
        let report = verifier.check(&host);
        if !report.is_correct() || report.is_unverified() {
            return Err(format!("{message:?}: {report}").into());
        }
    }
    Ok(())
}

fn of_file(rig: &Rig, file: &PathBuf) -> Result<(), Failed> {
    // Rejected plans have separate tests.
    std::fs::read(file).map(|bytes| Plan::load(&bytes).map_or(Ok(()), |plan| check(rig, &plan)))?
}
