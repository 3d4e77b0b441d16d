//! Timelines of launches on devices: they have the operations of those on the CPU.

use libtest_mimic::Failed;
use mscclpp_exec::cuda::{Executor, PrepareOptions};
use mscclpp_exec::timeline::Timeline;
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Message, cpu};

use super::bits::shipped;
use super::{Rig, Test};

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("timeline::operations_are_those_of_the_cpu", operations_are_those_of_the_cpu).that_compiles()]
}

/// Rank, thread block, operation, iteration and launch of all events.
fn operations(timeline: &Timeline) -> Vec<(u32, u32, u32, u64, u64)> {
    let key =
        |event: &mscclpp_exec::timeline::Event| (event.rank, event.block, event.op, event.iteration, event.launch);
    let mut all: Vec<_> = timeline.events.iter().map(key).collect();
    all.sort_unstable_by_key(|&(rank, block, op, iteration, launch)| (rank, block, launch, op, iteration));
    all
}

fn operations_are_those_of_the_cpu(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_ring", "allreduce_all_pairs"] {
        let plan = shipped(name, 3)?;
        let message = Message::new(DataType::F32, 3 * 64).any_size();
        let mut expected = cpu::Executor::new(3).prepare(&plan, message)?;
        let mut cpu_buffers = expected.buffers()?;
        let executor = Executor::new(&rig.device, 3);
        // A timeline replaces specialized kernels by the interpreter.
        let prepare = PrepareOptions::default().specialize(name == "allreduce_packets");
        let mut run = executor.prepare_with_options(&plan, message, prepare)?;
        let (mut buffers, stream) = (run.buffers()?, executor.stream()?);
        let verifier = Verifier::new(&expected, 1);
        let mut launch = |run: &mut mscclpp_exec::cuda::PreparedPlan| -> Result<(), Failed> {
            verifier.fill_device(&mut buffers)?;
            run.launch_buffers(&mut buffers, &stream)?;
            run.synchronize(&stream)?;
            let report = verifier.check_device(&buffers)?;
            if report.is_correct() { Ok(()) } else { Err(format!("{name}: {report:?}").into()) }
        };
        launch(&mut run)?;
        expected.launch_buffers(&mut cpu_buffers)?;
        run.start_timeline()?;
        launch(&mut run)?;
        let found = run.take_timeline()?;
        expected.start_timeline();
        expected.launch_buffers(&mut cpu_buffers)?;
        let expected = expected.take_timeline();
        assert_eq!(found.dropped, 0, "{name}");
        assert_eq!(operations(&found), operations(&expected), "{name}");
        for two in found.events.windows(2) {
            let [first, second] = two else { continue };
            assert!(first.waited <= first.end - first.begin, "{name}: {first:?}");
            let is_same = (first.rank, first.block) == (second.rank, second.block);
            assert!(!is_same || first.end <= second.begin, "{name}: {first:?} {second:?}");
        }
        launch(&mut run)?;
        assert_eq!(run.take_timeline()?.events, [], "{name}: a launch that is not recorded");
    }
    Ok(())
}
