//! From a plan to a [`Program`]. Whatever the plan says, the result is safe to run: every index is checked here.

use std::collections::BTreeMap;
use std::ops::Range;

use mscclpp_core::plan::image::{BlockView, Numbers, OpView, RankView};
use mscclpp_core::plan::{OpKind, Place, Plan, Ref, RemoteBuffer};
use mscclpp_core::vocab::{BufferKind, ChannelKind, ReduceOp};

use super::pairs::pair_channels;
use super::program::*;
use crate::error::{Error, path};
use crate::layout::Shape;

/// Most operands of a program. A plan of multicasts over many ranks could otherwise need more memory than there is.
const MOST_OPERANDS: usize = 1 << 27;

/// Makes a plan ready.
///
/// # Errors
/// [`Error::Plan`] for the first thing that makes the plan impossible to run.
pub(crate) fn lower(plan: &Plan) -> Result<Program, Error> {
    let whole = |what: String| Error::Plan { place: "the whole plan".into(), what };
    plan.open().map_err(|error| whole(error.to_string()))?;
    let shape = shape(plan)?;
    let mut lowering = Lowering {
        program: Program {
            plan: plan.clone(),
            shape,
            double_scratch: plan.double_scratch(),
            reuse_resources: plan.reuse_resources(),
            reductions: Reductions::None,
            writes_input: false,
            plain_scratch: false,
            windowed_scratch: Some(0),
            agents: Vec::new(),
            instrs: Vec::new(),
            operands: Vec::new(),
            ids: Vec::new(),
            channels: Vec::new(),
            semaphores: Vec::new(),
            barriers: Vec::new(),
            proxies: Vec::new(),
            loops: Vec::new(),
        },
        chunks: plan.ranks().map(|rank| BufferKind::ALL.map(|buffer| rank.chunks(buffer))).collect(),
        tables: Tables::default(),
        reductions: 0,
        window: None,
    };
    for (rank, view) in plan.ranks().enumerate() {
        lowering.rank(rank as u32, &view)?;
    }
    let mut program = lowering.program;
    program.reductions = reductions(lowering.reductions).ok_or_else(|| {
        whole("`avg` beside other reductions, whose results the division at the end would divide too".into())
    })?;
    pair_channels(&mut program.channels);
    Ok(program)
}

fn shape(plan: &Plan) -> Result<Shape, Error> {
    use BufferKind::{Input, Output, Scratch};
    let most = |buffer| plan.ranks().map(|rank| rank.chunks(buffer)).max().unwrap_or(0);
    let shape = Shape {
        collective: plan.collective(),
        ranks: plan.num_ranks(),
        input: most(Input),
        output: most(Output),
        scratch: most(Scratch),
        alignment: plan.buffer_alignment(),
        packets: false,
    };
    let whole = |what: String| Err(Error::Plan { place: "the whole plan".into(), what });
    if plan.ranks().count() != shape.ranks as usize {
        return whole("a rank's part of the image cannot be read".into());
    }
    if shape.alignment == 0 {
        return whole("a buffer alignment of 0 bytes, expected at least 1".into());
    }
    if shape.collective.root >= shape.ranks.max(1) {
        return whole(format!("root {} with {} ranks", shape.collective.root, shape.ranks));
    }
    for (rank, view) in plan.ranks().enumerate() {
        for (buffer, most) in [(Input, shape.input), (Output, shape.output)] {
            let chunks = view.chunks(buffer);
            if chunks != 0 && chunks != most {
                return Err(Error::Plan {
                    place: format!("rank {rank}"),
                    what: format!("{chunks} {buffer} chunks, another rank has {most}"),
                });
            }
        }
    }
    Ok(shape)
}

/// What a set of reductions, one bit each, amounts to; `None` if it cannot be run.
fn reductions(set: u8) -> Option<Reductions> {
    let bit = |op: ReduceOp| 1 << op as u8;
    if set == 0 {
        return Some(Reductions::None);
    }
    if set == bit(ReduceOp::Sum) {
        return Some(Reductions::Generic);
    }
    if let Some(op) = ReduceOp::ALL.into_iter().find(|&op| set == bit(op)) {
        return Some(Reductions::Fixed(op));
    }
    (set & bit(ReduceOp::Avg) == 0).then_some(Reductions::Mixed)
}

struct Lowering {
    program: Program,
    /// Chunks of every rank's buffers.
    chunks: Vec<[u32; 3]>,
    tables: Tables,
    /// Operations that occur, one bit each.
    reductions: u8,
    /// Bytes of the window, inside of a pipeline.
    window: Option<u64>,
}

