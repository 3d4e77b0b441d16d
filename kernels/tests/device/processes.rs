//! Ranks with a group of their own: in threads, each with a simulated machine of its own, so that all memory of others is
//! mapped; and in processes.

use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use mscclpp_core::plan::{OpKind, Plan};
use mscclpp_exec::algorithms::{self, Placement, Shipped};
use mscclpp_exec::bootstrap::{self, Bootstrap};
use mscclpp_exec::cuda::jit::Cache;
use mscclpp_exec::cuda::{self, Device, DeviceBuffer, Prepare, World};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{DataType, Error, Message, cpu};
use mscclpp_kernels::{Options, simulator};

use super::bits::shipped;
use super::devices::with_seeds;
use super::{CACHE, mock, nodes, stalls};

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let plans = algorithms::all().iter().map(|algorithm| {
        let name = format!("processes::plans::{}", algorithm.name());
        with_seeds(name, seeds.clone(), move |seed| every_size(seed, algorithm))
    });
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 6] = [
        ("every_call_fails_once", every_call_fails_once),
        ("freed_memory_is_noticed", freed_memory_is_noticed),
        ("launches_that_stall_end_the_world", launches_that_stall_end_the_world),
        ("ranks_that_differ_are_told", ranks_that_differ_are_told),
        ("ranks_without_memory_are_told", ranks_without_memory_are_told),
        ("of_the_system", |seed| of_the_system(seed, "simulator")),
    ];
    let tests = tests.into_iter().map(|(name, test)| with_seeds(format!("processes::{name}"), seeds.clone(), test));
    plans.chain(tests).collect()
}

/// What ranks do: launches with inputs, and what outputs must be.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) message: Message,
    /// By launch and rank: input, output before, output after.
    launches: Vec<Vec<[Vec<u8>; 3]>>,
}

impl Work {
    pub(crate) fn new(plan: Plan, message: Message, launches: u64) -> Result<Self, Failed> {
        let ranks = plan.num_ranks();
        let mut run = cpu::World::new(ranks).prepare(&plan, message)?;
        let mut buffers = run.buffers()?;
        let mut all = Vec::new();
        for launch in 0..launches {
            for rank in 0..ranks {
                buffers.output_mut(rank).fill(0xa5);
            }
            Verifier::with_pattern(&run, launch + 1, Pattern::Real).fill(&mut buffers);
            let before: Vec<_> =
                (0..ranks).map(|rank| (buffers.input(rank).to_vec(), buffers.output(rank).to_vec())).collect();
            run.launch_buffers(&mut buffers)?;
            let after = before.into_iter().zip(0..).map(|((i, o), rank)| [i, o, buffers.output(rank).to_vec()]);
            all.push(after.collect());
        }
        Ok(Self { plan, message, launches: all })
    }

    /// A rank's part.
    pub(crate) fn run(&self, world: &World, rank: u32) -> Result<(), Error> {
        self.run_as(world, rank, Prepare::default())
    }

    /// The same, prepared with settings.
    pub(crate) fn run_as(&self, world: &World, rank: u32, prepare: Prepare) -> Result<(), Error> {
        let mut run = world.prepare_with(&self.plan, self.message, prepare)?;
        if prepare.specialise {
            run.specialised().map_err(|why| Error::Internal(format!("not specialised: {why}")))?;
        }
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        for (number, launch) in self.launches.iter().enumerate() {
            let [input, before, after] = &launch[rank as usize];
            buffers.write_output(rank, before)?;
            buffers.write_input(rank, input)?;
            run.launch_buffers(&mut buffers, &stream)?;
            run.synchronize(&stream)?;
            let mut found = vec![0; after.len()];
            buffers.read_output(rank, &mut found)?;
            if let Some(at) = (0..found.len()).find(|&at| found[at] != after[at]) {
                let text = format!("launch {number}, byte {at}: {:#x}, expected {:#x}", found[at], after[at]);
                return Err(Error::Internal(text));
            }
        }
        Ok(())
    }
}

/// Options of a rank's machine.
pub(crate) fn machine_options(seed: u64, rank: u32, files: bool) -> Options {
    let stop_at_one_of = [0, 16, 3][seed as usize % 3];
    // Every other day with multicast objects.
    let multicast = if seed.is_multiple_of(2) { u32::MAX } else { 0 };
    Options { seed: seed + u64::from(rank), stop_at_one_of, others: true, files, multicast, ..Options::default() }
}

