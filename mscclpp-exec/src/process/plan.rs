//! What a group keeps of a plan on a rank.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Arc, OnceLock};

use mscclpp_core::check::{LaunchBoundaries, launch_boundaries};
use mscclpp_core::plan::Plan;

use super::buffer::Shared;
use super::nodes::sends;
use crate::interpret::{AgentState, Counters, ResolvedPlan, Space};
use crate::passes::RankSchedule;
use crate::passes::place_in_caller_memory::Placement;
use crate::shm::SharedCacheLines;

/// A plan that was prepared. Launches of all sizes share it, one at a time.
pub(super) struct PlanState {
    pub(super) program: ResolvedPlan,
    pub(super) placement: Placement,
    pub(super) counters: Counters,
    /// A line per thread block of any rank behind those of the channels: where it stands, written by those that wait for long.
    cells: SharedCacheLines,
    /// Own thread blocks, in the program's.
    pub(super) agents: Range<usize>,
    /// The own proxy, in the program's.
    pub(super) proxy: Option<usize>,
    /// By own thread block: the instruction after which peers need not wait for it: its last that visits their buffers.
    pub(super) last_visits: Vec<Option<u32>>,
    /// By place: who must have begun before anything is done that depends on it, and who must have finished before a launch
    /// ends.
    pub(super) awaited: Vec<usize>,
    pub(super) finishes: Vec<usize>,
    /// By place: whose callers' buffers this rank accesses.
    pub(super) visits: Vec<usize>,
    /// Ranks of other nodes that this one sends to, and those that send to it.
    pub(super) sends_to: Vec<u32>,
    pub(super) receives_from: Vec<u32>,
    /// By own thread block: its last instruction for which the proxy sends anything.
    pub(super) last_sends: Vec<Option<u32>>,
    rank: u32,
    /// What [`may_be_late`](Self::may_be_late) has found of scratch.
    late_scratch: OnceLock<bool>,
    /// Whether peers only read what this rank hands in, and nothing else of it must last until they have finished: if they
    /// read copies, a launch need not wait for them.
    pub(super) is_read_only: bool,
    /// Launches so far, and the call that the last one was: plan, size and type.
    launches: AtomicU64,
    last: AtomicU64,
}

/// Times that a position is read before it counts as unsaid: its writer may have lost the processor half way.
const READS: u32 = 20;

/// Lines of the segment that a plan's counters and positions lie in.
pub(super) fn lines(program: &ResolvedPlan) -> usize {
    program.channels.len() + program.agents.len()
}

impl PlanState {
    /// `cells`: [`lines`] lines, shared by the ranks of a node. `locals`: those ranks.
    pub(super) fn new(
        program: ResolvedPlan,
        rank: u32,
        locals: &[u32],
        nodes: &[u32],
        cells: SharedCacheLines,
    ) -> Self {
        let far = sends(&program, nodes);
        let schedule = RankSchedule::new(program, rank, nodes);
        let RankSchedule { program, agents, placement, awaited, finishes, last_visits, is_read_only } = schedule;
        let places = |of: &[bool]| {
            (0..locals.len()).filter(|&place| locals[place] != rank && of[locals[place] as usize]).collect()
        };
        let last_sends = agents.clone().map(|agent| {
            let code = &program.agents[agent];
            (code.start..code.end).rev().find(|&at| program.instrs[at as usize].action.is_port_send())
        });
        let last_sends = last_sends.collect();
        Self {
            last_visits,
            last_sends,
            sends_to: far.iter().filter(|(from, _)| *from == rank).map(|&(_, to)| to).collect(),
            receives_from: far.iter().filter(|(_, to)| *to == rank).map(|&(from, _)| from).collect(),
            rank,
            late_scratch: OnceLock::new(),
            awaited: places(&awaited),
            finishes: places(&finishes),
            visits: places(&placement.visits),
            is_read_only,
            counters: Counters::shared(&program, cells.clone()),
            cells,
            agents,
            proxy: program.proxies.iter().position(|&owner| owner == rank),
            placement,
            program,
            launches: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// Whether the next launch, a call `id`, uses the second half of double scratch; and whether ranks must meet first, as it
    /// lays out scratch otherwise than the last one. What the checks prove of a plan's next launch they prove for one of the
    /// same size: with another one, chunks lie where others lay that a slow rank has yet to read.
    pub(super) fn next_turn(&self, id: u64) -> (bool, bool) {
        // One launch at a time has the session, so these need no locked instructions.
        let (before, last) = (self.launches.load(Relaxed), self.last.load(Relaxed));
        self.launches.store(before + 1, Relaxed);
        self.last.store(id, Relaxed);
        let uses_scratch = self.program.plain_scratch || self.program.shape.packets;
        (!before.is_multiple_of(2), before > 0 && last != id && uses_scratch)
    }

    /// Whether data that a port put brings to a memory of this rank may come when the rank's operations have ended. In what the
    /// caller handed in it may not in any plan that is right. Packets say themselves that they are there. In scratch that nothing
    /// reads it does no harm; in other scratch the plan must be proved, or an operation may have read what was there before.
    #[cold]
    pub(super) fn may_be_late(&self, space: Space) -> bool {
        let reads = || {
            let program = &self.program;
            let instrs = program.agents.iter().flat_map(|code| &program.instrs[code.start as usize..code.end as usize]);
            let mut srcs = instrs.flat_map(|instr| program.srcs(instr));
            srcs.any(|src| src.rank == self.rank && src.space == Space::Scratch)
        };
        let is_proved = || launch_boundaries(&self.program.plan.tree()) != LaunchBoundaries::default();
        match space {
            Space::Packets => true,
            Space::Scratch => *self.late_scratch.get_or_init(|| !reads() || is_proved()),
            _ => false,
        }
    }

    pub(super) fn is_of(&self, plan: &Plan) -> bool {
        let known = &self.program.plan;
        known.hash() == plan.hash() && known.image().len() == plan.image().len()
    }

    /// What ranks of other nodes call the plan.
    #[inline]
    pub(super) fn key(&self) -> u64 {
        self.program.plan.hash() as u64
    }

    /// Says where an own thread block stands in a call.
    pub(super) fn write_position(&self, agent: usize, call: u64, state: &AgentState) {
        let line = self.cells.line(self.program.channels.len() + agent);
        line[0].store(0, Relaxed);
        fence(Release);
        for (word, value) in line[1..].iter().zip(state.to_words()) {
            word.store(value, Relaxed);
        }
        line[0].store(call, Release);
    }

    /// Where a thread block of any rank of the node stood last in a call; `None` if its rank has not said so.
    #[cold]
    pub(super) fn position(&self, agent: usize, call: u64) -> Option<AgentState> {
        let line = self.cells.line(self.program.channels.len() + agent);
        for _ in 0..READS {
            let said = line[0].load(Acquire);
            let words = std::array::from_fn(|i| line[1 + i].load(Relaxed));
            fence(Acquire);
            if said == call && line[0].load(Relaxed) == call {
                return Some(AgentState::from_words(call, words));
            }
            if said != 0 && said != call {
                return None;
            }
            // It is being written, or was never.
            std::thread::yield_now();
        }
        None
    }

    /// Whether launches depend on others' beginnings or ends at all.
    pub(super) fn touches(&self) -> bool {
        !self.awaited.is_empty() || !self.finishes.is_empty()
    }
}

/// A plan of a session.
pub(super) struct Prepared {
    pub(super) context: Arc<PlanState>,
    /// Plain and packets.
    pub(super) scratch: [Option<Arc<Shared>>; 2],
    /// Bytes per rank of each.
    pub(super) bytes: [u64; 2],
}
