//! Port channels: their triggers, and the clocks that they release.
//!
//! A port is two agents. The *source side* reads the source of a put, in the order of the triggers. The *arrival side*
//! writes it to the peer, in the same order and any time later: a put may be in flight long after its source has been
//! read. Two operations release their clocks:
//!
//! * A flush acquires the clock of the source side, as of all earlier triggers. It acquires nothing of the arrival
//!   side, so nothing of the peer's memory: neither for the rank that flushes, nor for any rank that acquires from it.
//! * A signal of the port arrives after every earlier trigger of the port. The thread that waits for it acquires the
//!   clocks of both sides.
//!
//! In addition, one channel delivers in order, so a put needs no order with an earlier put of its channel, not even
//! with one of an earlier launch.

use super::clock::VectorClock;
use super::release_queues::{ReleasedClock, Thread};
use super::shadow_memory::RecordedAccess;
use super::{Agent, RaceDetector};

/// A port as one thread uses it.
pub(super) struct Port {
    agent: u32,
    thread: u32,
    /// The thread's triggers: the timestamp of each, and the clocks of both sides after it.
    triggers: Vec<(u32, [VectorClock; 2])>,
    /// The number of its source side among the agents.
    pub(super) number: usize,
}

impl Port {
    /// Returns the numbers of its source side and its arrival side.
    pub(super) fn sides(&self) -> [usize; 2] {
        [self.number, arrival_side(self.number)]
    }

    /// Returns whether this port is the one of the thread.
    pub(super) fn is_of(&self, thread: Thread) -> bool {
        (self.agent, self.thread) == thread
    }
}

/// Returns the arrival side of a port, by the number of its source side.
fn arrival_side(number: usize) -> usize {
    number + 1
}

/// Returns the source side of a port, by the number of its arrival side.
pub(super) fn source_side(number: u32) -> u32 {
    number - 1
}

impl RaceDetector<'_, '_> {
    /// Returns the port of a channel end as a thread uses it, and whether no other thread has used it. Earlier triggers
    /// of other threads happen before the next trigger of this thread only if the thread's clock includes them.
    fn port(&mut self, (end, agent, thread): (u32, u32, u32), released: VectorClock) -> (usize, bool) {
        let ports = self.ports.entry(end).or_default();
        let own = ports.iter().position(|port| (port.agent, port.thread) == (agent, thread)).unwrap_or_else(|| {
            let number = self.agents.len();
            for side in [number, arrival_side(number)] {
                self.agents.push(Agent { clock: self.clocks.of(side as u32), ..Agent::default() });
            }
            ports.push(Port { agent, thread, triggers: Vec::new(), number });
            ports.len() - 1
        });
        let mut clock = [released; 2];
        for other in ports.iter() {
            let over = self.clocks.ordered(released, other.agent);
            let number = other.triggers.partition_point(|(time, _)| *time < over);
            if let Some((_, of_sides)) = other.triggers[..number].last() {
                for (clock, of_side) in clock.iter_mut().zip(of_sides) {
                    *clock = self.clocks.join(*clock, *of_side, false);
                }
            }
        }
        let (number, alone) = (ports[own].number, ports.len() == 1);
        let source = &mut self.agents[number];
        source.clock = self.clocks.join(source.clock, clock[0], false);
        let included = if alone { source.clock } else { clock[1] };
        self.acquire_at_arrival_side(number, alone, included);
        (number, alone)
    }

    /// Joins a clock into the arrival side of a port, given the number of the source side. The source side acquires
    /// every clock of a trigger first. If one thread alone has used the port, the arrival side's clock is the source
    /// side's clock plus its own timestamps. Then it takes the source side's clock, and adds its own timestamps when it
    /// releases: that saves a join.
    fn acquire_at_arrival_side(&mut self, number: usize, alone: bool, clock: VectorClock) {
        let arrivals = &mut self.agents[arrival_side(number)];
        match alone {
            true => (arrivals.clock, arrivals.included) = (clock, 0),
            false => arrivals.clock = self.clocks.join(arrivals.clock, clock, false),
        }
    }

