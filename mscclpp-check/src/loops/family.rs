//! Execution of a rolled plan at one size, which computes for which larger sizes the same schedule is valid.
//!
//! The trip counts of a family of sizes are T + m × g for m = 0, 1, 2, … A run executes the member m = 0, but keeps
//! every counter, and the remaining iterations of every loop, as an affine function of m ([`Affine`]). Whenever it
//! takes from a counter, begins an iteration, or leaves a loop, it also records for which m that is possible
//! ([`Run::require`]).
//!
//! The run has *rounds*: in each, every thread block begins one iteration, and executes as far as it can. When all
//! thread blocks are at the positions of some rounds ago, the rounds in between are a *cycle*, which needs a certain
//! value of each counter, changes it by a certain amount, and takes a certain number of iterations of each loop. It is
//! repeated at once as often as counters and loops permit, k times, where k is again an affine function of m.

use std::collections::VecDeque;

use super::rolled::{Action, Rolled};

/// A number at every member of a family: `now` at the first, `slope` more at each further one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Affine {
    now: i128,
    slope: i128,
}

/// Combinations of trip counts: numbers `first`, `first + step`, … up to `last` ([`Trips`](crate::rates::Trips)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Family {
    pub(super) first: u64,
    pub(super) step: u64,
}

/// A condition that a run records for the other members of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// A counter had the value that is taken from it.
    Take,
    /// A loop that is left has no iterations left, so that it had each one that it began.
    Leave,
    /// A cycle is not repeated a negative number of times.
    Copies,
    /// Counters have the values that a cycle's repetitions take.
    Room,
}

/// The result of a run.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All thread blocks end at the first `count` members of a family with a step that is a multiple of the given one.
    Completes { step: u64, count: u64 },
    /// At the first member some thread blocks deadlock, among them this one at its position.
    Deadlocks { block: u32, position: u32 },
    /// The limit of steps is reached.
    TooLong,
}

/// Maximum factor by which a run may increase the step of its family.
const MAX_FACTOR: u64 = 64;

/// Trip count of a loop that no execution can reach.
pub(super) const MAX_TRIPS: u128 = 1 << 62;

pub(super) struct Run<'a> {
    plan: &'a Rolled<'a>,
    family: Family,
    /// The factor by which the step has been increased.
    factor: u64,
    /// The last member, counted from 0, for which the schedule is valid.
    last: u64,
    /// A condition that is not recorded, for a test of its necessity.
    #[cfg(test)]
    pub(super) without: Option<Condition>,
    counters: Vec<Affine>,
    /// By loop, the remaining iterations.
    left: Vec<Affine>,
    positions: Vec<u32>,
    /// By thread block, the round in which it last began an iteration.
    began: Vec<u64>,
    round: u64,
    arrived: Vec<Vec<u32>>,
    /// Thread blocks that wait: by counter, and by the thread block for whose progress they wait.
    waiting: Vec<Vec<u32>>,
    awaiting: Vec<Vec<u32>>,
    ready: VecDeque<u32>,
    /// Thread blocks at the head of a loop, until the next round.
    paused: Vec<u32>,
    cycle: Cycle,
}

/// The changes since all thread blocks were at some positions.
struct Cycle {
    positions: Vec<u32>,
    begin: u64,
    /// Rounds after which the cycle is assumed to begin elsewhere.
    length: u64,
    /// By counter, its change, and the minimum of the change after a decrease.
    changes: Vec<(i128, Option<i128>)>,
    touched: Vec<u32>,
    /// By loop, the number of iterations.
    iterations: Vec<i128>,
    looped: Vec<u32>,
}

impl<'a> Run<'a> {
    pub(super) fn new(plan: &'a Rolled, family: Family, last: u64) -> Self {
        let size = plan.trips.size(family.first);
        let left = plan.loops.iter().map(|body| {
            let trips = plan.trips.rates()[body.rate].trips(size);
            let gain = u128::from(plan.trips.gains[body.rate]) * u128::from(family.step / plan.trips.residues);
            Affine { now: trips as i128, slope: gain as i128 }
        });
        let blocks = plan.blocks.len();
        Self {
            family,
            factor: 1,
            last,
            #[cfg(test)]
            without: None,
            counters: plan.counters.iter().map(|counter| Affine { now: counter.initial.into(), slope: 0 }).collect(),
            left: left.collect(),
            positions: vec![0; blocks],
            began: vec![0; blocks],
            round: 0,
            arrived: vec![Vec::new(); plan.barriers.len()],
            waiting: vec![Vec::new(); plan.counters.len()],
            awaiting: vec![Vec::new(); blocks],
            ready: (0..blocks as u32).collect(),
            paused: Vec::new(),
            cycle: Cycle {
                positions: vec![0; blocks],
                begin: 0,
                length: 1,
                changes: vec![(0, None); plan.counters.len()],
                touched: Vec::new(),
                iterations: vec![0; plan.loops.len()],
                looped: Vec::new(),
            },
            plan,
        }
    }

