//! Plans whose sizes are counts: the devices exchange them, and move the elements that the CPU executor would.
//!
//! `MSCCLPP_ALL=1` runs all tables of 3 ranks and 1 000 replays of a graph instead of a sample.

use libtest_mimic::{Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::{Channels, Program};
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_exec::cuda::{
    Binding, Device, DeviceCounts, DeviceVec, Executor, Graph, Options, PrepareOptions, PreparedPlan, Stream,
};
use mscclpp_exec::error::{CountLimit, CountOverflow};
use mscclpp_exec::{DataType, Error, Message, cpu};

use super::devices::{seeds_of_case, with_seeds, world};
use super::{Rig, Test, at};

/// What elements of outputs hold that no rank has sent.
const FILL: u32 = u32::MAX;

const ALGORITHMS: [&str; 3] = ["alltoallv_pull", "alltoallv_direct", "alltoallv_staged"];

/// The plan of thread blocks that divide counted elements.
const DIVIDED: &str = "divided";

pub(crate) fn tests() -> Vec<Test> {
    let interpreted = [
        Test::new("counts::tables_of_two_ranks", |rig| every_table(rig, 2, 3, 1, PrepareOptions::default())),
        Test::new("counts::tables_of_three_ranks", |rig| {
            every_table(rig, 3, 2, if is_all() { 1 } else { 211 }, PrepareOptions::default())
        }),
        Test::new("counts::random_tables_equal_those_of_the_cpu", random_tables),
        Test::new("counts::counts_without_room_are_reported", counts_without_room_are_reported),
        Test::new("counts::graphs_are_replayed_with_new_counts", graphs_are_replayed_with_new_counts),
        Test::new("counts::lists_of_other_lengths_are_rejected", lists_of_other_lengths_are_rejected),
    ];
    let specialized = Test::new("counts::specialized_kernels", |rig| {
        every_table(rig, 2, 3, if is_all() { 1 } else { 5 }, PrepareOptions::default().specialize(true))
    });
    interpreted.into_iter().chain([specialized.that_compiles()]).collect()
}

/// The tests with ranks on several simulated devices.
pub(crate) fn on_several_devices(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    let run = |seed: u64| -> Result<(), Failed> {
        for (name, map) in
            [("alltoallv_pull", &[0, 1, 2][..]), ("alltoallv_direct", &[0, 0, 1, 1]), ("alltoallv_staged", &[0, 1, 1])]
        {
            let mut exchange = Exchange::on(&world(seed, map)?, map, name, 9, PrepareOptions::default())?;
            let mut random = Random(seed);
            for _ in 0..8 {
                exchange.check(&random.table(map.len(), 9)).map_err(|failed| at(name, &failed))?;
            }
            let mut table = random.table(map.len(), 9);
            table[1][0] = 10;
            exchange.refuse(&table)?;
            exchange.check(&random.table(map.len(), 9))?;
        }
        Ok(())
    };
    vec![with_seeds("devices::counts".into(), seeds_of_case(&seeds, 0), run)]
}

/// Exchanges some tables, of which one has no room.
pub(crate) fn exchange(device: &Device, options: Options) -> Result<(), Failed> {
    for name in ["alltoallv_direct", "alltoallv_staged"] {
        let world = Executor::with_options(device, 3, options);
        let mut exchange = Exchange::new(&world, name, 7, PrepareOptions::default())?;
        let mut random = Random(7);
        for _ in 0..3 {
            exchange.check(&random.table(3, 7))?;
        }
        exchange.refuse(&vec![vec![8, 0, 0]; 3])?;
    }
    Ok(())
}

fn is_all() -> bool {
    std::env::var_os("MSCCLPP_ALL").is_some()
}

type Table = Vec<Vec<i64>>;

/// Numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 29) % end
    }

    fn table(&mut self, ranks: usize, most: u64) -> Table {
        (0..ranks).map(|_| (0..ranks).map(|_| self.below(most + 1) as i64).collect()).collect()
    }
}