/// Ranks in threads, each with a device behind a driver of its own. `run`: what each does.
fn in_threads(
    seed: u64,
    ranks: u32,
    files: bool,
    run: impl Fn(&World, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<(), Failed> {
    let options = |rank| machine_options(seed, rank, files);
    let results = each_in_a_thread(ranks, options, cuda::Options::default(), run)?;
    let named = (0..).zip(results).filter_map(|(rank, result)| Some(format!("rank {rank}: {}", result.err()?)));
    let failed: Vec<String> = named.collect();
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

/// The same; how each came out.
pub(crate) fn each_in_a_thread(
    ranks: u32,
    machine: impl Fn(u32) -> Options + Sync,
    options: cuda::Options,
    run: impl Fn(&World, &Device, u32) -> Result<(), Error> + Sync,
) -> Result<Vec<Result<(), Error>>, Failed> {
    let deadline = bootstrap::Options::default().deadline(Duration::from_secs(20));
    let groups = Bootstrap::local_with(ranks, deadline)?;
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .zip(groups)
            .map(|(rank, group)| {
                let (run, machine) = (&run, &machine);
                scope.spawn(move || {
                    let device = Device::with_driver(simulator(machine(rank)).map_err(Error::Internal)?);
                    let world = World::join(&Arc::new(group), &device, options)?;
                    run(&world, &device, rank)
                })
            })
            .collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|_| Err(Error::Internal("it panicked".into())))
        };
        threads.into_iter().map(join).collect()
    }))
}

/// Every rank on a device of its own.
fn every_size(seed: u64, algorithm: &Shipped) -> Result<(), Failed> {
    for (ranks, per_node, files) in [(2, 2, false), (3, 3, true), (2, 1, true)] {
        if !algorithm.supports(ranks, per_node) {
            continue;
        }
        let mut spec = algorithm.spec(ranks, per_node);
        spec.collective.in_place = algorithm.placement() == Placement::InPlace;
        let plan = Plan::new(&algorithm.compile(spec, &algorithm.arguments([])?)?);
        let works = [16, 53].map(|count| {
            let message = Message::new(DataType::F32, count * u64::from(ranks)).any_size();
            Work::new(plan.clone(), message, 2)
        });
        let works = works.into_iter().collect::<Result<Vec<_>, _>>()?;
        in_threads(seed, ranks, files, |world, _, rank| works.iter().try_for_each(|work| work.run(world, rank)))?;
    }
    Ok(())
}

/// Memory that is freed and allocated again, perhaps at the same address, is shared anew.
fn freed_memory_is_noticed(seed: u64) -> Result<(), Failed> {
    in_threads(seed, 2, false, |world, device, rank| {
        files_and_handles(world, device, rank, "allgather_all_pairs")
            .map_err(|failed| Error::Internal(format!("{failed:?}")))
    })
}

/// Launches of an all-gather on memory that comes and goes, some of it made to be shared.
pub(crate) fn files_and_handles(world: &World, device: &Device, rank: u32, name: &str) -> Result<(), Failed> {
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    let mut spec = algorithm.spec(2, 2);
    spec.collective.in_place = false;
    let plan = Plan::new(&algorithm.compile(spec, &algorithm.arguments([])?)?);
    let message = Message::new(DataType::U8, 64);
    let mut run = world.prepare(&plan, message)?;
    let stream = world.stream()?;
    let whole = run.buffers()?;
    let [input, output] = [whole.input(rank).bytes, whole.output(rank).bytes];
    for round in 0..4_u8 {
        let bytes = input + output + 16;
        // Memory that others know by a handle, and such that they get as a file.
        let shared = round % 2 == 1;
        let mut memory = if shared { world.alloc(rank, bytes)? } else { DeviceBuffer::new(device, bytes)? };
        let value = 16 * round + rank as u8 + 1;
        memory.write(&vec![value; (input + output + 16) as usize])?;
        // The second time nothing is sent but where they lie.
        for _ in 0..2 {
            let slices = [memory.slice(0..input), memory.slice(input + 16..input + 16 + output)];
            let [Some(first), Some(second)] = slices else { return Err("not inside".into()) };
            let binding = run.bind([[first, second]])?;
            // SAFETY: this rank's memory, which lives until the launch is over.
            unsafe { run.launch_bound(&binding, &stream)? };
            run.synchronize(&stream)?;
        }
        let mut found = vec![0; (input + output + 16) as usize];
        memory.read(&mut found)?;
        let (at, half) = ((input + 16) as usize, output as usize / 2);
        for peer in 0..2 {
            let expected = 16 * round + peer as u8 + 1;
            let part = &found[at + peer * half..][..half];
            if part.iter().any(|&byte| byte != expected) {
                return Err(format!("round {round}, part {peer}: {part:x?}").into());
            }
        }
    }
    Ok(())
}