    /// Executes the first member, in at most the given number of steps.
    pub(super) fn run(mut self, steps: &mut u64) -> Outcome {
        loop {
            self.round += 1;
            while let Some(block) = self.ready.pop_front() {
                if self.advance(block, steps).is_none() {
                    return Outcome::TooLong;
                }
            }
            // The search for a cycle takes time, too.
            let Some(left) = steps.checked_sub(1 + self.positions.len() as u64 / 16) else { return Outcome::TooLong };
            *steps = left;
            if self.paused.is_empty() {
                break;
            }
            self.find_cycle();
            self.ready.extend(self.paused.drain(..));
        }
        let mut ends = self.positions.iter().zip(&self.plan.blocks).zip(0..);
        match ends.find(|((position, block), _)| (**position as usize) < block.actions.len()) {
            Some(((&position, _), block)) => Outcome::Deadlocks { block, position },
            None => Outcome::Completes {
                step: self.family.step.saturating_mul(self.factor),
                count: self.last.saturating_add(1),
            },
        }
    }

    /// Executes a thread block as far as it can in this round.
    fn advance(&mut self, block: u32, steps: &mut u64) -> Option<()> {
        let (plan, number) = (self.plan, block as usize);
        while let Some(&action) = plan.blocks[number].actions.get(self.positions[number] as usize) {
            *steps = steps.checked_sub(1)?;
            let mut next = self.positions[number] + 1;
            match action {
                Action::Raise(counter, n) => {
                    self.counters[counter as usize].now += i128::from(n);
                    self.cycle.change(counter, n.into());
                    self.ready.extend(self.waiting[counter as usize].drain(..));
                }
                Action::Lower(counter, n) => {
                    if self.counters[counter as usize].now < n.into() {
                        self.waiting[counter as usize].push(block);
                        return Some(());
                    }
                    self.counters[counter as usize].now -= i128::from(n);
                    self.require(Condition::Take, self.counters[counter as usize]);
                    self.cycle.change(counter, -i128::from(n));
                }
                Action::Arrive(barrier) => {
                    let arrived = &mut self.arrived[barrier as usize];
                    arrived.push(block);
                    if arrived.len() < plan.barriers[barrier as usize] as usize {
                        return Some(());
                    }
                    for other in std::mem::take(arrived) {
                        if other != block {
                            self.move_to(other, self.positions[other as usize] + 1);
                            self.ready.push_back(other);
                        }
                    }
                }
                Action::Await(other, operation) => {
                    if !self.is_done(other, operation) {
                        self.awaiting[other as usize].push(block);
                        return Some(());
                    }
                }
                Action::Begin(body) => {
                    let left = &mut self.left[body as usize];
                    if left.now == 0 {
                        // At members with remaining iterations it would not be left.
                        let Affine { now, slope } = *left;
                        self.require(Condition::Leave, Affine { now, slope: -slope.abs() });
                        next = plan.loops[body as usize].end + 1;
                    } else if self.began[number] == self.round {
                        self.paused.push(block);
                        return Some(());
                    } else {
                        left.now -= 1;
                        self.began[number] = self.round;
                        self.cycle.iterate(body);
                    }
                }
                Action::Repeat(body) => next = plan.loops[body as usize].begin,
            }
            self.move_to(block, next);
        }
        Some(())
    }

    fn move_to(&mut self, block: u32, position: u32) {
        self.positions[block as usize] = position;
        self.ready.extend(self.awaiting[block as usize].drain(..));
    }

    /// Returns whether a thread block has executed an operation outside of loops.
    fn is_done(&self, block: u32, operation: u32) -> bool {
        let position = self.positions[block as usize] as usize;
        self.plan.blocks[block as usize].operations.get(position).is_none_or(|(index, _)| *index > operation)
    }