/// Element `index` of what a rank sends to another one.
fn element(sender: usize, receiver: usize, index: i64) -> u32 {
    (100 * sender + 10 * receiver) as u32 * 1000 + index as u32
}

fn elements(sender: usize, receiver: usize, count: i64) -> impl Iterator<Item = u32> {
    (0..count).map(move |index| element(sender, receiver, index))
}

fn input_of(table: &Table, rank: usize) -> Vec<u32> {
    (0..table.len()).flat_map(|receiver| elements(rank, receiver, table[rank][receiver])).collect()
}

fn output_of(table: &Table, rank: usize) -> Vec<u32> {
    (0..table.len()).flat_map(|sender| elements(sender, rank, table[sender][rank])).collect()
}

/// Two thread blocks read halves of what other ranks have.
fn divided(ranks: u32) -> Result<Plan, Failed> {
    let program = Program::new(AlgoSpec::new(DIVIDED, CollectiveKind::AllToAllV, ranks));
    let (p, all) = (&program, ranks as usize);
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
    Ok(Plan::new(&lower(&program.finish()?)?))
}

fn plan_of(name: &str, ranks: u32) -> Result<Plan, Failed> {
    if name == DIVIDED {
        return divided(ranks);
    }
    let algorithm = algorithms::find(name).ok_or("no such algorithm")?;
    Ok(algorithm.plan(algorithm.spec(ranks, ranks), &[])?)
}

/// A prepared plan and the memory of all ranks.
struct Exchange {
    // Dropped first: its destructor waits for launches.
    binding: Binding,
    run: PreparedPlan,
    stream: Stream,
    inputs: Vec<DeviceVec<u32>>,
    outputs: Vec<DeviceVec<u32>>,
    sent: Vec<DeviceVec<i64>>,
    received: Vec<DeviceVec<i64>>,
    plan: Plan,
    most: u64,
}

impl Exchange {
    fn new(world: &Executor, name: &str, most: u64, prepare: PrepareOptions) -> Result<Self, Failed> {
        Self::on(world, &vec![0; world.num_ranks() as usize], name, most, prepare)
    }

    /// Prepares a plan of ranks that are on the devices of these numbers.
    fn on(world: &Executor, map: &[usize], name: &str, most: u64, prepare: PrepareOptions) -> Result<Self, Failed> {
        let ranks = world.num_ranks();
        let plan = plan_of(name, ranks)?;
        let message = Message::of::<u32>((u64::from(ranks) * most) as usize);
        let run = world.prepare_with_options(&plan, message, prepare)?;
        let device = |rank: u32| &world.devices()[map[rank as usize]];
        let memory = |rank, len| -> Result<DeviceVec<u32>, Failed> { Ok(DeviceVec::new(device(rank), len)?) };
        let list = |rank| -> Result<DeviceVec<i64>, Failed> { Ok(DeviceVec::new(device(rank), ranks as usize)?) };
        let len = (u64::from(ranks) * most) as usize;
        let inputs = (0..ranks).map(|rank| memory(rank, len)).collect::<Result<Vec<_>, _>>()?;
        // At any alignment of elements, and longer than needed.
        let outputs = (0..ranks).map(|rank| memory(rank, len + 3 + rank as usize)).collect::<Result<Vec<_>, _>>()?;
        let sent = (0..ranks).map(list).collect::<Result<_, _>>()?;
        let received = (0..ranks).map(list).collect::<Result<_, _>>()?;
        let binding =
            run.bind(inputs.iter().zip(&outputs).map(|(input, output)| [input.as_slice(), output.as_slice()]))?;
        Ok(Self { binding, run, stream: world.stream()?, inputs, outputs, sent, received, plan, most })
    }