/// A missing signal is named, by the rank that waits for it; then nobody waits for what cannot come.
fn launches_that_stall_end_the_world(seed: u64) -> Result<(), Failed> {
    let tree = stalls::without("allreduce_ring", 2, 1, OpKind::Signal)?;
    let (broken, right) = (Plan::new(&tree), shipped("allreduce_ring", 2)?);
    let message = Message::new(DataType::F32, 100).any_size();
    let machine = |rank| Options { patience: Duration::from_secs(1), ..machine_options(seed, rank, false) };
    let options = cuda::Options { timeout: Duration::from_millis(1), ..cuda::Options::default() };
    let results = each_in_a_thread(2, machine, options, |world, _, _| {
        let mut run = world.prepare(&broken, message)?;
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        let launched = run.launch_buffers(&mut buffers, &stream).and_then(|()| run.synchronize(&stream));
        for again in [run.launch_buffers(&mut buffers, &stream), world.prepare(&right, message).map(|_| ())] {
            if !matches!(again, Err(Error::Broken { .. })) {
                return Err(Error::Internal(format!("after a stall: {again:?}")));
            }
        }
        launched
    })?;
    let stalled = |result: &Result<(), Error>| matches!(result, Err(Error::Stalled(_)));
    if results.iter().all(stalled) { Ok(()) } else { Err(format!("{results:?}").into()) }
}

fn ranks_that_differ_are_told(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    let machine = |rank| machine_options(seed, rank, false);
    let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, rank| {
        let message = Message::new(DataType::F32, 100 + u64::from(rank)).any_size();
        world.prepare(&plan, message).map(|_| ())
    })?;
    let told = |result: &Result<(), Error>| matches!(result, Err(Error::Mismatch { call, other, .. }) if call != other);
    if results.iter().all(told) { Ok(()) } else { Err(format!("{results:?}").into()) }
}

/// A rank that has no memory says so to the others; it does not keep them waiting.
fn ranks_without_memory_are_told(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    // Counters, tables, scratch: each in its turn.
    for nth in 1..=12 {
        let failing = |rank| (rank == 1).then_some(("cuMemAlloc", nth));
        let machine = |rank| Options { failing: failing(rank), ..machine_options(seed, rank, false) };
        let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, _| {
            let run = world.prepare(&plan, Message::new(DataType::F32, 100).any_size())?;
            run.buffers().map(|_| ())
        })?;
        let [first, second] = results.as_slice() else { return Err("two ranks".into()) };
        match (first, second) {
            // What it has shared already may be gone before the other one has mapped it.
            (Err(Error::Lost { peer: 1, .. } | Error::NotMapped { peer: 1, .. }), Err(Error::Driver(_))) => {}
            _ => return Err(format!("allocation {nth}: {results:?}").into()),
        }
    }
    Ok(())
}

