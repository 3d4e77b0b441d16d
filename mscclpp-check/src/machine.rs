//! Abstract execution of a plan: agents (thread blocks), and what they wait for.

use std::collections::VecDeque;

use super::model::{Model, NOTHING};
use super::place::LocatedOp;
use mscclpp_plan::raw::{OpClass, OpKind};

/// The state of an abstract execution.
pub(super) struct AbstractMachine<'m, 'p> {
    pub(super) model: &'m Model<'p>,
    pub(super) agents: Vec<BlockState>,
    /// Per counter, the number of signals that no wait has received yet.
    counters: Vec<u64>,
    /// Per semaphore, its value.
    units: Vec<i64>,
    /// Per barrier, the agents that have arrived.
    barriers: Vec<Vec<usize>>,
    /// Per atom, whether a packet has been written there in this launch.
    packets: Vec<bool>,
    /// Agents that wait: per counter, per semaphore, and per rank for packets.
    for_signal: WaitQueues,
    for_unit: WaitQueues,
    for_packets: WaitQueues,
    /// Agents that are ready; those that share data with the last one are first, for cache locality.
    ready: VecDeque<usize>,
    /// Selects agents and the number of their steps at random instead, in tests: any order gives the same result.
    order: Option<Order>,
}

/// A random order of the steps of an abstract execution.
struct Order(u64);

impl Order {
    /// Returns a number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// The state of a thread block.
#[derive(Default)]
pub(super) struct BlockState {
    /// Its current step.
    pub(super) next: usize,
    /// How many ids of the current step are complete, in order; for a barrier, one once it has opened.
    served: usize,
    /// What the current step waits for.
    pub(super) need: Option<WaitTarget>,
}

/// A rule that follows the abstract execution of a plan.
pub(super) trait Observer<'p> {
    /// Called when an agent has executed a step; a wait or acquire has received all that it needs. A barrier is
    /// complete when [`on_barrier`](Self::on_barrier) has been called.
    fn on_step(&mut self, model: &Model<'p>, agent: usize, step: usize);

    /// Called when all agents of a barrier have arrived, before any continues.
    fn on_barrier(&mut self, barrier: u32, agents: &[usize]);
}

/// What an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitTarget {
    /// A signal on a counter.
    Signal(u32),
    /// A unit of a semaphore.
    Unit(u32),
    /// The other blocks of a barrier.
    Barrier(u32),
    /// The packet of an atom.
    Packet(usize),
}

/// Lists of waiting agents that need no memory of their own: an agent waits in one list at a time.
struct WaitQueues {
    first: Vec<usize>,
    /// Per agent, the next one that waits in the same list.
    next: Vec<usize>,
}

const NOBODY: usize = usize::MAX;

impl WaitQueues {
    fn new(things: usize, agents: usize) -> Self {
        Self { first: vec![NOBODY; things], next: vec![NOBODY; agents] }
    }

    fn push(&mut self, thing: usize, agent: usize) {
        self.next[agent] = self.first[thing];
        self.first[thing] = agent;
    }

    /// Makes all agents ready that wait in a list.
    fn free(&mut self, thing: usize, agents: &mut [BlockState], ready: &mut VecDeque<usize>) {
        let mut agent = std::mem::replace(&mut self.first[thing], NOBODY);
        while agent != NOBODY {
            agents[agent].need = None;
            ready.push_front(agent);
            agent = self.next[agent];
        }
    }
}

impl<'m, 'p> AbstractMachine<'m, 'p> {
    /// Creates the execution of a plan at its start.
    pub(super) fn new(model: &'m Model<'p>) -> Self {
        let count = model.agents.len();
        let state = |agent: &super::model::Block| BlockState { next: agent.steps.start, ..BlockState::default() };
        Self {
            agents: model.agents.iter().map(state).collect(),
            counters: vec![0; model.pairs.counters()],
            units: model.units.clone(),
            barriers: vec![Vec::new(); model.barriers()],
            packets: vec![false; model.atoms.count()],
            for_signal: WaitQueues::new(model.pairs.counters(), count),
            for_unit: WaitQueues::new(model.units.len(), count),
            for_packets: WaitQueues::new(model.ranks as usize, count),
            ready: (0..count).collect(),
            order: model.view.order().map(Order),
            model,
        }
    }

    /// Executes the plan until every agent has ended or waits, and reports to an observer.
    pub(super) fn run(&mut self, watch: &mut impl Observer<'p>) {
        let model = self.model;
        while let Some((agent, mut left)) = self.next_ready() {
            if self.agents[agent].need.is_some() {
                continue;
            }
            let end = model.agents[agent].steps.end;
            while self.agents[agent].next < end {
                if left == 0 {
                    self.ready.push_back(agent);
                    break;
                }
                left -= 1;
                let step = self.agents[agent].next;
                if let Err(need) = self.perform(agent, step, watch) {
                    self.wait(agent, need);
                    break;
                }
                watch.on_step(model, agent, step);
                let state = &mut self.agents[agent];
                state.served = 0;
                state.next += 1;
            }
        }
    }

    /// Takes an agent that is ready, and returns how many steps it makes at most before another one does.
    fn next_ready(&mut self) -> Option<(usize, usize)> {
        match &mut self.order {
            None => self.ready.pop_front().map(|agent| (agent, usize::MAX)),
            Some(order) => {
                let place = order.below(self.ready.len());
                let steps = 1 + order.below(4) * order.below(4);
                self.ready.swap_remove_back(place).map(|agent| (agent, steps))
            }
        }
    }

