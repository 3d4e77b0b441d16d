//! What a rank says when it gives a launch up.

use super::drive::{Drive, launch};
use crate::error::{Cause, Error, Interrupted, Stall};
use crate::interpret::State;

impl Drive<'_> {
    /// Ends the launch for this rank and its peers.
    #[cold]
    pub(super) fn interrupt(&mut self, cause: Cause) -> Error {
        let stall = self.stall();
        let error = Error::Interrupted(Box::new(Interrupted { rank: self.session.rank(), cause, stall }));
        self.session.give_up(&error);
        error
    }

    /// Whether a rank has said where its thread blocks stand in this launch.
    pub(super) fn has_said(&self, rank: u32) -> bool {
        let agents = (0..).zip(&self.context.program.agents);
        let mut own = agents.filter(|(_, code)| code.rank == rank);
        own.all(|(agent, _)| self.context.position(agent, self.number).is_some())
    }

    fn stall(&self) -> Stall {
        let (mut waiting, mut others) = (Vec::new(), Vec::new());
        let own = self.session.rank();
        for (agent, code) in (0..).zip(&self.context.program.agents) {
            let known = if code.rank == own {
                Some(self.states[agent as usize - self.context.agents.start])
            } else {
                self.context.position(agent as usize, self.number)
            };
            let place = self.session.locals.iter().position(|&rank| rank == code.rank);
            match known {
                Some(state) if state.at.instr < code.end => waiting.push((agent, state)),
                Some(_) => {}
                // A rank that has finished has no position, perhaps, but is through with the launch.
                None if place.is_some_and(|place| self.session.calls.is_finished(place, self.number)) => {}
                None => others.push((agent, State::begin(self.number, code.start))),
            }
        }
        // Own thread blocks first.
        waiting.sort_by_key(|&(agent, _)| self.context.program.agents[agent as usize].rank != own);
        let mut stall =
            launch(self.context, self.params, self.views, self.number, self.turn, false).stall(&waiting, &others);
        stall.launch = self.session.launches;
        stall
    }
}