/// Tables of the rank at hand; kept for their memory.
#[derive(Default)]
struct Tables {
    remote: Vec<RemoteBuffer>,
    /// First of [`Program::channels`] and number, for memory and port.
    channels: [(u32, u32); 2],
    /// Buffer and range of `members` of each switch channel.
    switches: Vec<(BufferKind, u32, u32)>,
    members: Vec<u32>,
    /// First of [`Program::semaphores`] and number.
    semaphores: (u32, u32),
    /// Where the barriers seen so far are in [`Program::barriers`], by number.
    barriers: BTreeMap<u32, u32>,
}

/// The thread block at hand.
struct Block<'a> {
    rank: u32,
    /// By channel kind.
    channels: [Option<Numbers<'a>>; 3],
    remote: [Option<Numbers<'a>>; 3],
}

/// The number at a position of a table that may not be there; its length if it is too short.
fn entry(table: &Option<Numbers<'_>>, at: u32) -> Result<u32, usize> {
    let table = table.as_ref();
    table.and_then(|table| table.get(at)).ok_or(table.map_or(0, Numbers::len))
}

/// Whose memory a reference names.
enum Owners {
    One(u32),
    /// A range of `Tables::members`.
    Group(Range<u32>),
}

/// An operation's place and kind, for errors.
#[derive(Clone, Copy)]
struct At {
    rank: u32,
    block: u32,
    op: u32,
    kind: OpKind,
}

impl At {
    fn error<T>(self, what: impl Into<String>) -> Result<T, Error> {
        Err(Error::Plan { place: path(self.rank, self.block, self.op, self.kind), what: what.into() })
    }
}

impl Lowering {
    fn rank(&mut self, rank: u32, view: &RankView<'_>) -> Result<(), Error> {
        self.tables(rank, view)?;
        let mut uses_port = false;
        for (number, block) in view.blocks().enumerate() {
            uses_port |= self.block(rank, number as u32, &block)?;
        }
        if uses_port {
            self.program.proxies.push(rank);
        }
        Ok(())
    }

    fn tables(&mut self, rank: u32, view: &RankView<'_>) -> Result<(), Error> {
        let here = |what: String| Error::Plan { place: format!("rank {rank}"), what };
        let (program, tables, ranks) = (&mut self.program, &mut self.tables, self.chunks.len() as u32);
        tables.remote.clear();
        tables.remote.extend(view.remote_buffers());
        if let Some(number) = tables.remote.iter().position(|buffer| buffer.rank >= ranks) {
            let found = tables.remote[number].rank;
            return Err(here(format!("remote buffer {number} belongs to rank {found} of {ranks} ranks")));
        }
        for (slot, kind) in [ChannelKind::Memory, ChannelKind::Port].into_iter().enumerate() {
            let first = program.channels.len() as u32;
            for (id, peer) in view.peers(kind).enumerate() {
                if peer >= ranks || peer == rank {
                    return Err(here(format!("{kind} channel {id} leads to rank {peer} of {ranks} ranks")));
                }
                program.channels.push(Channel { rank, kind, id: id as u32, peer, pair: NOWHERE });
            }
            tables.channels[slot] = (first, program.channels.len() as u32 - first);
        }
        tables.switches.clear();
        tables.members.clear();
        for (id, (buffer, members)) in view.switch_channels().enumerate() {
            let first = tables.members.len();
            tables.members.extend(members);
            if let Some(member) = tables.members[first..].iter().find(|&&member| member >= ranks) {
                return Err(here(format!("switch channel {id} has member {member} of {ranks} ranks")));
            }
            tables.switches.push((buffer, first as u32, (tables.members.len() - first) as u32));
        }
        let first = program.semaphores.len() as u32;
        let semaphores = view.semaphores().enumerate();
        program.semaphores.extend(semaphores.map(|(id, initial)| Semaphore { id: id as u32, initial }));
        tables.semaphores = (first, program.semaphores.len() as u32 - first);
        tables.barriers.clear();
        Ok(())
    }

    /// Adds a block's operations; whether one of them uses the proxy.
    fn block(&mut self, rank: u32, block: u32, view: &BlockView<'_>) -> Result<bool, Error> {
        let start = self.program.instrs.len() as u32;
        let mut of = Block { rank, channels: [const { None }; 3], remote: [const { None }; 3] };
        for (kind, numbers) in view.channel_tables() {
            of.channels[kind as usize].get_or_insert(numbers);
        }
        for (kind, numbers) in view.remote_buffer_tables() {
            of.remote[kind as usize].get_or_insert(numbers);
        }
        // Flat index at which the loop at hand ends.
        let mut loop_end = 0;
        let mut uses_port = false;
        let ops = view.num_ops();
        for (op, view) in view.ops().enumerate() {
            let (op, kind) = (op as u32, view.kind());
            let at = At { rank, block, op, kind };
            if op == loop_end {
                self.window = None;
            }
            // Filled in where it is: it is too large to be handed around.
            self.program.instrs.push(Instr {
                kind,
                op,
                operands: self.program.operands.len() as u32,
                first_id: self.program.ids.len() as u32,
                ..Instr::NOTHING
            });
            if kind == OpKind::Pipeline {
                if op < loop_end {
                    return at.error("a pipeline inside of a pipeline");
                }
                self.pipeline(at, &view, ops)?;
                let instr = self.last();
                loop_end = op + 1 + instr.body;
                self.window = Some(instr.unit);
            } else {
                uses_port |= self.op(at, &of, &view)?;
            }
        }
        self.window = None;
        let end = u32::try_from(self.program.instrs.len()).unwrap_or(u32::MAX);
        if end == u32::MAX {
            let what = "more operations in all ranks than have 32-bit numbers".into();
            return Err(Error::Plan { place: format!("rank {rank} / thread block {block}"), what });
        }
        if end > start {
            let proxy = self.program.proxies.len() as u32;
            self.program.agents.push(Code { rank, block, start, end, proxy });
        }
        Ok(uses_port)
    }

    /// The instruction that is being filled in.
    fn last(&mut self) -> &mut Instr {
        let last = self.program.instrs.len() - 1;
        &mut self.program.instrs[last]
    }

    fn pipeline(&mut self, at: At, view: &OpView<'_>, ops: u32) -> Result<(), Error> {
        let Some(header) = view.pipeline() else {
            return at.error("no body");
        };
        if header.unit == 0 {
            return at.error("a window of 0 bytes, expected at least 1");
        }
        let left = ops - at.op - 1;
        if header.body_len > left {
            return at.error(format!("a body of {} operations, {left} follow", header.body_len));
        }
        self.program.loops.push(self.program.instrs.len() as u32 - 1);
        let instr = self.last();
        instr.action = Action::Loop;
        (instr.count, instr.body, instr.unit) = (header.num_chunks, header.body_len, header.unit);
        Ok(())
    }

    /// Fills in any operation but a pipeline; whether it uses the proxy.
    fn op(&mut self, at: At, of: &Block<'_>, view: &OpView<'_>) -> Result<bool, Error> {
        use OpKind::*;
        let port = view.channel() == Some(ChannelKind::Port);
        // Which of the sources and destinations are packets: the first `plain` are not, the others are.
        let (action, plain_srcs, plain_dsts) = match at.kind {
            Nop => return Ok(false),
            Barrier => return self.barrier(at, view),
            // Ports have no relaxed forms.
            Signal | RelaxedSignal if port => return self.sync(at, Action::PortSignal, of, view),
            Signal | RelaxedSignal => {
                return self.sync(at, Action::Signal { relaxed: at.kind == RelaxedSignal }, of, view);
            }
            Wait | RelaxedWait => {
                return self.sync(at, Action::Wait { relaxed: at.kind == RelaxedWait && !port }, of, view);
            }
            Flush => return self.sync(at, Action::Flush, of, view),
            SemaphoreAcquire => return self.semaphore(at, Action::Acquire, view),
            SemaphoreRelease => return self.semaphore(at, Action::Release, view),
            Pipeline => return at.error("no body"),
            Put if port => (Action::Port { signal: false, flush: false }, ALL, ALL),
            Copy | Put | Get => (Action::Copy, ALL, ALL),
            PutWithSignal => (Action::Port { signal: true, flush: false }, ALL, ALL),
            PutWithSignalAndFlush => (Action::Port { signal: true, flush: true }, ALL, ALL),
            CopyPackets => (Action::Pack, ALL, 0),
            // A port sends packets that are there already.
            PutPackets if port => (Action::Port { signal: false, flush: false }, 0, 0),
            PutPackets => (Action::Pack, ALL, 0),
            UnpackPackets => (Action::Unpack, 0, ALL),
            ReadPutPackets if port => (Action::PortForward, 0, 0),
            ReadPutPackets | SwitchBroadcastPackets => (Action::Forward, 0, 0),
            Reduce
            | ReduceSend
            | ReadReduce
            | ReadReduceSend
            | SwitchReduce
            | SwitchReduceBroadcast
            | SwitchBroadcast => (Action::Reduce, ALL, ALL),
            ReducePackets | ReduceSendPackets | ReduceCopyPackets | ReduceCopySendPackets => (Action::Reduce, 1, 1),
        };
        let srcs = self.operands(at, of, view, view.srcs(), plain_srcs)?;
        let dsts = self.operands(at, of, view, view.dsts(), plain_dsts)?;
        let instr = self.last();
        (instr.action, instr.srcs, instr.dsts) = (action, srcs, dsts);
        if let Some(slice) = view.slice() {
            if slice.index >= slice.of {
                return at.error(format!("part {} of {} parts", slice.index, slice.of));
            }
            instr.slice = (slice.index, slice.of);
        }
        if at.kind.is_reduce() {
            instr.reduce = view.reduce().unwrap_or_default();
            let bit = 1 << instr.reduce as u8;
            self.reductions |= bit;
        }
        if let Action::Port { signal: true, .. } = action {
            let ids = self.channel_ids(at, ChannelKind::Port, of, view)?;
            self.last().ids = ids;
            if ids != srcs {
                return at.error(format!("{ids} channels for {srcs} transfers"));
            }
        }
        self.check_sizes(at)?;
        self.note_scratch();
        Ok(matches!(action, Action::Port { .. } | Action::PortForward))
    }

    /// Resolves one side's references; from number `plain` on they are packets.
    fn operands<'a>(
        &mut self,
        at: At,
        of: &Block<'a>,
        view: &OpView<'a>,
        refs: impl Iterator<Item = Ref>,
        plain: usize,
    ) -> Result<u32, Error> {
        let first = self.program.operands.len();
        for (number, reference) in refs.enumerate() {
            let packets = number >= plain;
            let (buffer, owners) = match reference.place {
                Place::Local(buffer) => (buffer, Owners::One(of.rank)),
                Place::Remote(number) => {
                    let Some(kind) = view.channel() else {
                        return at.error("a remote reference without a kind of channel");
                    };
                    let id = match entry(&of.remote[kind as usize], number) {
                        Ok(id) => id,
                        Err(have) => {
                            return at.error(format!("{kind} remote buffer {number}, its thread block has {have}"));
                        }
                    };
                    let Some(remote) = self.tables.remote.get(id as usize) else {
                        let have = self.tables.remote.len();
                        return at.error(format!("remote buffer {id}, its rank has {have}"));
                    };
                    (remote.buffer, Owners::One(remote.rank))
                }
                Place::Switch(number) => {
                    let id = match entry(&of.channels[ChannelKind::Switch as usize], number) {
                        Ok(id) => id,
                        Err(have) => {
                            return at.error(format!("switch channel {number}, its thread block has {have}"));
                        }
                    };
                    let Some(&(buffer, first, len)) = self.tables.switches.get(id as usize) else {
                        let have = self.tables.switches.len();
                        return at.error(format!("switch channel {id}, its rank has {have}"));
                    };
                    (buffer, Owners::Group(first..first + len))
                }
            };
            let space = match buffer {
                BufferKind::Scratch if packets => Space::Packets,
                _ if packets => {
                    return at.error(format!("packets in the {buffer} buffer, expected scratch"));
                }
                BufferKind::Input => Space::Input,
                BufferKind::Output => Space::Output,
                BufferKind::Scratch => Space::Scratch,
            };
            match owners {
                Owners::One(rank) => self.operand(at, rank, buffer, space, reference)?,
                Owners::Group(members) => {
                    for member in members {
                        self.operand(at, self.tables.members[member as usize], buffer, space, reference)?;
                    }
                }
            }
        }
        Ok((self.program.operands.len() - first) as u32)
    }

    fn operand(&mut self, at: At, rank: u32, buffer: BufferKind, space: Space, chunk: Ref) -> Result<(), Error> {
        let have = self.chunks[rank as usize][buffer as usize];
        let Ref { index, size, .. } = chunk;
        if index.checked_add(size).is_none_or(|end| end > have) {
            let end = u64::from(index) + u64::from(size);
            return at.error(format!("chunks {index}..{end} of rank {rank}'s {buffer}, which has {have} chunks"));
        }
        if self.program.operands.len() >= MOST_OPERANDS {
            return at
                .error(format!("more than {MOST_OPERANDS} references in all, a multicast's counted for each member"));
        }
        self.program.operands.push(Operand { rank, index, size, space });
        Ok(())
    }

    /// Pairs must be of equal sizes, and all references of an operation that combines or forwards.
    fn check_sizes(&mut self, at: At) -> Result<(), Error> {
        let instr = *self.last();
        let (srcs, dsts) = (self.program.srcs(&instr), self.program.dsts(&instr));
        if srcs.is_empty() || dsts.is_empty() {
            return at.error(format!("{} sources and {} destinations, expected both", srcs.len(), dsts.len()));
        }
        let pairs = matches!(instr.action, Action::Copy | Action::Pack | Action::Unpack | Action::Port { .. });
        if pairs && srcs.len() != dsts.len() {
            return at.error(format!("{} sources for {} destinations", srcs.len(), dsts.len()));
        }
        if matches!(instr.action, Action::Forward | Action::PortForward) && srcs.len() != 1 {
            return at.error(format!("{} sources, expected 1", srcs.len()));
        }
        let differs = if pairs {
            srcs.iter().zip(dsts).find(|(src, dst)| src.size != dst.size)
        } else {
            srcs.iter().chain(dsts).find(|operand| operand.size != srcs[0].size).map(|operand| (&srcs[0], operand))
        };
        match differs {
            Some((one, other)) => {
                at.error(format!("references of {} and {} chunks, expected equal sizes", one.size, other.size))
            }
            None => Ok(()),
        }
    }

    /// Notes which memories an operation uses, and how.
    fn note_scratch(&mut self) {
        let Instr { operands, srcs, slice, .. } = *self.last();
        let program = &mut self.program;
        let (srcs, dsts) = program.operands[operands as usize..].split_at(srcs as usize);
        let plain = srcs.iter().chain(dsts).any(|operand| operand.space == Space::Scratch);
        let packets = srcs.iter().chain(dsts).any(|operand| operand.space == Space::Packets);
        program.writes_input |= dsts.iter().any(|operand| operand.space == Space::Input);
        program.plain_scratch |= plain;
        program.shape.packets |= packets;
        if plain || packets {
            // Wrapping is done for plain data in windows of whole references only.
            let whole = slice.1 <= 1 && !packets;
            program.windowed_scratch = match (program.windowed_scratch, self.window) {
                (Some(largest), Some(window)) if whole => Some(largest.max(window)),
                _ => None,
            };
        }
    }

    fn sync(&mut self, at: At, action: Action, of: &Block<'_>, view: &OpView<'_>) -> Result<bool, Error> {
        let kind = match view.channel() {
            Some(kind @ (ChannelKind::Memory | ChannelKind::Port)) => kind,
            Some(ChannelKind::Switch) => return at.error("a switch channel, which has no signals"),
            None => return at.error("no kind of channel"),
        };
        if action == Action::Flush && kind != ChannelKind::Port {
            return at.error(format!("a flush of a {kind} channel, expected a port channel"));
        }
        let ids = self.channel_ids(at, kind, of, view)?;
        let instr = self.last();
        (instr.action, instr.ids) = (action, ids);
        Ok(matches!(action, Action::PortSignal | Action::Flush))
    }

    /// Adds an operation's channels to the ids.
    fn channel_ids(&mut self, at: At, kind: ChannelKind, of: &Block<'_>, view: &OpView<'_>) -> Result<u32, Error> {
        let first = self.program.ids.len();
        let (table, (start, have)) = (&of.channels[kind as usize], self.tables.channels[kind as usize]);
        for number in view.ids() {
            let id = match entry(table, number) {
                Ok(id) => id,
                Err(have) => return at.error(format!("{kind} channel {number}, its thread block has {have}")),
            };
            if id >= have {
                return at.error(format!("{kind} channel {id}, its rank has {have}"));
            }
            self.program.ids.push(start + id);
        }
        Ok((self.program.ids.len() - first) as u32)
    }

    fn semaphore(&mut self, at: At, action: Action, view: &OpView<'_>) -> Result<bool, Error> {
        let (first, have) = self.tables.semaphores;
        for id in view.ids() {
            if id >= have {
                return at.error(format!("semaphore {id}, its rank has {have}"));
            }
            self.program.ids.push(first + id);
        }
        let ids = view.ids().len() as u32;
        let instr = self.last();
        (instr.action, instr.ids) = (action, ids);
        Ok(false)
    }

    fn barrier(&mut self, at: At, view: &OpView<'_>) -> Result<bool, Error> {
        let count = view.blocks();
        let mut ids = view.ids();
        let (Some(id), None) = (ids.next(), ids.next()) else {
            return at.error("a barrier with more or less than one number");
        };
        if count == 0 {
            return at.error("a barrier of 0 thread blocks, expected at least 1");
        }
        let barriers = &mut self.program.barriers;
        let position = *self.tables.barriers.entry(id).or_insert_with(|| {
            barriers.push(Barrier { id });
            barriers.len() as u32 - 1
        });
        self.program.ids.push(position);
        let instr = self.last();
        (instr.action, instr.count, instr.ids) = (Action::Barrier, count, 1);
        Ok(false)
    }
}

/// No reference is a packet.
const ALL: usize = usize::MAX;
