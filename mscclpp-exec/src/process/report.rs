//! Reports a rank's aborted launch.

use std::time::{Duration, Instant};

use super::launch_loop::{LaunchLoop, launch};
use mscclpp_base::error::{Error, LaunchAborted, Stall};
use mscclpp_base::interpret::{AgentState, Block, Launch, ResolvedPlan};
use mscclpp_bootstrap as bootstrap;

impl LaunchLoop<'_> {
    /// Aborts the launch for this rank and its peers, because of `cause` or, without one, because there was no progress for
    /// `waited`. `expired`: when that was noticed. `peer_buffers_blocked`: whether operations that access peers' buffers are blocked.
    #[cold]
    pub(super) fn interrupt(
        &mut self,
        cause: Option<bootstrap::Error>,
        waited: Duration,
        expired: Option<Instant>,
        peer_buffers_blocked: bool,
    ) -> Error {
        let stall = self.stall(peer_buffers_blocked);
        let expired = expired.unwrap_or_else(Instant::now);
        let cause = cause.or_else(|| self.session.find_late_ranks(waited, expired)).unwrap_or_else(|| {
            // All ranks are in the launch: the plan is the cause, or a rank that does not run.
            let ready = stall.blocked.iter().find(|blocked| blocked.is_ready() && blocked.rank != self.session.rank());
            if let Some(blocked) = ready {
                return self.session.no_progress(blocked.rank, waited);
            }
            let rank = stall.blocked.first().map_or(self.session.rank(), |blocked| blocked.rank);
            self.session.stalled(rank, stall.to_string())
        });
        let cause = Box::new(self.session.fail(cause));
        Error::Interrupted(Box::new(LaunchAborted { rank: self.session.rank(), cause, stall }))
    }

    /// Returns whether a rank has reported the positions of its thread blocks in this launch.
    pub(super) fn has_reported(&self, rank: u32) -> bool {
        let agents = (0..).zip(&self.context.program.agents);
        let mut own = agents.filter(|(_, code)| code.rank == rank);
        own.all(|(agent, _)| self.context.position(agent, self.number).is_some())
    }

    /// Returns the ranks of the node that have not started the launch.
    pub(super) fn not_started(&self) -> impl Iterator<Item = u32> {
        let begun = |local_rank| {
            self.session.is_compared(local_rank) || self.session.calls.begun(local_rank, self.number).is_some()
        };
        self.session
            .peers()
            .filter(move |&local_rank| !begun(local_rank))
            .map(|local_rank| self.session.locals[local_rank])
    }

    /// Returns the position of a peer's thread block, if its rank has reported it.
    fn position(&self, program: &ResolvedPlan, agent: u32) -> Option<AgentState> {
        let mut state = self.context.position(agent as usize, self.number)?;
        let header = state.loop_start.checked_sub(1).and_then(|at| program.instrs.get(at as usize));
        if let Some(header) = header.filter(|_| state.loop_end != 0) {
            state.unit = self.params.layout.window(header.unit);
        }
        Some(state)
    }

    /// Returns what the thread blocks of the node wait for.
    pub(super) fn stall(&self, peer_buffers_blocked: bool) -> Stall {
        let (mut waiting, mut others) = (Vec::new(), Vec::new());
        let own = self.session.rank();
        let all = self.context.of_all_ranks();
        let program = all.as_ref().unwrap_or(&self.context.program);
        // Without the operations of the other ranks, the report names those of this rank.
        let is_known = |code: &Block| all.is_ok() || code.rank == own;
        for (agent, code) in (0..).zip(&program.agents).filter(|(_, code)| is_known(code)) {
            let known = if code.rank == own {
                Some(self.states[agent as usize - self.context.agents.start])
            } else {
                self.position(program, agent)
            };
            let local_rank = self.session.locals.iter().position(|&rank| rank == code.rank);
            match known {
                Some(state) if state.at.instr < code.end => waiting.push((agent, state)),
                Some(_) => {}
                // A rank that has finished may have no position.
                None if local_rank
                    .is_some_and(|local_rank| self.session.calls.is_finished(local_rank, self.number)) => {}
                None => others.push((agent, AgentState::begin(self.number, code.start))),
            }
        }
        // This rank's thread blocks first.
        waiting.sort_by_key(|&(agent, _)| program.agents[agent as usize].rank != own);
        let not_started: Vec<u32> = self.not_started().collect();
        let launch = launch(self.context, self.params, self.views, self.number, self.epoch, peer_buffers_blocked);
        let mut stall = Launch { program, ..launch }.stall(&waiting, &others, &not_started);
        stall.launch = self.session.launches;
        stall
    }
}
