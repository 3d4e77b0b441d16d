//! A builder of clocks.

use super::ClockEntry;

/// Entries by agent, each the largest that was added.
pub(super) struct ClockBuilder {
    /// How many timestamps of an agent happen before and are visible, for agents that are marked; zeros for all others.
    facts: Vec<(u32, u32)>,
    marks: Vec<u64>,
    /// The first of the marks that may be set, and the end of them.
    first: usize,
    end: usize,
}

impl Default for ClockBuilder {
    fn default() -> Self {
        Self { facts: Vec::new(), marks: Vec::new(), first: usize::MAX, end: 0 }
    }
}

impl ClockBuilder {
    #[inline]
    pub(super) fn add(&mut self, fact: &ClockEntry) {
        let (agent, place) = (fact.agent as usize, fact.agent as usize / 64);
        let Some((over, visible)) = self.facts.get_mut(agent) else { return self.grow(fact) };
        *over = fact.ordered.max(*over);
        *visible = fact.visible.max(*visible);
        self.marks[place] |= 1 << (agent % 64);
        self.first = self.first.min(place);
        self.end = self.end.max(place + 1);
    }

    /// Adds the entry of an agent beyond the capacity.
    #[cold]
    fn grow(&mut self, fact: &ClockEntry) {
        let marks = fact.agent as usize / 64 + 1;
        self.facts.resize(64 * marks, (0, 0));
        self.marks.resize(marks, 0);
        self.add(fact);
    }

    /// Appends all entries in ascending order, and clears the builder.
    pub(super) fn take(&mut self, out: &mut Vec<ClockEntry>) {
        for place in std::mem::replace(&mut self.first, usize::MAX)..std::mem::take(&mut self.end) {
            let mut marks = std::mem::take(&mut self.marks[place]);
            while marks > 0 {
                let agent = place * 64 + marks.trailing_zeros() as usize;
                let (over, visible) = std::mem::take(&mut self.facts[agent]);
                out.push(ClockEntry { agent: agent as u32, ordered: over, visible });
                marks &= marks - 1;
            }
        }
    }
}
