//! Selection of the agent that runs next.

use std::collections::VecDeque;

use super::program::{AgentKind, Block, Program};
use crate::random::Random;

/// Agents that can make progress. Delayed ones run when no other agent can.
pub(super) struct Schedule {
    ready: VecDeque<u32>,
    delayed: VecDeque<u32>,
    is_queued: Vec<bool>,
    is_delayed: Vec<bool>,
    /// Maximum number of steps of an agent before the next one runs.
    longest: u64,
    /// Approximate number of selections between two changes of the delayed agents.
    reshuffle_period: u64,
    /// The thread block to delay, by its position.
    target_block: Option<u32>,
    round_robin: bool,
}

impl Schedule {
    /// Creates a schedule that runs every agent in turn until it blocks.
    pub(super) fn round_robin(agents: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            delayed: VecDeque::new(),
            is_queued: vec![false; agents],
            is_delayed: vec![false; agents],
            longest: u64::MAX,
            reshuffle_period: u64::MAX,
            target_block: None,
            round_robin: true,
        }
    }

    pub(super) fn adverse(program: &Program, random: &mut Random, target_block: Option<(u32, u32)>) -> Self {
        let target_block = target_block.and_then(|(rank, number)| {
            (0..).zip(&program.blocks).find(|(_, block)| (block.rank, block.number) == (rank, number)).map(|(at, _)| at)
        });
        let longest = [1, 4, 32, 1000][random.below(4) as usize];
        let reshuffle_period = [50, 1000, 20_000][random.below(3) as usize];
        let mut schedule = Self {
            longest,
            reshuffle_period,
            target_block,
            round_robin: false,
            ..Self::round_robin(program.agents.len())
        };
        schedule.change(program, random);
        schedule
    }

    pub(super) fn wake(&mut self, agent: u32) {
        if !std::mem::replace(&mut self.is_queued[agent as usize], true) {
            if self.is_delayed[agent as usize] { &mut self.delayed } else { &mut self.ready }.push_back(agent);
        }
    }

    /// Removes the next agent from the queue, and returns it with the number of steps that it may run.
    pub(super) fn next(&mut self, program: &Program, random: &mut Random) -> Option<(u32, u64)> {
        let found = if self.round_robin {
            (self.ready.pop_front()?, u64::MAX)
        } else {
            if random.below(self.reshuffle_period) == 0 || self.ready.is_empty() && random.below(16) == 0 {
                self.change(program, random);
            }
            let turn = 1 + random.below(self.longest);
            let (queue, turn) =
                if self.ready.is_empty() { (&mut self.delayed, turn.min(4)) } else { (&mut self.ready, turn) };
            let index = random.below(queue.len().max(1) as u64) as usize;
            (queue.swap_remove_back(index)?, turn)
        };
        self.is_queued[found.0 as usize] = false;
        Some(found)
    }

    /// Selects other agents to delay.
    fn change(&mut self, program: &Program, random: &mut Random) {
        match self.target_block.filter(|_| random.below(2) == 0) {
            Some(block) => self.delay_block(program, block, random),
            None => self.delay_agents(program, random),
        }
        let all: Vec<u32> = self.ready.drain(..).chain(self.delayed.drain(..)).collect();
        for agent in all {
            if self.is_delayed[agent as usize] { &mut self.delayed } else { &mut self.ready }.push_back(agent);
        }
    }

    /// Delays some threads of one block, and perhaps the ports of its rank.
    fn delay_block(&mut self, program: &Program, late: u32, random: &mut Random) {
        let Block { rank, first, threads, .. } = program.blocks[late as usize];
        let (one, rarity) = (first + random.below(threads.into()) as u32, 1 + random.below(3));
        let ports = random.below(2) == 0;
        for (number, role) in (0..).zip(&program.agents) {
            self.is_delayed[number as usize] = match *role {
                AgentKind::Thread { block, .. } => block == late && (number == one || random.below(rarity) == 0),
                AgentKind::Port { end } | AgentKind::Wire { end } => ports && program.ends[end as usize].rank == rank,
                AgentKind::Caller { .. } => false,
            };
        }
    }

    fn delay_agents(&mut self, program: &Program, random: &mut Random) {
        let (kind, salt) = (random.below(12), random.next());
        // How rarely delayed agents run.
        let rarity = [2, 4, 1 << 40][random.below(3) as usize];
        let mut one = |of: usize| random.below(of.max(1) as u64);
        let (one_rank, one_block) = (one(program.ranks.len()), one(program.blocks.len()));
        let (one_agent, one_thread) = (one(program.agents.len()), one(4));
        let draw = |number: u64, one: u64| number == one || Random::new(salt ^ number).next().is_multiple_of(rarity);
        for (number, role) in (0..).zip(&program.agents) {
            self.is_delayed[number as usize] = match (kind, *role) {
                (0..=2, AgentKind::Thread { block, .. }) => draw(program.blocks[block as usize].rank.into(), one_rank),
                (0..=2, AgentKind::Port { end } | AgentKind::Wire { end }) => {
                    draw(program.ends[end as usize].rank.into(), one_rank)
                }
                (0..=1, AgentKind::Caller { rank }) => draw(rank.into(), one_rank),
                (3..=4, AgentKind::Thread { block, .. }) => draw(block.into(), one_block),
                (5..=6, _) => draw(number, one_agent),
                (7, AgentKind::Thread { thread, .. }) => draw(thread.into(), one_thread),
                (8, AgentKind::Port { .. }) | (9, AgentKind::Caller { .. }) | (10, AgentKind::Wire { .. }) => true,
                (11, AgentKind::Wire { .. }) => draw(number, one_agent),
                _ => false,
            };
        }
    }
}
