//! Ports: what they are given, and what they tell.

use super::clock::Clock;
use super::words::{Thread, Word};
use super::{Agent, Races};
use crate::check::pairing::signals;
use crate::plan::OpKind;

/// A port as far as one thread uses it.
pub(super) struct Port {
    agent: u32,
    thread: u32,
    /// The turn in which the thread used it last.
    last: u32,
    /// Its number among the agents.
    pub(super) number: usize,
}

impl Port {
    /// Whether this is a thread's view of its port.
    pub(super) fn is_of(&self, thread: Thread) -> bool {
        (self.agent, self.thread) == thread
    }
}

impl Races<'_, '_> {
    /// The port behind a channel end, as far as a thread knows what it does: what other threads gave it comes before what
    /// this one gives it now only if that is over.
    fn port(&mut self, (end, agent, thread): (u32, u32, u32), word: Clock) -> usize {
        let ports = self.ports.entry(end).or_default();
        let own = ports.iter().position(|port| (port.agent, port.thread) == (agent, thread)).unwrap_or_else(|| {
            let number = self.agents.len();
            self.agents.push(Agent { knows: self.clocks.of(number as u32), ..Agent::default() });
            ports.push(Port { agent, thread, last: 0, number });
            ports.len() - 1
        });
        let mut knows = word;
        for other in ports.iter() {
            if self.clocks.over(word, other.agent) > other.last {
                let its = self.agents[other.number].all_know(other.number as u32, &mut self.clocks);
                knows = self.clocks.join(knows, its, false);
            }
        }
        ports[own].last = self.agents[agent as usize].count - 1;
        let number = ports[own].number;
        let port = &mut self.agents[number];
        port.knows = self.clocks.join(port.knows, knows, false);
        number
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

    /// A port hears from a thread that gives it something to do; what it can tell afterwards, all before being done.
    pub(super) fn tell_port(&mut self, end: (u32, u32, u32), word: Clock) -> Clock {
        let number = self.port(end, word);
        let port = &mut self.agents[number];
        port.count += 1;
        port.meet(&mut self.clocks);
        port.all_know(number as u32, &mut self.clocks)
    }

    /// A thread waits until a port has done all that it was given.
    pub(super) fn flush(&mut self, (end, agent, thread): (u32, u32, u32)) {
        let word = self.agents[agent as usize].word(agent, thread, &mut self.clocks);
        let number = self.port((end, agent, thread), word);
        let port = &self.agents[number];
        let word = self.clocks.learn(port.knows, number as u32, port.count);
        self.agents[agent as usize].hear(thread, word, true, &mut self.clocks);
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
            let word = self.agents[agent].word(agent as u32, thread, &mut self.clocks);
            let end = (end, agent as u32, thread);
            let port = self.port(end, word);
            for effect in effects.iter().filter(|effect| effect.position == thread || forwards && !effect.write) {
                self.access(agent, port, step, effect, self.agents[port].count);
            }
            let knows = self.tell_port(end, word);
            if signals(kind) {
                self.signal(end.0, (agent as u32, thread), step, begun, Word { knows, relaxed: false });
            }
            if kind == OpKind::PutWithSignalAndFlush {
                self.flush(end);
            }
        }
    }
}
