//! Whose turn it is.

use std::collections::VecDeque;

use super::program::{Block, Program, Role};
use crate::cpu::Random;

/// Actors that can go on. The lazy ones get a turn when nobody else can.
pub(super) struct Schedule {
    ready: VecDeque<u32>,
    lazy: VecDeque<u32>,
    is_queued: Vec<bool>,
    is_lazy: Vec<bool>,
    /// The longest turn, in steps.
    longest: u64,
    /// One out of so many turns finds other actors lazy.
    moods: u64,
    /// A thread block that is worth being late, by its position.
    focus: Option<u32>,
    calm: bool,
}

impl Schedule {
    /// Everybody in turn, each as far as it goes.
    pub(super) fn calm(actors: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            lazy: VecDeque::new(),
            is_queued: vec![false; actors],
            is_lazy: vec![false; actors],
            longest: u64::MAX,
            moods: u64::MAX,
            focus: None,
            calm: true,
        }
    }

    pub(super) fn adverse(program: &Program, random: &mut Random, focus: Option<(u32, u32)>) -> Self {
        let focus = focus.and_then(|(rank, number)| {
            (0..).zip(&program.blocks).find(|(_, block)| (block.rank, block.number) == (rank, number)).map(|(at, _)| at)
        });
        let longest = [1, 4, 32, 1000][random.below(4) as usize];
        let moods = [50, 1000, 20_000][random.below(3) as usize];
        let mut schedule = Self { longest, moods, focus, calm: false, ..Self::calm(program.actors.len()) };
        schedule.change(program, random);
        schedule
    }

    pub(super) fn wake(&mut self, actor: u32) {
        if !std::mem::replace(&mut self.is_queued[actor as usize], true) {
            if self.is_lazy[actor as usize] { &mut self.lazy } else { &mut self.ready }.push_back(actor);
        }
    }

    /// The next actor, which leaves the queue, and for how many steps it may run.
    pub(super) fn next(&mut self, program: &Program, random: &mut Random) -> Option<(u32, u64)> {
        let found = if self.calm {
            (self.ready.pop_front()?, u64::MAX)
        } else {
            if random.below(self.moods) == 0 || self.ready.is_empty() && random.below(16) == 0 {
                self.change(program, random);
            }
            let turn = 1 + random.below(self.longest);
            let (queue, turn) =
                if self.ready.is_empty() { (&mut self.lazy, turn.min(4)) } else { (&mut self.ready, turn) };
            let index = random.below(queue.len().max(1) as u64) as usize;
            (queue.swap_remove_back(index)?, turn)
        };
        self.is_queued[found.0 as usize] = false;
        Some(found)
    }

    /// Finds other actors lazy.
    fn change(&mut self, program: &Program, random: &mut Random) {
        match self.focus.filter(|_| random.below(2) == 0) {
            Some(block) => self.late_block(program, block, random),
            None => self.late_somebody(program, random),
        }
        let all: Vec<u32> = self.ready.drain(..).chain(self.lazy.drain(..)).collect();
        for actor in all {
            if self.is_lazy[actor as usize] { &mut self.lazy } else { &mut self.ready }.push_back(actor);
        }
    }

    /// Some threads of one block, and perhaps the ports of its rank.
    fn late_block(&mut self, program: &Program, late: u32, random: &mut Random) {
        let Block { rank, first, threads, .. } = program.blocks[late as usize];
        let (one, rarity) = (first + random.below(threads.into()) as u32, 1 + random.below(3));
        let ports = random.below(2) == 0;
        for (number, role) in (0..).zip(&program.actors) {
            self.is_lazy[number as usize] = match *role {
                Role::Thread { block, .. } => block == late && (number == one || random.below(rarity) == 0),
                Role::Port { end } | Role::Wire { end } => ports && program.ends[end as usize].rank == rank,
                Role::Caller { .. } => false,
            };
        }
    }

    fn late_somebody(&mut self, program: &Program, random: &mut Random) {
        let (kind, salt) = (random.below(12), random.next());
        // One in so many of what the mood is about.
        let rarity = [2, 4, 1 << 40][random.below(3) as usize];
        let mut one = |of: usize| random.below(of.max(1) as u64);
        let (one_rank, one_block) = (one(program.ranks.len()), one(program.blocks.len()));
        let (one_actor, one_thread) = (one(program.actors.len()), one(4));
        let draw = |number: u64, one: u64| number == one || Random(salt ^ number).next().is_multiple_of(rarity);
        for (number, role) in (0..).zip(&program.actors) {
            self.is_lazy[number as usize] = match (kind, *role) {
                (0..=2, Role::Thread { block, .. }) => draw(program.blocks[block as usize].rank.into(), one_rank),
                (0..=2, Role::Port { end } | Role::Wire { end }) => {
                    draw(program.ends[end as usize].rank.into(), one_rank)
                }
                (0..=1, Role::Caller { rank }) => draw(rank.into(), one_rank),
                (3..=4, Role::Thread { block, .. }) => draw(block.into(), one_block),
                (5..=6, _) => draw(number, one_actor),
                (7, Role::Thread { thread, .. }) => draw(thread.into(), one_thread),
                (8, Role::Port { .. }) | (9, Role::Caller { .. }) | (10, Role::Wire { .. }) => true,
                (11, Role::Wire { .. }) => draw(number, one_actor),
                _ => false,
            };
        }
    }
}
