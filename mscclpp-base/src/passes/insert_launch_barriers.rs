//! Inserts launch barriers: operations with which the devices of a node synchronize at the start and the end of every
//! launch.
//!
//! On one device a launch is one kernel: all ranks start together, and the next launch starts when all have finished.
//! On several devices each device runs a separate kernel, so operations around those of the plan establish the same:
//! signals and waits between the first thread blocks of the devices, and a barrier of each device's thread blocks. They
//! are executed on the device like all others, with release and acquire.
//!
//! Plans whose operations themselves wait for the start of peers get no barrier at the start. There only a relaxed
//! signal from each device to each other one remains, which is waited for at the end. Plans whose operations themselves
//! end all accesses to a rank's memory before the rank's end get no barrier at the end either: there the wait for the
//! starts of the other devices is all that remains.
//!
//! # Why this is sound
//!
//! *The plan's operations* do not change between the inserted ones: inserted channels and barriers have unused numbers,
//! and are appended to the tables.
//!
//! *Order at the end, with a barrier.* All thread blocks of a device arrive at its barrier before its first one signals, and that one
//! ends after the signals of all devices of the node, which it acquires. So when a device has finished a launch,
//! everything that thread blocks of the node did in it has finished and is visible: for every plan, including wrong
//! ones, and also where launches of different sizes or plans follow one another. Then callers use their buffers again,
//! and after the last launch scratch may be unmapped.
//!
//! *Order at the start, with a barrier.* The first thread block of a device signals and waits before it arrives at the
//! device's barrier, so every thread block of every device continues after the start of all devices of its node. Plans
//! rely on this if they access a peer's buffers before they have synchronized with that peer.
//!
//! *Order at the start, without a barrier.* A device may then be one launch ahead of another one, which has finished
//! the previous launch of the plan and not started this one. It gets no further ahead, since it cannot finish without
//! the other one's signals. It can access the following memory of the other device meanwhile, and each access is
//! correct, with a barrier at the end:
//!
//! * *Input and output* belong to the other device's caller until that device starts. The checker proves for the plan
//!   that its ranks [access them only after they have observed][begin] that their owner has started; that includes the
//!   accesses of port channels, whose triggers are pushed after that. Everything that the owner's stream has done
//!   before the launch, including the division of an average by the previous launch, is complete before the owner's
//!   kernel starts. The signal through which a rank observes the start may be relaxed: everything that precedes a
//!   kernel on its stream has been flushed when the kernel starts, and every wait acquires.
//! * *Scratch and packets*: by the order at the end, every access of the previous launch to them has finished and is
//!   visible, whatever the sizes of the two launches. So it does not matter where the halves of double scratch begin,
//!   which depends on the size, and [`sizes_may_follow`][sizes] is not required. The exception is puts of port channels
//!   for which no operation waits: plans for which the checker does not prove that [all arrive][arrive] keep the
//!   barrier. The host clears scratch in two cases: when it is allocated, which is done before other ranks learn the
//!   address; and when counters are reset, in executors of one process only, whose devices are idle then. It replaces
//!   scratch in calls of all ranks, which return when all have finished their launches, or keeps the old one for plans
//!   that were prepared before. Packets carry the number of the launch, which is the same on all devices.
//! * *Counters* only grow, and a wait compares them with the value that the number of its launch requires, so early
//!   signals of the next launch release no wait of this one that would not be released anyway. Semaphores and barriers
//!   are used within a device, whose kernels do not overlap.
//! * *Other plans* have separate channels, counters and scratch. A device that alternates between two plans starts a
//!   launch after the end of the previous one, so both orders hold between launches of different plans too.
//!
//! None of this depends on the message size or on the host between launches, so it holds for launches of graphs too.
//! Ranks that share a device start and end together, which is more than the checker assumes.
//!
//! *Order without any barrier.* A device finishes a launch only after all devices of its node have started it, so it is
//! at most one launch ahead: when it starts launch n + 2, all have started launch n + 1 and thus finished launch n, whose
//! writes their kernels have flushed. What remains is launch n + 1 of one device beside launch n of another:
//!
//! * *Input and output*: the argument above holds at the start. At the end, the checker proves that [the accesses of
//!   other ranks to them have finished][end] when the rank's own blocks have.
//! * *Double scratch*: the two launches use different halves, which begin at the same offsets for all message sizes: the
//!   halves of the allocation, not of a launch. Plans with packets, which are for small messages, get double scratch in
//!   any case; every launch writes scratch before it reads it, so that it may be elsewhere in each.
//! * *Single scratch*: the checker proves that all accesses of a launch to a rank's scratch come [after all of the previous
//!   one][sizes], so sizes may change.
//! * *After the last launch* memory may be freed: the checker proves that [no access to scratch remains][free]; all
//!   signals to a device have been waited for, those of the start included.
//! * *Counters* and other plans: as above.
//!
//! Plans with port channels keep the barrier, since the proxies of two launches are one, and so do those in which a device has
//! neither thread blocks nor other devices on its node, as its kernel needs an operation.
//!
//! [begin]: mscclpp_core::check::LaunchBoundaries::accesses_follow_begin
//! [sizes]: mscclpp_core::check::LaunchBoundaries::sizes_may_follow
//! [arrive]: mscclpp_core::check::LaunchBoundaries::puts_arrive_in_launch
//! [end]: mscclpp_core::check::LaunchBoundaries::can_end_without_barrier
//! [free]: mscclpp_core::check::LaunchBoundaries::can_free_without_barrier
//!
//! *Several nodes.* Plans with operations between nodes keep the barrier at the start. There the proxy labels its
//! messages with the number of the launch, which it takes from the mark that the device's first thread block pushes, so
//! all thread blocks must continue after that one in any case; and data from other nodes may be written to scratch
//! until the launch has ended for the proxy, which is after the barrier at the end. The barrier's time is small
//! compared with that of the network.
//!
//! *Absent devices.* Operations of the plan are the first to wait for a device that does not start, and a rank may wait
//! for one that waits for a third. So the report of a stall names the devices whose start signal is missing, instead of
//! the peer of the blocked operation: each device has all of these signals (`cuda::report`).
//!
//! *Progress.* Every device of a node signals all others before it waits for any, and all thread blocks of a launch are
//! co-resident.
//!
//! Devices of different nodes do not synchronize: that would take the network's time twice in every launch. There the
//! proxy provides the same, because all data from another node passes through it: the device signals to it at the start
//! of a launch, before all else, and at its end, after all else.
//!
//! The validator proves the order at the end, and the order at the start where there is a barrier, with accesses of
//! every thread block to every rank of its node in place of the plan's operations. For all plans the checker also
//! proves the plan as executed.

