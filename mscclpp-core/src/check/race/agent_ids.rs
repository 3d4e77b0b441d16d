//! Numbers of agents where some ranks stand for all.

use std::ops::Range;

use crate::check::model::Model;

/// The agents of the own ranks have numbers below `span`, those of the ranks shifted by k the same and k `span` more. Where ranks
/// stand for themselves only, nothing is ever shifted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentIds {
    span: u32,
    all: u32,
}

/// Half of what numbers can count, so that sums of two of them are numbers.
const MOST_AGENTS: usize = 1 << 30;

impl AgentIds {
    /// Of agents that are thread blocks, and the two sides of ports as threads see them. `None` if they are more than can be
    /// numbered.
    pub(super) fn of(model: &Model) -> Option<Self> {
        let span = model.agents.len() + 2 * model.ports();
        // Neighbours that share a leaf of a tree remain neighbours.
        let span = if model.shifts() > 1 { span.next_multiple_of(super::clock::LEAF) } else { span };
        let all = span.checked_mul(model.shifts() as usize).filter(|all| *all <= MOST_AGENTS)?;
        Some(Self { span: span as u32, all: all as u32 })
    }

    /// Of so many agents that all are themselves.
    #[cfg(test)]
    pub(super) fn plain(agents: u32) -> Self {
        Self { span: agents, all: agents }
    }

    /// Numbers are below this.
    pub(super) fn len(self) -> usize {
        self.all as usize
    }

    /// Agents of the own ranks.
    pub(super) fn span(self) -> usize {
        self.span as usize
    }

    /// How much higher numbers are that are shifted.
    pub(super) fn places(self, shift: u32) -> u32 {
        shift * self.span
    }

    /// How much higher numbers are that are shifted back.
    pub(super) fn back(self, shift: u32) -> u32 {
        if shift == 0 { 0 } else { self.all - shift * self.span }
    }

    /// The number that lies so many places behind another one, all around.
    pub(super) fn moved(self, agent: u32, places: u32) -> u32 {
        let moved = agent + places;
        if moved >= self.all && places > 0 { moved - self.all } else { moved }
    }

    /// The numbers of agents of own ranks, shifted.
    pub(super) fn range(self, agents: &Range<usize>, shift: u32) -> Range<usize> {
        let places = self.places(shift) as usize;
        agents.start + places..agents.end + places
    }

    /// The agent of an own rank whose shifted one this is, and by how much.
    pub(super) fn own(self, agent: u32) -> (u32, u32) {
        (agent.checked_rem(self.span).unwrap_or(agent), agent.checked_div(self.span).unwrap_or(0))
    }
}