    /// Excludes the members at which a number, which is not negative at the first member, is negative.
    #[cfg_attr(
        not(test),
        expect(unused_variables, reason = "conditions are distinguished in tests, which disable one of them")
    )]
    fn require(&mut self, condition: Condition, number: Affine) {
        #[cfg(test)]
        if self.without == Some(condition) {
            return;
        }
        if number.slope < 0 {
            self.last = self.last.min(u64::try_from(number.now / -number.slope).unwrap_or(u64::MAX));
        }
    }

    /// At the end of a round, repeats the changes if all thread blocks are at the same positions again, or lets the
    /// cycle begin elsewhere.
    fn find_cycle(&mut self) {
        if self.positions == self.cycle.positions {
            self.repeat();
            self.cycle.length = 0;
        }
        if self.round - self.cycle.begin >= self.cycle.length {
            self.cycle.start(&self.positions, self.round);
        }
    }

    /// Repeats the cycle as often as possible at the first member, and at the others as the bound that ends it at the
    /// first permits.
    fn repeat(&mut self) {
        let loops =
            self.cycle.looped.iter().map(|&body| (self.left[body as usize], self.cycle.iterations[body as usize], 0));
        // A counter that the cycle lowers must initially have what all but the last repetition take.
        let counters = self.cycle.touched.iter().filter_map(|&counter| {
            let (change, low) = self.cycle.changes[counter as usize];
            let Affine { now, slope } = self.counters[counter as usize];
            (change < 0).then_some((Affine { now: now + low?, slope }, -change, 1))
        });
        let bounds: Vec<(Affine, i128, i128)> = loops.chain(counters).collect();
        let times = |&(room, each, more): &(Affine, i128, i128)| if room.now < 0 { 0 } else { room.now / each + more };
        let Some(now) = bounds.iter().map(times).min().filter(|times| *times > 0) else { return };
        // Of several bounds that are equal there, the one that grows least.
        let tight = bounds.iter().filter(|bound| times(bound) == now);
        let slowest = tight.min_by(|(a, each, _), (b, other, _)| (a.slope * other).cmp(&(b.slope * each)));
        let Some(&(Affine { slope, .. }, each, _)) = slowest else { return };
        let divisor = greatest_common_divisor(slope, each);
        let mut copies = Affine { now, slope: 0 };
        if let Some(factor) = u64::try_from(each / divisor).ok().filter(|factor| *factor <= MAX_FACTOR / self.factor) {
            self.increase_step(factor);
            copies.slope = slope / divisor;
        }
        self.require(Condition::Copies, copies);
        for i in 0..self.cycle.looped.len() {
            let body = self.cycle.looped[i] as usize;
            self.left[body] = self.left[body].plus(copies, -self.cycle.iterations[body]);
        }
        for i in 0..self.cycle.touched.len() {
            let counter = self.cycle.touched[i] as usize;
            let (change, low) = self.cycle.changes[counter];
            let old = self.counters[counter];
            self.counters[counter] = old.plus(copies, change);
            // A thread block that needs more than one may have enough now.
            self.ready.extend(self.waiting[counter].drain(..));
            let Some(low) = low else { continue };
            // Its minimum is in the last repetition if the cycle lowers it, otherwise in the first one.
            let before = if change < 0 { self.counters[counter].less(change) } else { old };
            self.require(Condition::Room, before.less(-low));
        }
    }

    /// Keeps only every `factor`-th member.
    fn increase_step(&mut self, factor: u64) {
        if factor > 1 {
            self.factor *= factor;
            self.last /= factor;
            self.counters.iter_mut().chain(&mut self.left).for_each(|number| number.slope *= i128::from(factor));
        }
    }
}

fn greatest_common_divisor(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

impl Affine {
    fn plus(self, other: Self, times: i128) -> Self {
        Self { now: self.now + other.now * times, slope: self.slope + other.slope * times }
    }

    fn less(self, number: i128) -> Self {
        Self { now: self.now - number, ..self }
    }
}

impl Cycle {
    fn start(&mut self, positions: &[u32], round: u64) {
        self.positions.copy_from_slice(positions);
        self.begin = round;
        self.length = (2 * self.length).max(1);
        self.touched.drain(..).for_each(|counter| self.changes[counter as usize] = (0, None));
        self.looped.drain(..).for_each(|body| self.iterations[body as usize] = 0);
    }

    fn change(&mut self, counter: u32, by: i128) {
        let (change, low) = &mut self.changes[counter as usize];
        // Only a decrease cancels a change.
        if (*change, *low) == (0, None) {
            self.touched.push(counter);
        }
        *change += by;
        if by < 0 {
            *low = Some(low.map_or(*change, |low| low.min(*change)));
        }
    }

    fn iterate(&mut self, body: u32) {
        let iterations = &mut self.iterations[body as usize];
        if *iterations == 0 {
            self.looped.push(body);
        }
        *iterations += 1;
    }
}