use mscclpp_core::check::launch_boundaries;
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::types::ChannelKind;

use crate::interpret::program::{Barrier, Block, Channel, Instr, Opcode, ResolvedPlan, UNPAIRED};

/// Devices that take part in a plan's launches.
pub struct Placement<'a> {
    /// By rank.
    pub device_of: &'a [u32],
    /// By device. Only devices of one node synchronize.
    pub node_of: &'a [u32],
    /// Ranks that send data to other nodes or receive data from them.
    pub far: &'a [u32],
}

/// By device: the channels on which it signals to its own proxy when it starts a launch and when it has finished its
/// part, if its ranks communicate with other nodes.
pub type LaunchMarkers = Vec<Option<[u32; 2]>>;

/// Where the devices of a node synchronize with barriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarriersAt {
    BothEnds,
    /// At the end. At the start, devices signal to each other that they have started.
    End,
    /// Nowhere. Devices signal that they have started, and wait for these signals at the end.
    Neither,
}

/// Channels of the launch barriers of a plan.
pub struct LaunchBarriers {
    pub marks: LaunchMarkers,
    /// By device, the channels on which the other devices of its node signal their start, if launches start without a
    /// barrier; otherwise empty.
    pub begins: Vec<Vec<u32>>,
    /// Number of signals of a launch on each of these channels. The first one announces the start.
    pub signals: u64,
}

/// Returns where launches of a plan need barriers.
///
/// # Cost
/// The cost of a check.
pub fn needed_barriers(program: &ResolvedPlan, placement: &Placement<'_>) -> BarriersAt {
    if !placement.far.is_empty() {
        return BarriersAt::BothEnds;
    }
    let tree = program.plan.tree();
    let facts = launch_boundaries(&tree);
    if !facts.accesses_follow_begin || !facts.puts_arrive_in_launch {
        return BarriersAt::BothEnds;
    }
    let has_ports = program.channels.iter().any(|channel| channel.kind == ChannelKind::Port);
    let has_idle = has_idle_node(program, placement);
    let scratch_is_free = gets_double_scratch(program) || facts.can_start_without_barrier && facts.sizes_may_follow;
    let ends = facts.can_end_without_barrier && facts.can_free_without_barrier;
    if has_ports || has_idle || !scratch_is_free || !ends { BarriersAt::End } else { BarriersAt::Neither }
}

