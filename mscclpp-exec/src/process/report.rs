//! Reports a rank's aborted launch.

use super::launch_loop::{LaunchLoop, launch};
use crate::error::{AbortCause, BlockedThreadBlock, Error, LaunchAborted, Stall, WaitsFor};
use crate::interpret::AgentState;

impl LaunchLoop<'_> {
    /// Aborts the launch for this rank and its peers. `closed`: whether operations that access peers' buffers are
    /// blocked.
    #[cold]
    pub(super) fn interrupt(&mut self, mut cause: AbortCause, closed: bool) -> Error {
        let stall = self.stall(closed);
        if let AbortCause::Timeout { unresponsive: silent, .. } = &mut cause {
            // The positions that these ranks reported are out of date.
            let free = |blocked: &&BlockedThreadBlock| matches!(&blocked.waits_for, WaitsFor::Peers { ranks } if ranks.is_empty());
            silent.extend(stall.blocked.iter().filter(free).map(|blocked| blocked.rank));
            silent.sort_unstable();
            silent.dedup();
        }
        let error = Error::Interrupted(Box::new(LaunchAborted { rank: self.session.rank(), cause, stall }));
        self.session.give_up(&error);
        error
    }

    /// Returns whether a rank has reported the positions of its thread blocks in this launch.
    pub(super) fn has_said(&self, rank: u32) -> bool {
        let agents = (0..).zip(&self.context.program.agents);
        let mut own = agents.filter(|(_, code)| code.rank == rank);
        own.all(|(agent, _)| self.context.position(agent, self.number).is_some())
    }

    /// Returns the ranks of the node that have not started the launch.
    pub(super) fn absent(&self) -> impl Iterator<Item = u32> {
        let begun = |place| self.session.is_compared(place) || self.session.calls.begun(place, self.number).is_some();
        self.session.peers().filter(move |&place| !begun(place)).map(|place| self.session.locals[place])
    }

    /// Returns the position of a peer's thread block, if its rank has reported it.
    fn position(&self, agent: u32) -> Option<AgentState> {
        let mut state = self.context.position(agent as usize, self.number)?;
        let program = &self.context.program;
        let header = state.loop_start.checked_sub(1).and_then(|at| program.instrs.get(at as usize));
        if let Some(header) = header.filter(|_| state.loop_end != 0) {
            state.unit = self.params.layout.window(header.unit);
        }
        Some(state)
    }

    fn stall(&self, closed: bool) -> Stall {
        let (mut waiting, mut others) = (Vec::new(), Vec::new());
        let own = self.session.rank();
        for (agent, code) in (0..).zip(&self.context.program.agents) {
            let known = if code.rank == own {
                Some(self.states[agent as usize - self.context.agents.start])
            } else {
                self.position(agent)
            };
            let place = self.session.locals.iter().position(|&rank| rank == code.rank);
            match known {
                Some(state) if state.at.instr < code.end => waiting.push((agent, state)),
                Some(_) => {}
                // A rank that has finished may have no position.
                None if place.is_some_and(|place| self.session.calls.is_finished(place, self.number)) => {}
                None => others.push((agent, AgentState::begin(self.number, code.start))),
            }
        }
        // This rank's thread blocks first.
        waiting.sort_by_key(|&(agent, _)| self.context.program.agents[agent as usize].rank != own);
        let absent: Vec<u32> = self.absent().collect();
        let launch = launch(self.context, self.params, self.views, self.number, self.turn, closed);
        let mut stall = launch.stall(&waiting, &others, &absent);
        stall.launch = self.session.launches;
        stall
    }
}
