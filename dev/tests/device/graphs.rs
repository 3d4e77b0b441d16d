//! Graphs that replay launches, interleaved with eager ones.

use libtest_mimic::Failed;
use mscclpp_algorithms as algorithms;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{DeviceBuffer, Executor, PrepareOptions, time};
use mscclpp_exec::{DataType, Error, Message};

use super::bits::{Pair, shipped};
use super::{Rig, Test, at};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("graphs::replays_between_eager_launches", replays_between_eager_launches),
        Test::new("graphs::ten_thousand_replays", ten_thousand_replays),
        Test::new("graphs::flags_of_packets_restart", flags_of_packets_restart),
        Test::new("graphs::old_packets_are_cleared_before_their_flags_return", old_packets_are_cleared),
        Test::new("graphs::timed", timed),
        Test::new("graphs::uncapturable_call_in_capture_is_rejected", uncapturable_call_in_capture_is_rejected),
        Test::new("graphs::graph_keeps_address_table_of_many_ranks", graph_keeps_address_table_of_many_ranks),
    ]
}

fn replays_between_eager_launches(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_all_pairs", "alltoall_packets"] {
        let plan = shipped(name, 4)?;
        let world = Executor::new(&rig.device, 4);
        // The very first launch is captured: no warm-up is needed.
        let mut pair = Pair::new(&world, &plan, Message::new(DataType::F32, 4 * 33).any_size())?
            .ok_or("too many thread blocks")?;
        let other_stream = rig.device.stream()?;
        let Pair { run, buffers, .. } = &mut pair;
        let graph = other_stream.capture(|stream| run.launch_buffers(buffers, stream))?;
        for round in 0..if rig.small { 6 } else { 50 } {
            pair.replay(&graph, round).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

/// Flags of packets are 32 bits and never 0, the value of cleared memory: launches before and after they restart are
/// correct, eagerly and in a graph, with specialized kernels and with scratch in halves.
fn flags_of_packets_restart(rig: &Rig) -> Result<(), Failed> {
    for name in ["allreduce_packets", "allreduce_one_shot_packets", "allreduce_ring", "alltoall_packets"] {
        for specialize in [false, name == "allreduce_packets" && rig.device.compiler().is_ok()] {
            let world = Executor::new(&rig.device, 3);
            let message = Message::new(DataType::F32, 3 * 64).any_size();
            let prepare = PrepareOptions::default().specialize(specialize);
            let mut pair = Pair::with(&world, &shipped(name, 3)?, message, prepare)?.ok_or("too many thread blocks")?;
            // Packets with the flags that come again.
            pair.check(8)?;
            pair.run.skip_launches((1 << 32) - 8)?;
            let recorder = rig.device.stream()?;
            let Pair { run, buffers, .. } = &mut pair;
            let graph = recorder.capture(|stream| run.launch_buffers(buffers, stream))?;
            for round in 0..20 {
                pair.replay(&graph, round).map_err(|failed| at(format_args!("{name}, launch {round}"), &failed))?;
            }
        }
    }
    Ok(())
}

/// A launch takes no packet for its own that was stored as many launches before as there are flags, in memory that no launch in between
/// has used; also if it is the scratch of a graph, and later launches use a larger one.
fn old_packets_are_cleared(rig: &Rig) -> Result<(), Failed> {
    /// Launches after which flags and halves of scratch are the same.
    const PERIOD: u64 = 2 * ((1 << 32) - 1);
    // Devices search every 1024 launches, the simulator in every other one.
    let searched = if rig.device.properties().name == "simulated device" { 1_600 } else { 150_000 };
    for name in ["allreduce_packets", "allreduce_one_shot_packets"] {
        for is_graph in [false, true] {
            let (plan, world) = (shipped(name, 2)?, Executor::new(&rig.device, 2));
            let prepare = |len| -> Result<Pair, Failed> {
                let message = Message::new(DataType::F32, len).any_size();
                Ok(Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?)
            };
            let mut early = prepare(2 * 900)?;
            let Pair { run, buffers, .. } = &mut early;
            let graph = world.stream()?.capture(|stream| run.launch_buffers(buffers, stream))?;
            let mut check = |launches: u64| -> Result<(), Failed> {
                early.run.skip_launches(launches)?;
                // One in each half of scratch.
                for _ in 0..2 {
                    early.refill()?;
                    match is_graph {
                        // SAFETY: prepared plan and buffers live as long as `early`.
                        true => unsafe { graph.launch(early.stream())? },
                        false => early.launch()?,
                    }
                    early.compare()?;
                }
                Ok(())
            };
            check(0)?;
            // The scratch of a graph is kept beside the larger one.
            let _larger = if is_graph { Some(prepare(2 * 1_100)?) } else { None };
            let mut other = prepare(2)?;
            other.run.skip_launches(PERIOD / 4)?;
            other.check(1)?;
            for _ in 0..searched {
                other.launch()?;
            }
            other.run.synchronize(other.stream())?;
            check(PERIOD).map_err(|failed| at(format_args!("{name}, in a graph: {is_graph}"), &failed))?;
        }
    }
    Ok(())
}

/// After launches were timed, the next one is correct.
fn timed(rig: &Rig) -> Result<(), Failed> {
    let plan = shipped("allreduce_packets", 2)?;
    let message = Message::new(DataType::F32, 50).any_size();
    let mut pair = Pair::new(&Executor::new(&rig.device, 2), &plan, message)?.ok_or("too many thread blocks")?;
    let stream = rig.device.stream()?;
    let times = time(&mut pair.run, &mut pair.buffers, &stream, rig.small.then_some(10))?;
    if times.host.is_zero() || !rig.small && (times.graph.is_zero() || times.eager < times.graph / 2) {
        return Err(format!("{times:?}").into());
    }
    pair.check(2)
}

fn ten_thousand_replays(rig: &Rig) -> Result<(), Failed> {
    let ranks = if rig.small { 3 } else { 8 };
    // Out of place, so that all launches on the same inputs have the same results.
    let algorithm = algorithms::find("allreduce_packets").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(ranks, ranks);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let world = Executor::new(&rig.device, ranks);
    let mut pair =
        Pair::new(&world, &plan, Message::new(DataType::F32, if rig.small { 100 } else { 1000 }).any_size())?
            .ok_or("too many thread blocks")?;
    let recorder = rig.device.stream()?;
    let Pair { run, buffers, .. } = &mut pair;
    let graph = recorder.capture(|stream| run.launch_buffers(buffers, stream))?;
    let is_short = rig.small && std::env::var_os("MSCCLPP_ALL").is_none();
    for round in 0..if is_short { 20 } else { 10_000 } {
        if round % 100 == 0 {
            pair.refill()?;
        }
        // SAFETY: prepared plan and buffers live as long as `pair`.
        unsafe { graph.launch(pair.stream())? };
        if round % 7 == 0 {
            pair.launch()?;
        }
        if round % 100 == 99 {
            pair.compare()?;
        }
    }
    pair.compare()
}

/// A call that must be made before a capture returns a typed error in one; only that capture is lost.
fn uncapturable_call_in_capture_is_rejected(rig: &Rig) -> Result<(), Failed> {
    let (plan, message) = (shipped("allreduce_packets", 2)?, Message::new(DataType::F32, 50).any_size());
    let world = Executor::new(&rig.device, 2);
    let mut pair = Pair::new(&world, &plan, message)?.ok_or("too many thread blocks")?;
    let (stream, slice) = (world.stream()?, pair.buffers.input(0));
    type Call<'a> = (&'a str, &'a dyn Fn(&Pair) -> Result<(), Error>);
    let calls: [Call<'_>; 6] = [
        ("cannot prepare a plan", &|_| world.prepare(&plan, message).map(drop)),
        ("cannot allocate buffers", &|pair| pair.run.buffers().map(drop)),
        ("cannot bind buffers", &|pair| pair.run.bind([[slice, slice]; 2]).map(drop)),
        ("cannot allocate memory", &|_| world.alloc(0, 100).map(drop)),
        ("cannot allocate memory", &|_| DeviceBuffer::new(&rig.device, 100).map(drop)),
        // The driver's own error.
        ("cuStreamSynchronize failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", &|_| stream.synchronize()),
    ];
    for (expected, call) in calls {
        match stream.capture(|_| call(&pair)).err() {
            Some(error @ Error::Capturing { .. }) if error.code() == Code::Capturing => {
                let text = error.to_string();
                if !text.starts_with(expected) || !text.contains(" while a stream is captured; ") {
                    return Err(format!("{text}, expected `{expected}`").into());
                }
            }
            other => return Err(format!("{expected}: {other:?}").into()),
        }
        pair.check(1).map_err(|failed| at(expected, &failed))?;
    }
    let Pair { run, buffers, .. } = &mut pair;
    let graph = stream.capture(|stream| run.launch_buffers(buffers, stream))?;
    pair.refill()?;
    // SAFETY: prepared plan and buffers live as long as `pair`.
    unsafe { graph.launch(pair.stream())? };
    pair.compare()
}

/// The addresses of this number of ranks are in a table; the table of a graph does not change, whatever is launched
/// between its replays.
fn graph_keeps_address_table_of_many_ranks(rig: &Rig) -> Result<(), Failed> {
    let algorithm = algorithms::find("allgather_ring").ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(33, 33);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile_tree(spec, &algorithm.arguments([])?)?);
    let message = Message::new(DataType::U8, 33 * 16).any_size();
    let world = Executor::new(&rig.device, 33);
    let mut run = world.prepare(&plan, message)?;
    let stream = world.stream()?;
    let mut all = [run.buffers()?, run.buffers()?, run.buffers()?];
    // On buffers that were never launched on.
    let mut graphs = vec![stream.capture(|stream| run.launch_buffers(&mut all[0], stream))?];
    for (number, buffers) in all.iter_mut().enumerate() {
        for rank in 0..33 {
            buffers.write_input(rank, &[16 * number as u8 + rank as u8; 16])?;
        }
        run.launch_buffers(buffers, &stream)?;
        if number == 1 {
            graphs.push(stream.capture(|stream| run.launch_buffers(buffers, stream))?);
        }
    }
    run.synchronize(&stream)?;
    for (number, graph) in graphs.iter().enumerate() {
        for (other, buffers) in all.iter_mut().enumerate() {
            for rank in 0..33 {
                buffers.write_output(rank, &[0xa5; 33 * 16])?;
            }
            // The eager launch in between is another one each time.
            if other > 0 {
                run.launch_buffers(buffers, &stream)?;
                run.synchronize(&stream)?;
            }
        }
        for rank in 0..33 {
            all[number].write_output(rank, &[0xa5; 33 * 16])?;
        }
        // SAFETY: prepared plan and buffers live until the stream is complete.
        unsafe { graph.launch(&stream)? };
        run.synchronize(&stream)?;
        let mut found = [0; 33 * 16];
        for rank in 0..33 {
            all[number].read_output(rank, &mut found)?;
            if let Some(at) = (0..found.len()).find(|&at| found[at] != (16 * number + at / 16) as u8) {
                return Err(format!("graph {number}, rank {rank}, byte {at}: {:#x}", found[at]).into());
            }
        }
    }
    Ok(())
}