/// Calls for memory of other processes, each of the first ones of which fails on one rank: nobody waits for what cannot come, and
/// nothing is left behind, to which the simulator sees.
fn every_call_fails_once(seed: u64) -> Result<(), Failed> {
    let plan = shipped("allreduce_ring", 2)?;
    let heard = ["cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuMemGetAddressRange", "cuPointerGetAttribute"];
    let calls = heard.map(|call| (call, true)).into_iter().chain([("cuIpcCloseMemHandle", false)]);
    for (call, is_heard) in calls {
        for nth in 1..=20 {
            let failing = |rank| (rank == 1).then_some((call, nth));
            let machine = |rank| Options { failing: failing(rank), ..machine_options(seed, rank, false) };
            let results = each_in_a_thread(2, machine, cuda::Options::default(), |world, _, _| {
                let run = world.prepare(&plan, Message::new(DataType::F32, 100).any_size())?;
                run.buffers().map(|_| ())
            })?;
            let [first, second] = results.as_slice() else { return Err("two ranks".into()) };
            let is_named = match second {
                Err(Error::Driver(error)) => error.call == call,
                Err(Error::NotMapped { error, peer: 0, .. }) => error.call == call,
                _ => false,
            };
            match (first, second) {
                (Ok(()), Ok(())) if nth > 1 || !is_heard => break,
                // What was the last one to do is done.
                (Ok(()) | Err(Error::Lost { peer: 1, .. } | Error::NotMapped { peer: 1, .. }), Err(_)) if is_named => {}
                _ => return Err(format!("call {nth} of {call}: {results:?}").into()),
            }
        }
    }
    Ok(())
}

/// Name of the variable that makes this program a rank: the role, the driver, and the seed.
const RANK: &str = "MSCCLPP_TEST_RANK";

/// Algorithms that processes run: signals, packets, ports, switches.
const OF_PROCESSES: [&str; 4] =
    ["allreduce_all_pairs", "allreduce_packets", "allgather_ring_ports", "allreduce_switch"];

/// Processes of the system, each with a rank.
pub(crate) fn of_the_system(seed: u64, driver: &str) -> Result<(), Failed> {
    Job::start("processes", driver, seed, 2, 2)?.succeed()
}

/// Processes of the system, each with a rank; killed when dropped.
pub(crate) struct Job {
    ranks: Vec<Child>,
}