    /// Writes a table, the inputs that it states, and the fill of outputs.
    fn set(&mut self, table: &Table) -> Result<(), Failed> {
        for rank in 0..table.len() {
            let len = self.inputs[rank].len();
            let mut input = input_of(&table.iter().map(|row| clamped(row, self.most)).collect(), rank);
            input.resize(len, FILL - 1);
            self.inputs[rank].write(&input)?;
            let fill = vec![FILL; self.outputs[rank].len()];
            self.outputs[rank].write(&fill)?;
            self.sent[rank].write(&table[rank])?;
            self.received[rank].write(&vec![-7; table.len()])?;
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<(), Error> {
        let lists = self.sent.iter().zip(&self.received);
        let list = |(sent, received): (&DeviceVec<i64>, &DeviceVec<i64>)| DeviceCounts {
            sent: sent.as_slice(),
            received: received.as_slice(),
            dtype: DataType::I64,
            unit: 1,
        };
        let counts: Vec<_> = lists.map(list).collect();
        // SAFETY: memory of the ranks' devices, which lives as long as `self`.
        unsafe { self.run.launch_counted(&self.binding, &counts, &self.stream) }
    }

    /// Compares the outputs with what ranks have sent.
    fn compare(&self, table: &Table) -> Result<(), Failed> {
        for rank in 0..table.len() {
            let mut expected = output_of(table, rank);
            expected.resize(self.outputs[rank].len(), FILL);
            let found = self.outputs[rank].to_vec()?;
            if found != expected {
                return Err(format!("{table:?}, rank {rank}: {found:?}, expected {expected:?}").into());
            }
            let column: Vec<i64> = table.iter().map(|row| row[rank]).collect();
            let received = self.received[rank].to_vec()?;
            if received != column {
                return Err(format!("{table:?}, rank {rank}: received {received:?}").into());
            }
        }
        Ok(())
    }

    fn check(&mut self, table: &Table) -> Result<(), Failed> {
        self.set(table)?;
        self.launch()?;
        self.run.synchronize(&self.stream)?;
        self.compare(table)
    }

    /// Launches with counts that have no room: nothing is moved. Returns the report.
    fn refuse(&mut self, table: &Table) -> Result<CountOverflow, Failed> {
        self.set(table)?;
        self.launch()?;
        let overflow = match self.run.synchronize(&self.stream) {
            Err(Error::CountOverflow(overflow)) => overflow,
            other => return Err(format!("{table:?}: {other:?}").into()),
        };
        for (output, received) in self.outputs.iter().zip(&self.received) {
            let is_untouched = output.to_vec()?.iter().all(|element| *element == FILL);
            if !is_untouched || received.to_vec()?.iter().any(|count| *count != -7) {
                return Err(format!("{table:?}: data was moved").into());
            }
        }
        // It is reported once.
        self.run.synchronize(&self.stream)?;
        Ok(overflow)
    }

    /// Returns the report of the CPU executor.
    fn refused_by_cpu(&self, table: &Table) -> Result<CountOverflow, Failed> {
        let ranks = table.len();
        let message = Message::of::<u32>(ranks * self.most as usize);
        let mut prepared = cpu::Executor::new(ranks as u32).prepare(&self.plan, message)?;
        let inputs: Vec<_> = self.inputs.iter().map(|input| vec![0_u32; input.len()]).collect();
        let mut outputs: Vec<_> = self.outputs.iter().map(|output| vec![0_u32; output.len()]).collect();
        match prepared.launch_counted(&inputs, &mut outputs, table) {
            Err(Error::CountOverflow(overflow)) => Ok(overflow),
            other => Err(format!("{table:?}: {other:?} on the CPU").into()),
        }
    }
}

/// Returns counts as far as there may be that many elements.
fn clamped(row: &[i64], most: u64) -> Vec<i64> {
    row.iter().map(|count| (*count).clamp(0, most as i64)).collect()
}

/// Every table of this number of ranks with counts up to `most`; one of `of`.
fn every_table(rig: &Rig, ranks: u32, most: u64, of: u64, prepare: PrepareOptions) -> Result<(), Failed> {
    let entries = ranks * ranks;
    for name in ALGORITHMS {
        let mut exchange = Exchange::new(&Executor::new(&rig.device, ranks), name, most, prepare)?;
        if prepare.specialize {
            exchange.run.specialized().map_err(|reason| format!("not specialized: {reason}"))?;
        }
        for number in (rig.seed % of..(most + 1).pow(entries)).step_by(of as usize) {
            let entry = |at: u32| (number / (most + 1).pow(at) % (most + 1)) as i64;
            let table: Table =
                (0..ranks).map(|row| (0..ranks).map(|column| entry(row * ranks + column)).collect()).collect();
            exchange.check(&table).map_err(|failed| at(name, &failed))?;
        }
    }
    Ok(())
}

/// Of many ranks, with parts of several vectors at any alignment, and more ranks than fit into the kernel parameters.
fn random_tables(rig: &Rig) -> Result<(), Failed> {
    let mut random = Random(rig.seed);
    for (ranks, most) in [(4, 300), (8, 70), (11, 9)] {
        for name in ALGORITHMS.into_iter().chain([DIVIDED]) {
            let mut exchange =
                Exchange::new(&Executor::new(&rig.device, ranks), name, most, PrepareOptions::default())?;
            for turn in 0..3 {
                let mut table = random.table(ranks as usize, most);
                if turn == 1 {
                    // One rank has nothing, and one receives nothing.
                    table[0].fill(0);
                    let last = table.len() - 1;
                    table.iter_mut().for_each(|row| row[last] = 0);
                }
                exchange.check(&table).map_err(|failed| at(format_args!("{name}, {ranks} ranks"), &failed))?;
            }
        }
    }
    Ok(())
}

fn counts_without_room_are_reported(rig: &Rig) -> Result<(), Failed> {
    for name in ALGORITHMS {
        let world = Executor::new(&rig.device, 4);
        let mut exchange = Exchange::new(&world, name, 4, PrepareOptions::default())?;
        let table = vec![vec![2, 0, 1, 3], vec![0, 0, 0, 0], vec![4, 1, 0, 0], vec![0, 2, 2, 2]];
        exchange.check(&table)?;
        for (row, column, count) in [(1, 2, -1), (3, 0, 5), (0, 0, (1 << 32) + 1), (2, 3, i64::MIN), (2, 1, i64::MAX)] {
            let mut wrong = table.clone();
            wrong[row][column] = count;
            let overflow = exchange.refuse(&wrong)?;
            let expected = exchange.refused_by_cpu(&wrong)?;
            if overflow != expected {
                return Err(format!("{wrong:?}: {overflow}, expected {expected}").into());
            }
            exchange.check(&table)?;
        }
        // The capacity of an output, and of an input.
        for (side, expected) in [
            (1, CountOverflow { rank: 0, limit: CountLimit::Output, demand: 6, room: 5, peer: 2, part: 4 }),
            (0, CountOverflow { rank: 0, limit: CountLimit::Input, demand: 6, room: 5, peer: 3, part: 3 }),
        ] {
            let device = &rig.device;
            let short = DeviceVec::<u32>::from_slice(device, &[FILL; 5])?;
            let sides = if side == 1 { &mut exchange.outputs } else { &mut exchange.inputs };
            let long = std::mem::replace(&mut sides[0], short);
            let slices = exchange.inputs.iter().zip(&exchange.outputs);
            let slices: Vec<_> = slices.map(|(input, output)| [input.as_slice(), output.as_slice()]).collect();
            let binding = std::mem::replace(&mut exchange.binding, exchange.run.bind(slices)?);
            exchange.launch()?;
            match exchange.run.synchronize(&exchange.stream) {
                Err(Error::CountOverflow(overflow)) if overflow == expected => {}
                other => return Err(format!("{name}: {other:?}, expected {expected}").into()),
            }
            let sides = if side == 1 { &mut exchange.outputs } else { &mut exchange.inputs };
            sides[0] = long;
            exchange.binding = binding;
            exchange.check(&table)?;
        }
    }
    Ok(())
}

/// Replays one graph with other counts each time, some of which have no room.
fn graphs_are_replayed_with_new_counts(rig: &Rig) -> Result<(), Failed> {
    let mut random = Random(rig.seed);
    for name in ALGORITHMS {
        let world = Executor::new(&rig.device, 3);
        let mut exchange = Exchange::new(&world, name, 5, PrepareOptions::default())?;
        let graph: Graph = {
            let (run, binding) = (&mut exchange.run, &exchange.binding);
            let lists = exchange.sent.iter().zip(&exchange.received);
            let list = |(sent, received): (&DeviceVec<i64>, &DeviceVec<i64>)| DeviceCounts {
                sent: sent.as_slice(),
                received: received.as_slice(),
                dtype: DataType::I64,
                unit: 1,
            };
            let counts: Vec<_> = lists.map(list).collect();
            // SAFETY: memory of the ranks' devices, which lives as long as the graph.
            rig.device.stream()?.capture(|stream| unsafe { run.launch_counted(binding, &counts, stream) })?
        };
        for turn in 0..if is_all() { 1000 } else { 30 } {
            let mut table = random.table(3, 5);
            let is_wrong = turn % 7 == 6;
            if is_wrong {
                table[turn % 3][turn % 2] = 6;
            }
            exchange.set(&table)?;
            // SAFETY: prepared plan and memory live as long as `exchange`.
            unsafe { graph.launch(&exchange.stream)? };
            match (exchange.run.synchronize(&exchange.stream), is_wrong) {
                (Ok(()), false) => exchange.compare(&table).map_err(|failed| at(name, &failed))?,
                (Err(Error::CountOverflow(_)), true) => {}
                (other, _) => return Err(format!("{name}, {table:?}: {other:?}").into()),
            }
        }
    }
    Ok(())
}

/// Lists of 4-byte counts are taken, lists that are too short are not.
fn lists_of_other_lengths_are_rejected(rig: &Rig) -> Result<(), Failed> {
    let world = Executor::new(&rig.device, 2);
    let mut exchange = Exchange::new(&world, "alltoallv_pull", 3, PrepareOptions::default())?;
    let table = vec![vec![1, 3], vec![0, 2]];
    exchange.set(&table)?;
    let narrow = |row: &[i64]| row.iter().map(|count| *count as i32).collect::<Vec<_>>();
    let sent = [0, 1].map(|rank| DeviceVec::from_slice(&rig.device, &narrow(&table[rank])));
    let received = [(); 2].map(|()| DeviceVec::from_slice(&rig.device, &[-7; 2]));
    let (mut lists, mut results) = (Vec::new(), Vec::new());
    for (sent, received) in sent.into_iter().zip(received) {
        let (sent, received) = (sent?, received?);
        lists.push(DeviceCounts {
            sent: sent.as_slice(),
            received: received.as_slice(),
            dtype: DataType::I32,
            unit: 1,
        });
        results.push((sent, received));
    }
    let Exchange { run, binding, stream, .. } = &mut exchange;
    // SAFETY: memory of the device, which lives until the launch is complete.
    unsafe { run.launch_counted(binding, &lists, stream)? };
    run.synchronize(stream)?;
    assert_eq!([results[0].1.to_vec()?, results[1].1.to_vec()?], [[1, 0], [3, 2]]);
    for (rank, (_, received)) in results.iter().enumerate() {
        exchange.received[rank].write(&received.to_vec()?.into_iter().map(i64::from).collect::<Vec<_>>())?;
    }
    exchange.compare(&table)?;
    let Exchange { run, binding, stream, .. } = &mut exchange;
    lists[1].sent.bytes = 4;
    // SAFETY: as above.
    let short = unsafe { run.launch_counted(binding, &lists, stream) };
    assert!(matches!(short, Err(Error::CountRow { rank: 1, expected: 2, found: 1 })), "{short:?}");
    // SAFETY: as above.
    let few = unsafe { run.launch_counted(binding, &lists[..1], stream) };
    assert!(matches!(few, Err(Error::BufferCount { buffer: "counts", expected: 2, found: 1 })), "{few:?}");
    // SAFETY: as above.
    let none = unsafe { run.launch_bound(binding, stream) };
    assert!(matches!(none, Err(Error::CountMode { counted: true, .. })), "{none:?}");
    Ok(())
}