/// Returns whether a device without thread blocks is alone on its node: it has no starts to wait for, and a kernel has at least one
/// operation.
fn has_idle_node(program: &ResolvedPlan, placement: &Placement<'_>) -> bool {
    let Placement { device_of, node_of, .. } = *placement;
    let is_idle = |device: u32| !program.agents.iter().any(|code| device_of[code.rank as usize] == device);
    let is_alone = |node: u32| node_of.iter().filter(|other| **other == node).count() == 1;
    (0..).zip(node_of).any(|(device, &node)| is_alone(node) && is_idle(device))
}

/// Returns whether a plan whose launches have no barriers uses its scratch in halves.
fn gets_double_scratch(program: &ResolvedPlan) -> bool {
    program.double_scratch || program.shape.packets
}

/// Inserts the launch barriers of a plan.
pub fn insert_launch_barriers(
    program: &mut ResolvedPlan,
    placement: &Placement<'_>,
    barriers: BarriersAt,
) -> LaunchBarriers {
    let (at_begin, at_end) = (barriers == BarriersAt::BothEnds, barriers != BarriersAt::Neither);
    program.double_scratch |= !at_end && gets_double_scratch(program);
    let Placement { device_of, node_of, far } = *placement;
    add_proxies(program, far);
    let agents = with_every_device(program, device_of);
    let devices = device_of.iter().max().map_or(0, |&last| last + 1);
    let on = |device: u32| agents.iter().filter(move |code| device_of[code.rank as usize] == device);
    let leaders: Vec<_> = (0..devices).map(|device| on(device).next().map_or((0, 0), key)).collect();
    let counts: Vec<_> = (0..devices).map(|device| on(device).count() as u32).collect();
    let first_barrier = program.barriers.len() as u32;
    let id = program.barriers.iter().map(|barrier| barrier.id + 1).max().unwrap_or(0);
    if at_end {
        program.barriers.extend((0..devices).map(|_| Barrier { id }));
    }
    let channels_of = add_channels(program, &leaders, node_of);
    let marks = add_marks(program, &leaders, |device| far.iter().any(|&rank| device_of[rank as usize] == device));

    let mut writer = Writer { instrs: Vec::with_capacity(program.instrs.len() + 4 * agents.len()), ids: Vec::new() };
    let mut loops = Vec::with_capacity(program.loops.len());
    let mut operand = 0;
    for mut code in agents {
        let device = device_of[code.rank as usize];
        let (channels_of, mark) = (&channels_of[device as usize], marks[device as usize]);
        let is_leader = leaders[device as usize] == key(&code);
        let body = &program.instrs[code.start as usize..code.end as usize];
        code.start = writer.instrs.len() as u32;
        let next_op = body.last().map_or(0, |last| last.op + 1);
        // Operands are in the order of the operations.
        let added = |kind, action, operands| Instr { kind, action, op: next_op, operands, ..Instr::NOP };
        let count = counts[device as usize];
        let signal = |writer: &mut Writer, operands, relaxed| {
            if is_leader && !channels_of.is_empty() {
                let kind = if relaxed { OpKind::RelaxedSignal } else { OpKind::Signal };
                writer.push(added(kind, Opcode::Signal { relaxed }, operands), channels_of.iter().copied());
            }
        };
        // Waits for `signals` signals from each device.
        let wait = |writer: &mut Writer, operands, signals| {
            if is_leader && !channels_of.is_empty() {
                let channels_of = std::iter::repeat_n(channels_of, signals).flatten().copied();
                writer.push(added(OpKind::Wait, Opcode::Wait { relaxed: false }, operands), channels_of);
            }
        };
        let push_mark = |writer: &mut Writer, operands, mark: Option<u32>| {
            if let Some(mark) = mark.filter(|_| is_leader) {
                writer.push(added(OpKind::Signal, Opcode::PortSignal, operands), [mark]);
            }
        };
        let barrier = |writer: &mut Writer, operands| {
            let barrier = Instr { count, ..added(OpKind::Barrier, Opcode::Barrier, operands) };
            writer.push(barrier, [first_barrier + device]);
        };
        // The first and the last operation, so that the proxy detects the absence of devices for which this one waits.
        push_mark(&mut writer, operand, mark.map(|[begin, _]| begin));
        signal(&mut writer, operand, !at_begin);
        if at_begin {
            wait(&mut writer, operand, 1);
            barrier(&mut writer, operand);
        }
        for instr in body {
            if instr.action == Opcode::Loop {
                loops.push(writer.instrs.len() as u32);
            }
            writer.push(*instr, program.ids(instr).iter().copied());
        }
        operand = body.last().map_or(operand, |last| last.operands + last.srcs + last.dsts);
        if at_end {
            barrier(&mut writer, operand);
            signal(&mut writer, operand, false);
        }
        wait(&mut writer, operand, if barriers == BarriersAt::End { 2 } else { 1 });
        push_mark(&mut writer, operand, mark.map(|[_, end]| end));
        if let Some([_, end]) = mark.filter(|_| is_leader) {
            // When the launch ends, the proxy has read the sources of all puts, whether the plan flushes or not.
            writer.push(added(OpKind::Flush, Opcode::Flush, operand), [end]);
        }
        code.end = writer.instrs.len() as u32;
        program.agents.push(code);
    }
    (program.instrs, program.ids, program.loops) = (writer.instrs.into(), writer.ids, loops);
    let begins = if at_begin { vec![Vec::new(); channels_of.len()] } else { channels_of };
    LaunchBarriers { marks, begins, signals: 1 + u64::from(at_end) }
}