impl Job {
    /// Starts `ranks` processes in a role; `per_node` of them count as one node.
    pub(crate) fn start(role: &str, driver: &str, seed: u64, ranks: u32, per_node: u32) -> Result<Self, Failed> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        drop(listener);
        let mut job = Self { ranks: Vec::new() };
        for rank in 0..ranks {
            let child = Command::new(std::env::current_exe()?)
                .env(RANK, format!("{role} {driver} {seed}"))
                .envs([("RANK", rank.to_string()), ("WORLD_SIZE", ranks.to_string())])
                .envs(
                    [("LOCAL_RANK", rank % per_node), ("LOCAL_WORLD_SIZE", per_node)].map(|(k, v)| (k, v.to_string())),
                )
                .envs([("MASTER_ADDR", "127.0.0.1".to_owned()), ("MASTER_PORT", port.to_string())])
                .envs([("MSCCLPP_SECRET", format!("{seed:032x}")), ("MSCCLPP_TIMEOUT", "30".to_owned())])
                .env("MSCCLPP_HOST_ID", format!("node {}", rank / per_node))
                .env("MSCCLPP_LIVENESS", if role == "stopped" { "2" } else { "10" })
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()?;
            job.ranks.push(child);
        }
        Ok(job)
    }

    /// Ends a process at once.
    pub(crate) fn kill(&mut self, rank: usize) -> Result<(), Failed> {
        Ok(self.ranks[rank].kill()?)
    }

    /// Stops a process, which does not end.
    pub(crate) fn stop(&mut self, rank: usize) -> Result<(), Failed> {
        let done = Command::new("kill").args(["-s", "STOP", &self.ranks[rank].id().to_string()]).status()?;
        if done.success() { Ok(()) } else { Err("kill failed".into()) }
    }

    /// Waits until a rank has said a line.
    pub(crate) fn wait_for_line(&mut self, rank: usize, line: &str) -> Result<(), Failed> {
        let mut text = Vec::new();
        let output = self.ranks[rank].stdout.as_mut().ok_or("no output")?;
        let mut byte = [0];
        while !text.ends_with(line.as_bytes()) {
            if output.read(&mut byte)? == 0 {
                return Err(format!("rank {rank} said `{}`", String::from_utf8_lossy(&text)).into());
            }
            text.push(byte[0]);
        }
        Ok(())
    }

    /// Waits for all processes: whether each succeeded, and what it said.
    pub(crate) fn wait(self) -> Result<Vec<(bool, String)>, Failed> {
        self.wait_without(None)
    }

    /// The same, but for one that may be there until all others have ended.
    pub(crate) fn wait_without(mut self, except: Option<usize>) -> Result<Vec<(bool, String)>, Failed> {
        let mut last = except.map(|rank| self.ranks.remove(rank));
        // A guard against hangs only.
        let deadline = Instant::now() + Duration::from_secs(240);
        // Whoever says much must be listened to.
        let listen = |child: &mut Child| {
            let pipes: [Option<Box<dyn Read + Send>>; 2] = [
                child.stdout.take().map(|pipe| Box::new(pipe) as _),
                child.stderr.take().map(|pipe| Box::new(pipe) as _),
            ];
            pipes.map(|pipe| {
                thread::spawn(move || {
                    let mut text = String::new();
                    let _ = pipe.map(|mut pipe| pipe.read_to_string(&mut text));
                    text
                })
            })
        };
        let texts: Vec<_> = self.ranks.iter_mut().map(listen).collect();
        let mut ended = Vec::new();
        for (child, texts) in self.ranks.iter_mut().zip(texts) {
            let status = loop {
                match child.try_wait()? {
                    Some(status) => break status,
                    None if Instant::now() > deadline => {
                        let _ = child.kill();
                        break child.wait()?;
                    }
                    None => thread::sleep(Duration::from_millis(5)),
                }
            };
            let texts = texts.map(|text| text.join().unwrap_or_default()).concat();
            ended.push((status.success(), format!("{status}: {texts}")));
        }
        if let Some(last) = &mut last {
            last.kill()?;
            last.wait()?;
        }
        Ok(ended)
    }

    /// Waits for all processes, which must succeed.
    pub(crate) fn succeed(self) -> Result<(), Failed> {
        let ended = (0..).zip(self.wait()?);
        let failed: Vec<String> = ended
            .filter(|(_, (succeeded, _))| !succeeded)
            .map(|(rank, (_, text))| format!("rank {rank}, {text}"))
            .collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        for child in &mut self.ranks {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a process is that plays a role.
pub(crate) struct Player {
    pub(crate) group: Arc<Bootstrap>,
    driver: String,
    pub(crate) seed: u64,
}

impl Player {
    /// A device of its own, and what it depends on.
    pub(crate) fn device(&self, options: Options) -> Result<(Device, Option<mock::Mock>), Failed> {
        Ok(match self.driver.as_str() {
            "mock" => {
                let rig = mock::driver()?.devices(options, 1)?;
                (rig.devices[0].clone(), Some(rig))
            }
            _ => (Device::with_cache(simulator(options)?, Cache::at(CACHE)), None),
        })
    }

    /// Whether there is a compiler at run time.
    pub(crate) fn compiles(&self) -> bool {
        self.driver != "mock"
    }
}

/// If this process is a rank, does its part; whether it went well.
pub(crate) fn rank() -> Option<Result<(), Failed>> {
    let what = std::env::var(RANK).ok()?;
    let work = || -> Result<(), Failed> {
        let [role, driver, seed] = what.split(' ').collect::<Vec<_>>().try_into().map_err(|_| "no role")?;
        let player = Player { group: Arc::new(Bootstrap::from_env()?), driver: driver.to_owned(), seed: seed.parse()? };
        if role == "processes" { beside_one_another(&player) } else { nodes::play(role, &player) }
    };
    Some(work())
}

/// Plans of ranks on one node.
fn beside_one_another(player: &Player) -> Result<(), Failed> {
    let (group, rank) = (&player.group, player.group.rank());
    for files in [false, player.driver != "mock"] {
        let (device, _rig) = player.device(machine_options(player.seed, rank, files))?;
        let world = World::join(group, &device, cuda::Options::default())?;
        for name in OF_PROCESSES {
            let message = Message::new(DataType::F32, 2 * 53).any_size();
            let work = Work::new(shipped(name, 2)?, message, 3)?;
            work.run(&world, rank).map_err(|error| format!("{name}: {error}"))?;
        }
        files_and_handles(&world, &device, rank, "allgather_all_pairs")?;
        let run = world.prepare(&shipped("allreduce_switch", 2)?, Message::new(DataType::F32, 64))?;
        let buffers = run.buffers()?;
        let by_multicast = buffers.switches().iter().all(|switch| switch.path.is_ok());
        assert_eq!(by_multicast, device.is_nvls_supported(), "{:?}", buffers.switches());
    }
    Ok(())
}
