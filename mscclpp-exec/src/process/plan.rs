//! State that a communicator keeps of a plan on a rank.

use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Arc, OnceLock};

use mscclpp_core::check::{LaunchBoundaries, launch_boundaries};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::Count;

use super::plan_memory::PlanMemory;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::sends;
use mscclpp_base::interpret::{AgentState, Counters, Opcode, Operand, ResolvedPlan, Space, count_lines, resolve};
use mscclpp_base::passes::RankSchedule;
use mscclpp_base::passes::place_in_caller_memory::Placement;
use mscclpp_base::shm::SharedCacheLines;

/// State of a prepared plan. Launches of all message sizes share it, one at a time.
pub(super) struct PlanState {
    /// The resolved plan, without what only other ranks need.
    pub(super) program: ResolvedPlan,
    /// Node of each rank.
    nodes: Box<[u32]>,
    pub(super) placement: Placement,
    pub(super) counters: Counters,
    /// After the lines of the channels and of the tables of counts, one line per thread block of any rank: its
    /// position, which ranks that wait long write.
    cache_lines: SharedCacheLines,
    /// This rank's thread blocks, as indices into the resolved plan's.
    pub(super) agents: Range<usize>,
    /// This rank's proxy, as an index into the resolved plan's.
    pub(super) proxy: Option<usize>,
    /// By thread block of this rank: its last instruction that accesses peers' buffers, after which peers need not wait
    /// for it.
    pub(super) last_peer_access: Vec<Option<u32>>,
    /// Local ranks that must have started before any operation that depends on them, and local ranks that must have
    /// finished before a launch ends.
    pub(super) awaited: Vec<usize>,
    pub(super) finishes: Vec<usize>,
    /// Local ranks whose callers' buffers this rank accesses.
    pub(super) accesses: Vec<usize>,
    /// Ranks of other nodes to which this one sends, and those that send to it.
    pub(super) sends_to: Vec<u32>,
    pub(super) receives_from: Vec<u32>,
    /// By thread block of this rank: its last instruction for which the proxy sends anything.
    pub(super) last_send: Vec<Option<u32>>,
    pub(super) rank: u32,
    /// Whether an operation reads this rank's plain scratch.
    reads_scratch: bool,
    /// Result of [`may_be_late`](Self::may_be_late) for scratch.
    late_scratch: OnceLock<bool>,
    /// Whether peers only read this rank's buffers, and nothing else of this rank must stay valid until they have
    /// finished. If they read copies, a launch then need not wait for them.
    pub(super) is_read_only: bool,
    /// Number of launches so far, and the call id of the last one: plan, size and type.
    launches: AtomicU64,
    last: AtomicU64,
}

/// How often a position is read before it counts as not reported: its writer may have lost the processor in the middle.
const MAX_READS: u32 = 20;

/// Returns the number of lines of a plan's counters and positions.
pub(super) fn lines(program: &ResolvedPlan) -> usize {
    first_position(program) + program.agents.len()
}

/// Returns the line of the first thread block's position.
fn first_position(program: &ResolvedPlan) -> usize {
    program.channels.len() + count_lines(program)
}

impl PlanState {
    /// Creates the state. `cache_lines`: [`lines`] lines, shared by the ranks of a node. `locals`: those ranks.
    pub(super) fn new(
        program: ResolvedPlan,
        rank: u32,
        locals: &[u32],
        nodes: &[u32],
        cache_lines: SharedCacheLines,
    ) -> Self {
        let schedule = RankSchedule::new(program, rank, nodes);
        // Of what the passes kept.
        let remote = sends(&schedule.program, nodes);
        let RankSchedule { mut program, agents, placement, awaited, finishes, last_peer_access, is_read_only } =
            schedule;
        let reads = |src: &Operand| src.rank == rank && src.space == Space::Scratch;
        let reads_scratch = program.instrs.iter().any(|instr| program.srcs(instr).iter().any(reads));
        program.retain_rank(rank);
        let local_ranks = |of: &[bool]| {
            (0..locals.len())
                .filter(|&local_rank| locals[local_rank] != rank && of[locals[local_rank] as usize])
                .collect()
        };
        let last_send = agents.clone().map(|agent| {
            let code = &program.agents[agent];
            let sends = |action: Opcode| action.is_port_send() || action == Opcode::ExchangeCounts;
            (code.start..code.end).rev().find(|&at| sends(program.instrs[at as usize].action))
        });
        let last_send = last_send.collect();
        Self {
            last_peer_access,
            last_send,
            sends_to: remote.iter().filter(|(from, _)| *from == rank).map(|&(_, to)| to).collect(),
            receives_from: remote.iter().filter(|(_, to)| *to == rank).map(|&(from, _)| from).collect(),
            rank,
            nodes: nodes.into(),
            reads_scratch,
            late_scratch: OnceLock::new(),
            awaited: local_ranks(&awaited),
            finishes: local_ranks(&finishes),
            accesses: local_ranks(&placement.accesses),
            is_read_only,
            counters: Counters::shared(&program, cache_lines.clone()),
            cache_lines,
            agents,
            proxy: program.proxies.iter().position(|&owner| owner == rank),
            placement,
            program,
            launches: AtomicU64::new(0),
            last: AtomicU64::new(0),
        }
    }