/// Adds proxies for the ranks that communicate with other nodes, including those that only receive.
fn add_proxies(program: &mut ResolvedPlan, far: &[u32]) {
    program.proxies.extend(far);
    program.proxies.sort_unstable();
    program.proxies.dedup();
    for code in &mut program.agents {
        code.proxy = program.proxies.partition_point(|&rank| rank < code.rank) as u32;
    }
}

/// Returns rank and thread block.
fn key(code: &Block) -> (u32, u32) {
    (code.rank, code.block)
}

/// Takes a plan's thread blocks, and adds one without operations for each device that has none, because other ranks may
/// use the buffers of its ranks nevertheless.
fn with_every_device(program: &mut ResolvedPlan, device_of: &[u32]) -> Vec<Block> {
    let mut agents = std::mem::take(&mut program.agents);
    let mut devices_with_blocks: Vec<u32> = agents.iter().map(|code| device_of[code.rank as usize]).collect();
    for (rank, &device) in (0..).zip(device_of) {
        if !devices_with_blocks.contains(&device) {
            devices_with_blocks.push(device);
            // After the thread blocks of earlier ranks, so that all tables are in the order of the thread blocks.
            let at = agents.partition_point(|code| code.rank < rank);
            let start = at.checked_sub(1).map_or(0, |before| agents[before].end);
            let proxy = program.proxies.partition_point(|&other| other < rank) as u32;
            agents.insert(at, Block { rank, block: 0, start, end: start, proxy });
        }
    }
    agents
}

