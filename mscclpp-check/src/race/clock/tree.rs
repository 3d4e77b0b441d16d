//! Large clocks: trees over the numbers of agents, of which every distinct subtree is stored once.
//!
//! The leaves hold the entries of a few neighboring agents. Equal subtrees have one number, so that comparing two
//! clocks compares two numbers, and a join skips the subtrees that two clocks share.

use std::ops::Range;

use super::super::agent_ids::AgentIds;
use super::ClockEntry;

/// Children of a node, and agents of a leaf.
pub(in super::super) const WIDTH: usize = 16;

/// For each agent of a leaf, one more than the timestamps that happen before, 0 without an entry; then, for each, how
/// many are visible.
type Leaf = [u32; 2 * WIDTH];

/// The numbers of its children, one level below. Number 0 is empty on all levels.
type Node = [u32; WIDTH];

/// All trees of an abstract execution. A tree is the number of its root.
#[derive(Default)]
pub(super) struct Trees {
    leaves: Pool<{ 2 * WIDTH }>,
    /// By level, the lowest one first. Trees are nodes of the last one, or leaves if there is none.
    nodes: Vec<Pool<WIDTH>>,
    /// Cache of joins and unions, by a part of the hash.
    joins: Vec<Join>,
    unions: Vec<Union>,
    /// Operands of the unions in the cache.
    lists: Vec<u32>,
    /// Operands of the union that is being computed.
    open: Vec<u32>,
}

/// Two subtrees of a join.
#[derive(Clone, Copy, Default)]
struct Join {
    mine: u32,
    theirs: u32,
    /// The level, and whether the join is relaxed; 0 for an unused entry.
    kind: u32,
    result: u32,
}

/// Several subtrees of a union: their range in `lists`.
#[derive(Clone, Copy, Default)]
struct Union {
    from: u32,
    to: u32,
    level: u32,
    result: u32,
}

/// Minimum number of cached results; more where there are more leaves.
const MIN_CACHED_RESULTS: usize = 1 << 8;

impl Trees {
    /// Creates a pool without trees, for the given number of agents.
    pub(super) fn new(agents: usize) -> Self {
        let (mut levels, mut reach) = (0, WIDTH);
        while reach < agents {
            (levels, reach) = (levels + 1, reach.saturating_mul(WIDTH));
        }
        Self { nodes: (0..levels).map(|_| Pool::default()).collect(), ..Self::default() }
    }

    fn leaf(&self, tree: u32, agent: u32) -> &Leaf {
        let mut number = tree;
        for level in (1..=self.nodes.len()).rev() {
            number = self.nodes[level - 1].get(number)[slot(level, agent)];
        }
        self.leaves.get(number)
    }

    pub(super) fn over(&self, tree: u32, agent: u32) -> u32 {
        self.leaf(tree, agent)[slot(0, agent)].saturating_sub(1)
    }

    pub(super) fn visible(&self, tree: u32, agent: u32) -> u32 {
        self.leaf(tree, agent)[WIDTH + slot(0, agent)]
    }

    /// Returns whether a condition holds for an agent of a range that has an entry, tested in ascending order up to the
    /// first for which it does.
    pub(super) fn any(&self, tree: u32, agents: &Range<usize>, holds: &mut impl FnMut(u32) -> bool) -> bool {
        self.any_within(self.nodes.len(), tree, 0, agents, holds)
    }

    fn any_within(
        &self,
        level: usize,
        number: u32,
        first: usize,
        agents: &Range<usize>,
        holds: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        let reach = WIDTH.saturating_pow(level as u32 + 1);
        if number == 0 || agents.end <= first || first.saturating_add(reach) <= agents.start {
            return false;
        }
        let Some(below) = level.checked_sub(1) else {
            let mut known = self.leaves.get(number)[..WIDTH].iter().zip(first..);
            return known.any(|(over, agent)| *over > 0 && agents.contains(&agent) && holds(agent as u32));
        };
        let mut children = self.nodes[below].get(number).iter().zip((first..).step_by(reach / WIDTH));
        children.any(|(child, first)| self.any_within(below, *child, first, agents, holds))
    }

    /// Returns the tree with some entries joined, which are in ascending order of their agents; relaxed entries order
    /// but publish nothing.
    pub(super) fn join_entries(&mut self, tree: u32, facts: &[ClockEntry], relaxed: bool) -> u32 {
        self.join_entries_at(self.nodes.len(), tree, facts, relaxed)
    }

