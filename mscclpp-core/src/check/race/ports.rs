//! Ports: what they are given, and what they tell.
//!
//! A port is two agents. The *source side* reads what a put sends, in the order in which the port was told to. The *arrival
//! side* writes it to the peer, in the same order and any time later: a put may be on its way when its source has long been
//! read. Two things are told of them:
//!
//! * A flush tells that the source side has done all that it was given. It tells nothing of the arrival side, so nothing of
//!   the peer's memory: neither to the rank that flushes, nor to any rank that this one tells.
//! * A signal of the port arrives after everything that the port was given before it. Who waits for it knows both sides.
//!
//! Besides, what one channel carries arrives in order, so a put needs no order with an earlier one of its channel, be it of
//! an earlier launch.

use super::clock::VectorClock;
use super::release_queues::{ReleasedClock, Thread};
use super::shadow_memory::RecordedAccess;
use super::{Agent, RaceDetector};
use crate::check::pairing::signals;
use crate::plan::OpKind;

/// A port as far as one thread uses it.
pub(super) struct Port {
    agent: u32,
    thread: u32,
    /// The turn in which the thread used it last.
    last: u32,
    /// The number of its source side among the agents.
    pub(super) number: usize,
}

impl Port {
    /// The numbers of its source side and its arrival side.
    pub(super) fn sides(&self) -> [usize; 2] {
        [self.number, arrival_side(self.number)]
    }

    /// Whether this is a thread's view of its port.
    pub(super) fn is_of(&self, thread: Thread) -> bool {
        (self.agent, self.thread) == thread
    }
}

/// The arrival side of a port, by the number of its source side.
fn arrival_side(number: usize) -> usize {
    number + 1
}

/// The source side of a port, by the number of its arrival side.
pub(super) fn source_side(number: u32) -> u32 {
    number - 1
}

impl RaceDetector<'_, '_> {
    /// The port behind a channel end, as far as a thread knows what it does: what other threads gave it comes before what
    /// this one gives it now only if that is over. Returns it, and whether no other thread has used it.
    fn port(&mut self, (end, agent, thread): (u32, u32, u32), word: VectorClock) -> (usize, bool) {
        let ports = self.ports.entry(end).or_default();
        let own = ports.iter().position(|port| (port.agent, port.thread) == (agent, thread)).unwrap_or_else(|| {
            let number = self.agents.len();
            for side in [number, arrival_side(number)] {
                self.agents.push(Agent { knows: self.clocks.of(side as u32), ..Agent::default() });
            }
            ports.push(Port { agent, thread, last: 0, number });
            ports.len() - 1
        });
        let mut knows = [word; 2];
        for other in ports.iter() {
            if self.clocks.ordered(word, other.agent) > other.last {
                for (side, knows) in other.sides().into_iter().zip(&mut knows) {
                    let its = self.agents[side].all_know(side as u32, &mut self.clocks);
                    *knows = self.clocks.join(*knows, its, false);
                }
            }
        }
        ports[own].last = self.agents[agent as usize].time - 1;
        let (number, alone) = (ports[own].number, ports.len() == 1);
        let source = &mut self.agents[number];
        source.knows = self.clocks.join(source.knows, knows[0], false);
        let told = if alone { source.knows } else { knows[1] };
        self.tell_arrival_side(number, alone, told);
        (number, alone)
    }

    /// The arrival side of a port learns something, given the number of the source side. All that the port is told, the source side is
    /// told first. If one thread alone has used the port, the arrival side knows what the source side knows and, beyond that, its own
    /// turns only. Then it takes the source side's clock, and adds its own turns when it tells something: that saves a join.
    fn tell_arrival_side(&mut self, number: usize, alone: bool, knows: VectorClock) {
        let arrivals = &mut self.agents[arrival_side(number)];
        match alone {
            true => (arrivals.knows, arrivals.told) = (knows, 0),
            false => arrivals.knows = self.clocks.join(arrivals.knows, knows, false),
        }
    }

    /// The rank that a port leads to, which is behind a channel end: an own one, and by how much it is shifted from there.
    pub(super) fn peer(&self, end: u32, port: &Port) -> (u32, u32) {
        // The end may be that of a rank that the port's stands for.
        let direction = self.model.pairs.direction(end as usize);
        let (all, own) = (self.model.plan.ranks.len() as u32, self.model.ranks);
        let rank = self.model.agents[port.agent as usize].rank as u32;
        let peer = (rank + all - direction.from + direction.to) % all;
        (peer % own, peer / own)
    }

    /// A port hears from a thread that gives it something to do. Returns what its signals tell from then on: that all it was
    /// given has been read, and has arrived.
    pub(super) fn enqueue_on_port(&mut self, end: (u32, u32, u32), word: VectorClock) -> VectorClock {
        let (number, alone) = self.port(end, word);
        let read = self.turn_of_port(number);
        self.tell_arrival_side(number, alone, read);
        self.turn_of_port(arrival_side(number))
    }

    /// A side of a port takes a turn; what it knows afterwards.
    fn turn_of_port(&mut self, side: usize) -> VectorClock {
        let agent = &mut self.agents[side];
        agent.time += 1;
        agent.meet(&mut self.clocks);
        agent.all_know(side as u32, &mut self.clocks)
    }

    /// Whether an access is a put over a port channel of which it is known that its source was read, to one for whom the
    /// access's agent lies so many places further.
    pub(super) fn is_flushed(&self, access: &RecordedAccess, knows: VectorClock, places: u32) -> bool {
        access.write && access.agent as usize >= self.blocks && {
            let source = source_side(self.ring.moved(access.agent, places));
            self.clocks.ordered(knows, source) > access.count
        }
    }

    /// A thread waits until a port has read all that it was given to send.
    pub(super) fn flush(&mut self, (end, agent, thread): (u32, u32, u32)) {
        let word = self.agents[agent as usize].release_clock(agent, thread, &mut self.clocks);
        let (number, _) = self.port((end, agent, thread), word);
        let port = &self.agents[number];
        let word = self.clocks.advance(port.knows, number as u32, port.time);
        self.agents[agent as usize].acquire(thread, word, true, &mut self.clocks);
    }

    /// A data operation that a block gives to ports, one pair of source and destination per channel.
    pub(super) fn push(&mut self, agent: usize, step: usize, begun: u32) {
        let model = self.model;
        let kind = model.step_at(step).kind;
        let (effects, forwards) = (model.effects(step), kind == OpKind::ReadPutPackets);
        if forwards {
            // The block waits for the packets, and meets, before it pushes.
            for effect in effects.iter().filter(|effect| !effect.write) {
                self.access(agent, agent, step, effect, begun);
            }
            self.agents[agent].meet(&mut self.clocks);
        }
        for (thread, &end) in (0..).zip(model.ids(step)) {
            let word = self.agents[agent].release_clock(agent as u32, thread, &mut self.clocks);
            let end = (end, agent as u32, thread);
            let (port, _) = self.port(end, word);
            for effect in effects.iter().filter(|effect| effect.position == thread || forwards && !effect.write) {
                let side = if effect.write { arrival_side(port) } else { port };
                self.access(agent, side, step, effect, self.agents[side].time);
            }
            let knows = self.enqueue_on_port(end, word);
            if signals(kind) {
                self.signal(end.0, (agent as u32, thread), step, begun, ReleasedClock { knows, relaxed: false });
            }
            if kind == OpKind::PutWithSignalAndFlush {
                self.flush(end);
            }
        }
    }
}