    /// Returns the rank to which a port leads from a channel end: a representative rank, and its rotation.
    pub(super) fn peer(&self, end: u32, port: &Port) -> (u32, u32) {
        // The end may be that of a rank that the port's rank represents.
        let direction = self.model.pairs.direction(end as usize);
        let (all, own) = (self.model.plan.ranks.len() as u32, self.model.ranks);
        let rank = self.model.agents[port.agent as usize].rank as u32;
        let peer = (rank + all - direction.from + direction.to) % all;
        (peer % own, peer / own)
    }

    /// A port acquires the clock of a thread that posts a trigger. Returns the clock that its signals release from then
    /// on: all earlier puts have been read, and have arrived.
    pub(super) fn enqueue_on_port(&mut self, end: (u32, u32, u32), released: VectorClock) -> VectorClock {
        let (number, alone) = self.port(end, released);
        let read = self.advance_port(number);
        self.acquire_at_arrival_side(number, alone, read);
        let arrived = self.advance_port(arrival_side(number));
        let (end, agent, thread) = end;
        let time = self.agents[agent as usize].time - 1;
        let port = self.ports.get_mut(&end).and_then(|ports| ports.iter_mut().find(|port| port.is_of((agent, thread))));
        port.into_iter().for_each(|port| port.triggers.push((time, [read, arrived])));
        arrived
    }

    /// Advances the timestamp of a side of a port. Returns its clock afterwards.
    fn advance_port(&mut self, side: usize) -> VectorClock {
        let agent = &mut self.agents[side];
        agent.time += 1;
        agent.block_sync(&mut self.clocks);
        agent.clock_of_all_threads(side as u32, &mut self.clocks)
    }

    /// Returns whether an access is a put over a port channel whose source read happens before, by a clock for which
    /// the access's agent is rotated by the given places.
    pub(super) fn is_flushed(&self, access: &RecordedAccess, clock: VectorClock, places: u32) -> bool {
        // The agent may be a rotated one, whose own number tells blocks from ports.
        access.write && self.ring.own(access.agent).0 as usize >= self.blocks && {
            let source = source_side(self.ring.moved(access.agent, places));
            self.clocks.ordered(clock, source) > access.count
        }
    }

    /// A thread waits until a port has read the sources of all earlier puts.
    pub(super) fn flush(&mut self, (end, agent, thread): (u32, u32, u32)) {
        let released = self.agents[agent as usize].release_clock(agent, thread, &mut self.clocks);
        let (number, _) = self.port((end, agent, thread), released);
        let port = &self.agents[number];
        let released = self.clocks.advance(port.clock, number as u32, port.time);
        self.agents[agent as usize].acquire(thread, released, true, &mut self.clocks);
    }

    /// Executes a data operation whose puts a block posts to ports, one pair of source and destination per channel.
    pub(super) fn push(&mut self, agent: usize, step: usize, begun: u32) {
        let model = self.model;
        let kind = model.step_at(step).kind;
        let (effects, forwards) = (model.effects(step), kind.awaits_packets(true));
        if forwards {
            // The block waits for the packets, and synchronizes, before it posts.
            for effect in effects.iter().filter(|effect| !effect.write) {
                self.access(agent, agent, step, effect, begun);
            }
            self.agents[agent].block_sync(&mut self.clocks);
        }
        for (thread, &end) in (0..).zip(model.ids(step)) {
            let released = self.agents[agent].release_clock(agent as u32, thread, &mut self.clocks);
            let end = (end, agent as u32, thread);
            let (port, _) = self.port(end, released);
            for effect in effects.iter().filter(|effect| effect.position == thread || forwards && !effect.write) {
                let side = if effect.write { arrival_side(port) } else { port };
                self.access(agent, side, step, effect, self.agents[side].time);
            }
            let clock = self.enqueue_on_port(end, released);
            if kind.signals() {
                self.signal(end.0, (agent as u32, thread), step, begun, ReleasedClock { clock, relaxed: false });
            }
            if kind.then_flushes() {
                self.flush(end);
            }
        }
    }
}