    fn join_entries_at(&mut self, level: usize, number: u32, facts: &[ClockEntry], relaxed: bool) -> u32 {
        let Some(below) = level.checked_sub(1) else {
            let mut leaf = *self.leaves.get(number);
            for fact in facts {
                let place = slot(0, fact.agent);
                leaf[place] = leaf[place].max(fact.ordered.saturating_add(1));
                leaf[WIDTH + place] = leaf[WIDTH + place].max(if relaxed { 0 } else { fact.visible });
            }
            return self.leaves.number(leaf);
        };
        let mut node = *self.nodes[below].get(number);
        for facts in facts.chunk_by(|one, other| slot(level, one.agent) == slot(level, other.agent)) {
            let slot = slot(level, facts[0].agent);
            node[slot] = self.join_entries_at(below, node[slot], facts, relaxed);
        }
        self.nodes[below].number(node)
    }

    /// Returns the tree with every agent replaced by the one that is the given places after it. Places are a multiple
    /// of the width, so that leaves do not change.
    pub(super) fn shifted(&mut self, tree: u32, ring: AgentIds, places: u32) -> u32 {
        let mut leaves = Vec::new();
        self.leaves_of(self.nodes.len(), tree, 0, &mut leaves);
        // Agents past the end come first.
        let turn = leaves.partition_point(|(first, _)| first + places < ring.len() as u32);
        leaves.rotate_left(turn);
        leaves.iter_mut().for_each(|(first, _)| *first = ring.moved(*first, places));
        self.tree_of_leaves(self.nodes.len(), &leaves)
    }

    /// Collects the leaves of a subtree, each with its first agent.
    fn leaves_of(&self, level: usize, number: u32, first: usize, leaves: &mut Vec<(u32, u32)>) {
        match level.checked_sub(1) {
            _ if number == 0 => {}
            None => leaves.push((first as u32, number)),
            Some(below) => {
                let reach = WIDTH.pow(level as u32);
                for (child, first) in self.nodes[below].get(number).iter().zip((first..).step_by(reach)) {
                    self.leaves_of(below, *child, first, leaves);
                }
            }
        }
    }

    /// Returns the subtree of some leaves, in ascending order.
    fn tree_of_leaves(&mut self, level: usize, leaves: &[(u32, u32)]) -> u32 {
        let Some(below) = level.checked_sub(1) else { return leaves.first().map_or(0, |(_, leaf)| *leaf) };
        let mut node: Node = [0; WIDTH];
        for leaves in leaves.chunk_by(|one, other| slot(level, one.0) == slot(level, other.0)) {
            node[slot(level, leaves[0].0)] = self.tree_of_leaves(below, leaves);
        }
        self.nodes[below].number(node)
    }

    /// Returns the join of two trees; a relaxed one orders but publishes nothing.
    pub(super) fn join(&mut self, mine: u32, theirs: u32, relaxed: bool) -> u32 {
        self.join_at(self.nodes.len(), mine, theirs, relaxed)
    }

    fn join_at(&mut self, level: usize, mine: u32, theirs: u32, relaxed: bool) -> u32 {
        if theirs == 0 || mine == theirs {
            return mine;
        }
        if mine == 0 && !relaxed {
            return theirs;
        }
        if self.joins.len() < self.leaves.items.len() {
            self.joins = vec![Join::default(); (4 * self.joins.len()).max(MIN_CACHED_RESULTS)];
        }
        let kind = 2 * level as u32 + u32::from(relaxed) + 1;
        let hash = scrambled(u64::from(mine) << 32 | u64::from(theirs)).wrapping_add(u64::from(kind)) as usize;
        let known = self.joins[hash % self.joins.len()];
        if (known.mine, known.theirs, known.kind) == (mine, theirs, kind) {
            return known.result;
        }
        let result = match level.checked_sub(1) {
            None => {
                let (mut leaf, other) = (*self.leaves.get(mine), self.leaves.get(theirs));
                let writers = if relaxed { &other[..WIDTH] } else { &other[..] };
                leaf.iter_mut().zip(writers).for_each(|(known, writers)| *known = (*known).max(*writers));
                self.leaves.number(leaf)
            }
            Some(below) => {
                let (mut node, other) = (*self.nodes[below].get(mine), *self.nodes[below].get(theirs));
                for (known, writers) in node.iter_mut().zip(other) {
                    *known = self.join_at(below, *known, writers, relaxed);
                }
                self.nodes[below].number(node)
            }
        };
        let place = hash % self.joins.len();
        self.joins[place] = Join { mine, theirs, kind, result };
        result
    }

    /// Returns the union of several trees.
    pub(super) fn union(&mut self, trees: impl Iterator<Item = u32>) -> u32 {
        self.open.clear();
        self.open.extend(trees);
        self.union_pending(self.nodes.len(), 0)
    }

