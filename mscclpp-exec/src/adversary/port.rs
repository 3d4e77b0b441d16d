//! Port channels: what threads give them, and what they do with it.
//!
//! A port channel is two actors. The port reads the sources of what it was given, in order; the wire delivers what was read,
//! signals included, in the same order and as late as it likes, also in later launches. A flush waits for the port only: it
//! says nothing about what is still on the wire.

use super::machine::{Machine, Parcel, Request, Sized, Step, Touch, of_launch};
use super::program::{Action, Trigger};

impl Machine<'_> {
    /// Gives a port something to do, and waits until it has read its sources where that is asked for.
    pub(super) fn push(&mut self, actor: u32, block: u32, thread: u32, trigger: &Trigger) -> Option<Step> {
        let program = self.program;
        let state = self.threads[actor as usize];
        let end = trigger.end as usize;
        if state.ticket.is_none() {
            let rank = &self.ranks[program.blocks[block as usize].rank as usize];
            let (launch, since) = (rank.launch, self.seen_at_start(rank));
            let clock = self.word(actor);
            let port = &mut self.ports[end];
            port.pushed += 1;
            let (instr, window) = (state.instr, state.window);
            port.queue.push_back(Request { block, instr, number: thread, window, launch, since, clock });
            self.threads[actor as usize].ticket = Some(port.pushed);
            if let Some(port) = program.ends[end].port {
                self.schedule.wake(port);
            }
            return Some(Step::On);
        }
        if trigger.flush && state.ticket > Some(self.ports[end].handled) {
            self.ports[end].waiting.push(actor);
            return Some(Step::Off);
        }
        None
    }

    /// Waits until a port has read the sources of all that it was given so far.
    pub(super) fn flush(&mut self, actor: u32, end: u32) -> Option<Step> {
        let port = &mut self.ports[end as usize];
        let ticket = *self.threads[actor as usize].ticket.get_or_insert(port.pushed);
        if ticket > port.handled {
            port.waiting.push(actor);
            return Some(Step::Off);
        }
        None
    }

    /// A port reads the next element of its first request.
    pub(super) fn port(&mut self, actor: u32, end: u32) -> Step {
        let sizes = self.sizes;
        let port = &mut self.ports[end as usize];
        let Some(request) = port.queue.front() else { return Step::Off };
        let Some(trigger) = trigger(sizes, request) else { return Step::Off };
        if port.wire.back().is_none_or(|parcel| parcel.complete) {
            let parcel = Parcel { request: request.clone(), values: Vec::new(), arrived: 0, complete: false };
            port.wire.push_back(parcel);
        }
        self.actors[actor as usize].clock.join(&request.clock);
        self.schedule.wake(actor + 1);
        let Some(parcel) = port.wire.back_mut() else { return Step::Off };
        let done = parcel.values.len() as u64;
        if let Some(transfer) = &trigger.transfer {
            let (start, len) = transfer.window(request.window);
            if done < len {
                let touch = Touch { by: actor, launch: request.launch, since: request.since, port: true };
                let found = self.gather(touch, transfer, start + done);
                if let Some(parcel) = self.ports[end as usize].wire.back_mut() {
                    parcel.values.push(found);
                }
                return Step::On;
            }
        }
        parcel.complete = true;
        port.handled += 1;
        port.queue.pop_front();
        for waiting in std::mem::take(&mut port.waiting) {
            self.schedule.wake(waiting);
        }
        Step::On
    }

    /// The next element of what a port has read arrives, or the signal after the last one.
    pub(super) fn wire(&mut self, actor: u32, end: u32) -> Step {
        let sizes = self.sizes;
        let Some(parcel) = self.ports[end as usize].wire.front_mut() else { return Step::Off };
        let Some(trigger) = trigger(sizes, &parcel.request) else { return Step::Off };
        self.actors[actor as usize].clock.join(&parcel.request.clock);
        if let (Some(transfer), Some(&value)) = (&trigger.transfer, parcel.values.get(parcel.arrived)) {
            let Request { launch, since, .. } = parcel.request;
            let touch = Touch { by: actor, launch, since, port: true };
            let (start, _) = transfer.window(parcel.request.window);
            let cell = start + parcel.arrived as u64;
            parcel.arrived += 1;
            self.scatter(touch, transfer, cell, value);
            return Step::On;
        }
        if !parcel.complete {
            return Step::Off;
        }
        self.ports[end as usize].wire.pop_front();
        if sizes.len() > 1 {
            self.wake_callers();
        }
        if trigger.signal {
            self.signal(actor, end, false);
        }
        Step::On
    }
}

/// The trigger that a request is about.
fn trigger<'p>(sizes: &'p [Sized], request: &Request) -> Option<&'p Trigger> {
    let program = &of_launch(sizes, request.launch).program;
    let instr = &program.blocks[request.block as usize].instrs[request.instr as usize];
    let Action::Push(triggers) = &instr.action else { return None };
    triggers.get(request.number as usize)
}