/// Adds a channel from each device to each other one of its node. Returns by device the channels that begin there.
fn add_channels(program: &mut ResolvedPlan, leaders: &[(u32, u32)], node_of: &[u32]) -> Vec<Vec<u32>> {
    let first = program.channels.len() as u32;
    let devices = 0..leaders.len();
    let pairs = devices.clone().flat_map(|from| devices.clone().map(move |to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|&(from, to)| from != to && node_of[from] == node_of[to]).collect();
    let number = |pair: (usize, usize)| pairs.binary_search(&pair).map_or(UNPAIRED, |at| first + at as u32);
    let mut channels_of = vec![Vec::new(); leaders.len()];
    for &(from, to) in &pairs {
        channels_of[from].push(number((from, to)));
        add_channel(program, ChannelKind::Memory, leaders[from].0, leaders[to].0, number((to, from)));
    }
    channels_of
}

/// Adds the channels on which the devices for which `has` holds signal to their own proxy.
fn add_marks(program: &mut ResolvedPlan, leaders: &[(u32, u32)], has: impl Fn(u32) -> bool) -> LaunchMarkers {
    let mark = |(device, &(rank, _)): (u32, &(u32, u32))| {
        has(device).then(|| {
            [(); 2].map(|()| {
                let number = program.channels.len() as u32;
                add_channel(program, ChannelKind::Port, rank, rank, number);
                number
            })
        })
    };
    (0..).zip(leaders).map(mark).collect()
}

fn add_channel(program: &mut ResolvedPlan, kind: ChannelKind, rank: u32, peer: u32, pair: u32) {
    let of_rank = program.channels.iter().filter(|channel| channel.rank == rank && channel.kind == kind);
    let id = of_rank.map(|channel| channel.id + 1).max().unwrap_or(0);
    program.channels.push(Channel { rank, kind, id, peer, pair });
}

/// The rewritten operations and their ids.
struct Writer {
    instrs: Vec<Instr>,
    ids: Vec<u32>,
}

impl Writer {
    fn push(&mut self, mut instr: Instr, ids: impl IntoIterator<Item = u32>) {
        instr.first_id = self.ids.len() as u32;
        self.ids.extend(ids);
        instr.ids = self.ids.len() as u32 - instr.first_id;
        self.instrs.push(instr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpret::links;
    use crate::interpret::resolve;
    use mscclpp_algorithms as algorithms;
    use mscclpp_core::plan::Plan;

    #[test]
    fn tables_stay_in_order_and_signals_have_waits() {
        for algorithm in algorithms::all() {
            for per_node in [4, 2, 1].into_iter().filter(|&per_node| algorithm.supports(4, per_node)) {
                let arguments = algorithm.arguments([]).expect("defaults");
                let tree = algorithm.compile_tree(algorithm.spec(4, per_node), &arguments).expect("it compiles");
                let plan = Plan::new(&tree);
                let devices =
                    if per_node == 4 { &[[0, 0, 1, 1], [0, 1, 2, 3], [0, 1, 0, 1]][..] } else { &[[0, 1, 2, 3]] };
                for device_of in devices {
                    for barriers in [BarriersAt::BothEnds, BarriersAt::End, BarriersAt::Neither] {
                        check(&plan, device_of, per_node, barriers);
                    }
                }
            }
        }
    }

    /// The ranks of a node are consecutive.
    fn check(plan: &Plan, device_of: &[u32], per_node: u32, barriers: BarriersAt) {
        let before = resolve(plan).expect("it is a plan");
        let mut program = resolve(plan).expect("it is a plan");
        let nodes: Vec<u32> = (0..4).map(|rank| rank / per_node).collect();
        let mut far: Vec<u32> = links(&program, &nodes).into_iter().map(|(rank, _)| rank).collect();
        far.dedup();
        // Where there are several nodes, each device has one rank.
        let node_of = if per_node == 4 { &[0; 4] } else { nodes.as_slice() };
        let placement = Placement { device_of, node_of, far: &far };
        let LaunchBarriers { marks, begins, .. } = insert_launch_barriers(&mut program, &placement, barriers);
        let (mut at, mut operands, mut ids) = (0, 0, 0);
        for code in &program.agents {
            assert_eq!(code.start, at);
            at = code.end;
            for instr in &program.instrs[code.start as usize..code.end as usize] {
                assert_eq!((instr.operands, instr.first_id), (operands, ids), "{}", plan.name());
                operands += instr.srcs + instr.dsts;
                ids += instr.ids;
            }
        }
        let kept = |instr: &&Instr| program.loops.iter().any(|&at| program.instrs[at as usize].op == instr.op);
        assert_eq!(program.loops.len(), before.loops.len());
        assert!(before.loops.iter().map(|&at| &before.instrs[at as usize]).all(|instr| kept(&instr)));
        let uses = |number: u32, is_one: &dyn Fn(Opcode) -> bool| {
            let all = program.instrs.iter().filter(|instr| is_one(instr.action));
            all.flat_map(|instr| program.ids(instr)).filter(|id| **id == number).count()
        };
        for (number, channel) in (0..).zip(program.channels.iter()).skip(before.channels.len()) {
            let pair = &program.channels[channel.pair as usize];
            assert_eq!((pair.pair, pair.rank, pair.peer), (number, channel.peer, channel.rank));
            if marks.iter().flatten().flatten().any(|&mark| mark == number) {
                assert_eq!(uses(number, &|action| action == Opcode::PortSignal), 1, "a mark");
                continue;
            }
            assert_eq!(nodes[channel.rank as usize], nodes[channel.peer as usize], "across nodes nobody meets");
            let (begins_free, ends_free) = (barriers != BarriersAt::BothEnds, barriers == BarriersAt::Neither);
            let (relaxed, signals) = (usize::from(begins_free), 2 - usize::from(ends_free));
            let actions =
                [Opcode::Signal { relaxed: false }, Opcode::Signal { relaxed: true }, Opcode::Wait { relaxed: false }];
            let of = actions.map(|wanted| uses(number, &|action| action == wanted));
            assert_eq!(of, [signals - relaxed, relaxed, signals], "at the beginning and at the end");
            let device = device_of[channel.rank as usize] as usize;
            assert_eq!(begins[device].contains(&number), begins_free, "who waits for it can say who has not begun");
        }
        for rank in 0..4_u32 {
            let device = device_of[rank as usize] as usize;
            assert!(!far.contains(&rank) || marks[device].is_some() && program.proxies.contains(&rank));
            assert!(!far.is_empty() || marks[device].is_none());
        }
    }

    #[test]
    fn built_in_algorithms_have_barriers_at_both_ends_on_several_nodes_only() {
        let mut plans = 0;
        for ranks in [2, 4, 8] {
            for algorithm in algorithms::all().iter().filter(|algorithm| algorithm.supports(ranks, ranks)) {
                let arguments = algorithm.arguments([]).expect("defaults");
                let tree = algorithm.compile_tree(algorithm.spec(ranks, ranks), &arguments).expect("it compiles");
                let program = resolve(&Plan::new(&tree)).expect("it is a plan");
                let (device_of, node_of): (Vec<u32>, _) = ((0..ranks).collect(), vec![0; ranks as usize]);
                let placement = |far| Placement { device_of: &device_of, node_of: &node_of, far };
                let name = algorithm.name();
                let has_ports = program.channels.iter().any(|channel| channel.kind == ChannelKind::Port);
                let needed = if has_ports { BarriersAt::End } else { BarriersAt::Neither };
                assert_eq!(needed_barriers(&program, &placement(&[])), needed, "{name}, {ranks} ranks");
                assert_eq!(needed_barriers(&program, &placement(&[0])), BarriersAt::BothEnds, "{name}, {ranks} ranks");
                plans += 1;
            }
        }
        println!("{plans} plans");
        assert!(plans > 100);
    }

    #[test]
    fn device_without_operations_and_neighbors_has_one() {
        let program = |placement: &Placement<'_>| {
            let text = "plan apart\ncollective test 1 -> 1\nranks 3\nprotocol Simple\n\
                threads_per_block 64\nrank 0 (input 1, output 1, scratch 0) {\n  block 0:\n\
                copy output[0] <- input[0]\n}\nrank 1 (input 1, output 1, scratch 0) {\n  block 0:\n\
                copy output[0] <- input[0]\n}\nrank 2 (input 1, output 1, scratch 0) {\n}\n";
            let tree = mscclpp_core::plan::text::parse(text).expect("it is a plan");
            let mut program = resolve(&Plan::new(&tree)).expect("it is a plan");
            let barriers = needed_barriers(&program, placement);
            insert_launch_barriers(&mut program, placement, barriers);
            (program, barriers)
        };
        let device_of = [0, 1, 2];
        let (_, together) = program(&Placement { device_of: &device_of, node_of: &[0, 0, 0], far: &[] });
        let (program, apart) = program(&Placement { device_of: &device_of, node_of: &[0, 0, 1], far: &[] });
        assert_eq!([together, apart], [BarriersAt::Neither, BarriersAt::End]);
        assert!(program.agents.iter().all(|code| code.start < code.end), "{:?}", program.agents);
    }

    #[test]
    fn plan_that_accesses_peers_before_their_start_keeps_barrier() {
        let algorithm = algorithms::find("allreduce_all_pairs").expect("it is in the library");
        let arguments = algorithm.arguments([]).expect("defaults");
        let mut tree = algorithm.compile_tree(algorithm.spec(2, 2), &arguments).expect("it compiles");
        for block in tree.ranks.iter_mut().flat_map(|rank| &mut rank.blocks) {
            let first = block.ops.iter().take_while(|op| op.srcs.is_empty() && op.dsts.is_empty()).count();
            assert!(first > 0, "it hears from its peers first");
            block.ops.drain(..first);
        }
        let program = resolve(&Plan::new(&tree)).expect("it is a plan");
        let placement = Placement { device_of: &[0, 1], node_of: &[0, 0], far: &[] };
        assert_eq!(needed_barriers(&program, &placement), BarriersAt::BothEnds);
    }
}