    /// Executes a step, unless it must wait.
    fn perform(&mut self, agent: usize, step: usize, watch: &mut impl Observer<'p>) -> Result<(), WaitTarget> {
        let model = self.model;
        let kind = model.step_at(step).kind;
        match kind.class() {
            OpClass::Wait { .. } => {
                return self.take_all(agent, step, |machine, id| match machine.counters.get_mut(id as usize) {
                    Some(0) | None => Err(WaitTarget::Signal(id)),
                    Some(signals) => {
                        *signals -= 1;
                        Ok(())
                    }
                });
            }
            OpClass::Acquire => {
                return self.take_all(agent, step, |machine, id| {
                    let value = &mut machine.units[id as usize];
                    if *value <= 0 {
                        return Err(WaitTarget::Unit(id));
                    }
                    *value -= 1;
                    Ok(())
                });
            }
            OpClass::Release => {
                for &id in model.ids(step) {
                    self.units[id as usize] += 1;
                    self.for_unit.free(id as usize, &mut self.agents, &mut self.ready);
                }
                return Ok(());
            }
            OpClass::Barrier => return self.arrive(agent, step, watch),
            OpClass::Data(..) if kind.has_packets() => self.move_packets(step)?,
            OpClass::Data(..) | OpClass::Signal { .. } | OpClass::BlockSync | OpClass::Flush | OpClass::Pipeline => {}
            OpClass::ExchangeCounts => {}
        }
        if kind.signals() {
            for &id in model.ids(step).iter().filter(|id| **id != NOTHING) {
                self.counters[id as usize] += 1;
                self.for_signal.free(id as usize, &mut self.agents, &mut self.ready);
            }
        }
        Ok(())
    }

    /// Completes a step's ids, each once. Every id is executed by its own thread, in any order; one order is enough,
    /// because all of them must complete, and no other agent may take what they wait for unless one of the two happens
    /// before the other.
    fn take_all(
        &mut self,
        agent: usize,
        step: usize,
        take: impl Fn(&mut Self, u32) -> Result<(), WaitTarget>,
    ) -> Result<(), WaitTarget> {
        for &id in &self.model.ids(step)[self.agents[agent].served..] {
            take(self, id)?;
            self.agents[agent].served += 1;
        }
        Ok(())
    }

    fn arrive(&mut self, agent: usize, step: usize, watch: &mut impl Observer<'p>) -> Result<(), WaitTarget> {
        if self.agents[agent].served > 0 {
            return Ok(());
        }
        let id = self.model.ids(step)[0];
        let arrived = &mut self.barriers[id as usize];
        arrived.push(agent);
        if arrived.len() < self.model.op(agent, step).num_blocks as usize {
            return Err(WaitTarget::Barrier(id));
        }
        let arrived = std::mem::take(arrived);
        watch.on_barrier(id, &arrived);
        for other in arrived {
            if other != agent {
                self.agents[other].served = 1;
                self.agents[other].need = None;
                self.ready.push_front(other);
            }
        }
        Ok(())
    }

    fn move_packets(&mut self, step: usize) -> Result<(), WaitTarget> {
        let effects = self.model.effects(step);
        for effect in effects.iter().filter(|effect| effect.packets() && !effect.write) {
            if let Some(missing) = effect.atoms().find(|atom| !self.packets[*atom]) {
                // A port moves the bytes without waiting. If nothing orders the packets before that, the race rule finds
                // it, which needs both accesses; if the packets are written only afterwards, what it sends is never found.
                return Err(WaitTarget::Packet(missing));
            }
        }
        for effect in effects.iter().filter(|effect| effect.packets() && effect.write) {
            if !effect.atoms().is_empty() {
                self.packets[effect.atoms()].fill(true);
                self.for_packets.free(effect.owner as usize, &mut self.agents, &mut self.ready);
            }
        }
        Ok(())
    }

    fn wait(&mut self, agent: usize, need: WaitTarget) {
        match need {
            WaitTarget::Signal(NOTHING) | WaitTarget::Barrier(_) => {}
            WaitTarget::Signal(counter) => {
                self.for_signal.push(counter as usize, agent);
                if let Some(signaler) = self.model.signaler(counter) {
                    self.ready.push_front(signaler);
                }
            }
            WaitTarget::Unit(semaphore) => self.for_unit.push(semaphore as usize, agent),
            WaitTarget::Packet(_) => self.for_packets.push(self.model.agents[agent].rank, agent),
        }
        self.agents[agent].need = Some(need);
    }

    /// Returns the current operation of an agent.
    pub(super) fn position(&self, agent: usize) -> Option<LocatedOp<'p>> {
        let next = self.agents[agent].next;
        (next < self.model.agents[agent].steps.end).then(|| self.model.placed(agent, next))
    }

    /// Returns an operation that an agent has not executed yet and that would unblock an agent on `rank`.
    pub(super) fn server(&self, agent: usize, rank: usize, need: &WaitTarget) -> Option<LocatedOp<'p>> {
        let model = self.model;
        let local = model.agents[agent].rank == rank;
        let serves = |step: &usize| {
            let kind = model.step_at(*step).kind;
            match need {
                WaitTarget::Signal(counter) => kind.signals() && model.ids(*step).contains(counter),
                WaitTarget::Unit(id) => kind == OpKind::SemaphoreRelease && model.ids(*step).contains(id),
                WaitTarget::Barrier(id) => local && kind == OpKind::Barrier && model.ids(*step).contains(id),
                WaitTarget::Packet(atom) => {
                    let writes = |effect: &super::model::Access| effect.write && effect.atoms().contains(atom);
                    model.effects(*step).iter().any(writes)
                }
            }
        };
        let mut ahead = self.agents[agent].next..model.agents[agent].steps.end;
        ahead.find(serves).map(|step| model.placed(agent, step))
    }
}