    /// Returns the number of the next launch of the plan, with call id `id`, counted from 1, of which even ones use the
    /// second half of double scratch, and whether ranks must synchronize first because the launch lays out scratch differently from the last one. The checks prove a
    /// plan's next launch only for the same size: with another size, chunks overlap other chunks of the last launch,
    /// which a slow rank may have yet to read.
    pub(super) fn next_epoch(&self, id: u64) -> (u64, bool) {
        // Only one launch at a time holds the session, so these need no atomic read-modify-write instructions.
        let (before, last) = (self.launches.load(Relaxed), self.last.load(Relaxed));
        self.launches.store(before + 1, Relaxed);
        self.last.store(id, Relaxed);
        let uses_scratch = self.program.plain_scratch || self.program.shape.packets;
        (before + 1, before > 0 && last != id && uses_scratch)
    }

    /// Returns an entry of the table of counts of the plan's last launch.
    pub(super) fn count(&self, count: Count) -> i64 {
        self.counters.count(self.program.shape.ranks, self.launches.load(Relaxed), count)
    }

    /// Returns whether the data of a port put to memory of this rank may arrive after the rank's operations have
    /// finished. In a caller's buffer it may not in any correct plan. Packets carry flags that show their arrival. In
    /// scratch that no operation reads it is harmless; for other scratch the plan must be proved, or an operation may
    /// have read the earlier contents.
    #[cold]
    pub(super) fn may_be_late(&self, space: Space) -> bool {
        let is_proved = || launch_boundaries(&self.program.plan.tree()) != LaunchBoundaries::default();
        match space {
            Space::Packets => true,
            Space::Scratch => *self.late_scratch.get_or_init(|| !self.reads_scratch || is_proved()),
            _ => false,
        }
    }

    /// Returns the resolved plan with the operations of all ranks, for reports.
    ///
    /// # Errors
    /// As [`resolve`]: none, because the plan was resolved before.
    #[cold]
    pub(super) fn of_all_ranks(&self) -> Result<ResolvedPlan, Error> {
        Ok(RankSchedule::new(resolve(&self.program.plan)?, self.rank, &self.nodes).program)
    }

    pub(super) fn is_of(&self, plan: &Plan) -> bool {
        let known = &self.program.plan;
        known.hash() == plan.hash() && known.image().len() == plan.image().len()
    }

    /// Returns the key of the plan in messages to other nodes.
    #[inline]
    pub(super) fn key(&self) -> u64 {
        self.program.plan.hash() as u64
    }

    /// Records the position of a thread block of this rank in a call.
    pub(super) fn write_position(&self, agent: usize, call: u64, state: &AgentState) {
        let line = self.cache_lines.line(first_position(&self.program) + agent);
        line[0].store(0, Relaxed);
        fence(Release);
        for (word, value) in line[1..].iter().zip(state.to_words()) {
            word.store(value, Relaxed);
        }
        line[0].store(call, Release);
    }

    /// Returns the last recorded position in a call of a thread block of any rank of the node; `None` if its rank has
    /// not recorded it.
    #[cold]
    pub(super) fn position(&self, agent: usize, call: u64) -> Option<AgentState> {
        let line = self.cache_lines.line(first_position(&self.program) + agent);
        for _ in 0..MAX_READS {
            let recorded = line[0].load(Acquire);
            let words = std::array::from_fn(|i| line[1 + i].load(Relaxed));
            fence(Acquire);
            if recorded == call && line[0].load(Relaxed) == call {
                return Some(AgentState::from_words(call, words));
            }
            if recorded != 0 && recorded != call {
                return None;
            }
            // The line is being written, or was never written.
            std::thread::yield_now();
        }
        None
    }

    /// Returns whether this rank sends to other nodes, or receives from them.
    pub(super) fn has_messages(&self) -> bool {
        !self.sends_to.is_empty() || !self.receives_from.is_empty()
    }

    /// Returns whether launches depend on other ranks' starts or ends.
    pub(super) fn depends_on_peers(&self) -> bool {
        !self.awaited.is_empty() || !self.finishes.is_empty()
    }
}

/// A prepared plan of a session.
pub(super) struct Prepared {
    pub(super) context: Arc<PlanState>,
    /// Memory of the context's lines.
    pub(super) _counters: Arc<PlanMemory>,
    /// Plain and packet scratch.
    pub(super) scratch: [Option<Arc<PlanMemory>>; 2],
}
