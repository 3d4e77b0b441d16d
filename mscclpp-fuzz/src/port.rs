//! Port channels: their triggers, and the delivery of data.
//!
//! A port channel is two agents. The port reads the sources of its triggers, in order; the wire delivers the data,
//! including signals, in the same order and arbitrarily late, also in later launches. A flush waits for the port only:
//! it does not depend on what is in flight. If puts may overtake each other, as engines between nodes may deliver them,
//! only a signal keeps its place: it arrives after all puts before it; and of two puts to the same memory the later one remains.

use std::ops::Range;

use smallvec::SmallVec;

use super::program::{Opcode, Sized, Trigger, of_launch};
use super::simulator::{Accessor, Parcel, Progress, Request, Simulator};

impl Simulator<'_> {
    /// Posts a trigger to a port, and waits until the port has read its sources if the trigger requires it.
    pub(super) fn push(&mut self, agent: u32, block: u32, thread: u32, trigger: &Trigger) -> Option<Progress> {
        let program = self.program;
        let state = self.threads[agent as usize];
        let end = trigger.end as usize;
        if state.ticket.is_none() {
            let rank = &self.ranks[program.blocks[block as usize].rank as usize];
            let (launch, since) = (rank.launch, self.seen_at_start(rank));
            let clock = self.release_clock(agent);
            let port = &mut self.ports[end];
            port.pushed += 1;
            let (instr, window) = (state.instr, state.window);
            port.queue.push_back(Request { block, instr, number: thread, window, launch, since, clock });
            self.threads[agent as usize].ticket = Some(port.pushed);
            if let Some(port) = program.ends[end].port {
                self.schedule.wake(port);
            }
            return Some(Progress::Runnable);
        }
        if trigger.flush && state.ticket > Some(self.ports[end].handled) {
            self.ports[end].waiting.push(agent);
            return Some(Progress::Blocked);
        }
        None
    }

    /// Waits until a port has read the sources of all earlier triggers.
    pub(super) fn flush(&mut self, agent: u32, end: u32) -> Option<Progress> {
        let port = &mut self.ports[end as usize];
        let ticket = *self.threads[agent as usize].ticket.get_or_insert(port.pushed);
        if ticket > port.handled {
            port.waiting.push(agent);
            return Some(Progress::Blocked);
        }
        None
    }

    /// Executes a port: it reads the next element of its first request.
    pub(super) fn port(&mut self, agent: u32, end: u32) -> Progress {
        let sizes = self.sizes;
        let port = &mut self.ports[end as usize];
        let Some(request) = port.queue.front() else { return Progress::Blocked };
        let Some(trigger) = trigger(sizes, request) else { return Progress::Blocked };
        if port.wire.back().is_none_or(|parcel| parcel.complete) {
            let parcel = Parcel { request: request.clone(), values: Vec::new(), arrived: 0, complete: false };
            port.wire.push_back(parcel);
        }
        self.agents[agent as usize].clock.join(&request.clock);
        self.schedule.wake(agent + 1);
        let Some(parcel) = port.wire.back_mut() else { return Progress::Blocked };
        let done = parcel.values.len() as u64;
        if let Some(transfer) = &trigger.transfer {
            let (start, len) = transfer.window(request.window);
            if done < len {
                let accessor = Accessor { by: agent, launch: request.launch, since: request.since, port: true };
                let found = self.gather(accessor, transfer, start + done);
                if let Some(parcel) = self.ports[end as usize].wire.back_mut() {
                    parcel.values.push(found);
                }
                return Progress::Runnable;
            }
        }
        parcel.complete = true;
        port.handled += 1;
        port.queue.pop_front();
        for waiting in std::mem::take(&mut port.waiting) {
            self.schedule.wake(waiting);
        }
        Progress::Runnable
    }

    /// Executes a wire: an element that the port has read arrives, or the signal of the first trigger, all of whose
    /// elements have arrived.
    pub(super) fn wire(&mut self, agent: u32, end: u32) -> Progress {
        let sizes = self.sizes;
        let Some(at) = self.next_parcel(end) else { return Progress::Blocked };
        let Some(parcel) = self.ports[end as usize].wire.get_mut(at) else { return Progress::Blocked };
        let Some(trigger) = trigger(sizes, &parcel.request) else { return Progress::Blocked };
        self.agents[agent as usize].clock.join(&parcel.request.clock);
        if let (Some(transfer), Some(&value)) = (&trigger.transfer, parcel.values.get(parcel.arrived)) {
            let Request { launch, since, .. } = parcel.request;
            let accessor = Accessor { by: agent, launch, since, port: true };
            let (start, _) = transfer.window(parcel.request.window);
            let cell = start + parcel.arrived as u64;
            parcel.arrived += 1;
            self.scatter(accessor, transfer, cell, value);
            return Progress::Runnable;
        }
        self.ports[end as usize].wire.pop_front();
        if sizes.len() > 1 {
            self.wake_callers();
        }
        if trigger.signal {
            self.signal(agent, end, false);
        }
        Progress::Runnable
    }

    /// Returns the parcel that a wire moves next: the first one, or, if puts may overtake each other, any one of its
    /// launch. Only the first one is also taken when all of it has arrived.
    fn next_parcel(&mut self, end: u32) -> Option<usize> {
        let wire = &self.ports[end as usize].wire;
        let first = wire.front()?;
        let moves = |parcel: &Parcel| parcel.arrived < parcel.values.len();
        if !self.reorders_puts {
            return (moves(first) || first.complete).then_some(0);
        }
        // Those of earlier puts to the same memory arrive first.
        let follows = |at: usize, parcel: &Parcel| {
            let next = self.destination(parcel, parcel.arrived, 1);
            wire.iter().take(at).any(|earlier| {
                let rest = self.destination(earlier, earlier.arrived, earlier.values.len() - earlier.arrived);
                next.start < rest.end && rest.start < next.end
            })
        };
        let can =
            |&(at, parcel): &(usize, &Parcel)| moves(parcel) && !follows(at, parcel) || at == 0 && parcel.complete;
        let launch = wire.iter().take_while(|parcel| parcel.request.launch == first.request.launch);
        let candidates: SmallVec<[usize; 8]> = launch.enumerate().filter(can).map(|(at, _)| at).collect();
        match candidates.len() as u64 {
            0 => None,
            len => Some(candidates[self.random.below(len) as usize]),
        }
    }

    /// Returns the cells to which a parcel moves a number of its elements.
    fn destination(&self, parcel: &Parcel, first: usize, count: usize) -> Range<u32> {
        let transfer = trigger(self.sizes, &parcel.request).and_then(|trigger| trigger.transfer.as_ref());
        let Some((transfer, dst)) = transfer.and_then(|transfer| Some((transfer, transfer.dsts.first()?))) else {
            return 0..0;
        };
        let (start, _) = transfer.window(parcel.request.window);
        let cell = |at: usize| dst.cell(start + at as u64, parcel.request.launch);
        cell(first)..cell(first + count)
    }
}

/// Returns the trigger of a request.
fn trigger<'p>(sizes: &'p [Sized], request: &Request) -> Option<&'p Trigger> {
    let program = &of_launch(sizes, request.launch).program;
    let instr = &program.blocks[request.block as usize].instrs[request.instr as usize];
    let Opcode::Push(triggers) = &instr.opcode else { return None };
    triggers.get(request.number as usize)
}
