//! Numbers of agents under symmetry reduction.

use std::ops::Range;

use crate::model::Model;

/// The agents of the representative ranks have numbers below `span`; those of the ranks rotated by k have the same
/// numbers plus k times `span`. Without symmetry reduction, nothing is ever rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentIds {
    span: u32,
    all: u32,
}

/// Half of the range of the number type, so that sums of two numbers do not overflow.
const MAX_AGENTS: usize = 1 << 30;

impl AgentIds {
    /// Numbers the thread blocks and, per thread that uses them, the two sides of ports. `None` if there are too many.
    pub(super) fn of(model: &Model) -> Option<Self> {
        let span = model.agents.len() + 2 * model.ports();
        // Agents that share a leaf of a tree share one after a rotation, too.
        let span = if model.shifts() > 1 { span.next_multiple_of(super::clock::LEAF) } else { span };
        let all = span.checked_mul(model.shifts() as usize).filter(|all| *all <= MAX_AGENTS)?;
        Some(Self { span: span as u32, all: all as u32 })
    }

    /// Numbers the given count of agents without symmetry.
    #[cfg(test)]
    pub(super) fn plain(agents: u32) -> Self {
        Self { span: agents, all: agents }
    }

    /// Returns the end of the numbers.
    pub(super) fn len(self) -> usize {
        self.all as usize
    }

    /// Returns the number of agents of the representative ranks.
    pub(super) fn span(self) -> usize {
        self.span as usize
    }

    /// Returns how much larger the numbers of rotated agents are.
    pub(super) fn places(self, shift: u32) -> u32 {
        shift * self.span
    }

    /// Returns how much larger the numbers of agents rotated back are.
    pub(super) fn back(self, shift: u32) -> u32 {
        if shift == 0 { 0 } else { self.all - shift * self.span }
    }

    /// Returns the number that is the given places after another one, modulo the length.
    pub(super) fn moved(self, agent: u32, places: u32) -> u32 {
        let moved = agent + places;
        if moved >= self.all && places > 0 { moved - self.all } else { moved }
    }

    /// Returns the numbers of agents of representative ranks after a rotation.
    pub(super) fn range(self, agents: &Range<usize>, shift: u32) -> Range<usize> {
        let places = self.places(shift) as usize;
        agents.start + places..agents.end + places
    }

    /// Returns the agent of a representative rank of which this agent is the rotated one, and the rotation.
    pub(super) fn own(self, agent: u32) -> (u32, u32) {
        (agent.checked_rem(self.span).unwrap_or(agent), agent.checked_div(self.span).unwrap_or(0))
    }
}