    /// Returns the union of the subtrees of a level that are pending from an index on, and removes them.
    fn union_pending(&mut self, level: usize, from: usize) -> u32 {
        // Only distinct subtrees are united: many are equal.
        self.open[from..].sort_unstable();
        let mut end = from;
        for next in from..self.open.len() {
            let number = self.open[next];
            if number != 0 && (end == from || self.open[end - 1] != number) {
                self.open[end] = number;
                end += 1;
            }
        }
        self.open.truncate(end);
        let result = match (&self.open[from..], level.checked_sub(1)) {
            ([], _) => 0,
            (&[only], _) => only,
            (&[one, other], _) => self.join_at(level, one, other, false),
            (all, None) => {
                let mut leaf: Leaf = [0; 2 * WIDTH];
                for other in all.iter().map(|number| self.leaves.get(*number)) {
                    leaf.iter_mut().zip(other).for_each(|(known, writers)| *known = (*known).max(*writers));
                }
                self.leaves.number(leaf)
            }
            (_, Some(below)) => self.union_nodes(below, from),
        };
        self.open.truncate(from);
        result
    }

    /// Returns the union of several nodes whose children are on a level, through the cache: thread blocks of a rank
    /// mostly acquire the same.
    fn union_nodes(&mut self, below: usize, from: usize) -> u32 {
        let end = self.open.len();
        if self.unions.len() < self.nodes[below].items.len() {
            self.unions = vec![Union::default(); (4 * self.unions.len()).max(MIN_CACHED_RESULTS)];
            self.lists.clear();
        }
        let mix = |hash, number: &u32| scrambled(hash ^ u64::from(*number)).rotate_left(20);
        let hash = self.open[from..].iter().fold(below as u64, mix) as usize;
        let known = self.unions[hash % self.unions.len()];
        if known.level == below as u32 && self.lists[known.from as usize..known.to as usize] == self.open[from..] {
            return known.result;
        }
        let mut node: Node = [0; WIDTH];
        for (slot, child) in node.iter_mut().enumerate() {
            for next in from..end {
                let number = self.open[next];
                self.open.push(self.nodes[below].get(number)[slot]);
            }
            *child = self.union_pending(below, end);
        }
        let result = self.nodes[below].number(node);
        let place = hash % self.unions.len();
        let first = self.lists.len() as u32;
        self.lists.extend_from_slice(&self.open[from..end]);
        self.unions[place] = Union { from: first, to: self.lists.len() as u32, level: below as u32, result };
        result
    }
}

/// Returns the position of an agent below a node of some level.
fn slot(level: usize, agent: u32) -> usize {
    (agent as usize >> (WIDTH.trailing_zeros() as usize * level)) % WIDTH
}

fn scrambled(number: u64) -> u64 {
    let number = number.wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ number >> 32
}

/// Distinct arrays, and their numbers. The array of zeros has number 0.
struct Pool<const N: usize> {
    items: Vec<[u32; N]>,
    /// Numbers by hash, 0 for an unused entry; at most half of the table is used.
    places: Vec<u32>,
}

impl<const N: usize> Default for Pool<N> {
    fn default() -> Self {
        Self { items: vec![[0; N]], places: vec![0; 1 << 4] }
    }
}

impl<const N: usize> Pool<N> {
    fn get(&self, number: u32) -> &[u32; N] {
        &self.items[number as usize]
    }

    /// Returns the number of an array, which is added if it is new.
    fn number(&mut self, item: [u32; N]) -> u32 {
        let mut place = self.place(&item);
        loop {
            match self.places[place] {
                0 if item == [0; N] => return 0,
                0 => break,
                known if self.items[known as usize] == item => return known,
                _ => place = (place + 1) % self.places.len(),
            }
        }
        let number = self.items.len() as u32;
        self.places[place] = number;
        self.items.push(item);
        if 2 * self.items.len() > self.places.len() {
            self.places = vec![0; 4 * self.places.len()];
            for (number, item) in (0..).zip(&self.items).skip(1) {
                let mut place = self.place(item);
                while self.places[place] != 0 {
                    place = (place + 1) % self.places.len();
                }
                self.places[place] = number;
            }
        }
        number
    }

    fn place(&self, item: &[u32; N]) -> usize {
        let mut hash = 0u64;
        for pair in item.chunks_exact(2) {
            let pair = u64::from(pair[0]) << 32 | u64::from(pair[1]);
            hash = (hash.rotate_left(5) ^ pair).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        scrambled(hash) as usize % self.places.len()
    }
}
