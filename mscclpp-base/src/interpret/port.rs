//! Port channels: thread blocks queue triggers, which the proxy of their rank executes in order and asynchronously.

use super::data::copy;
use super::fifo::Trigger;
use super::launch::{Launch, Progress, Window, Worker};
use super::program::{Block, Channel, Instr, Opcode, Space, UNPAIRED};
use super::state::AgentState;
use crate::numeric::{LINE, LINES};

impl Launch<'_> {
    /// Queues the transfers of an operation, and waits for them if it flushes.
    pub fn port(&self, code: &Block, instr: &Instr, state: &mut AgentState, flush: bool) -> Progress {
        while state.at.number < instr.srcs {
            let size = self.program.srcs(instr)[state.at.number as usize].size;
            let window = match instr.counted {
                Some(count) => self.counted_window(instr, code.rank, count),
                None => self.window(instr, size, state),
            };
            if !self.push_trigger(code, state, window) {
                return Progress::Blocked;
            }
        }
        self.wait_for_flush(code, instr, state, flush)
    }

    /// Waits until all packets of the source are present, then queues a transfer to each destination.
    pub fn port_forward(&self, worker: &mut Worker, code: &Block, instr: &Instr, state: &mut AgentState) -> Progress {
        let src = &self.program.srcs(instr)[0];
        let window = self.window(instr, src.size, state);
        while state.at.done < window.len {
            let wanted = (window.len - state.at.done).min((LINE * LINES) as u64);
            let (from, run) = self.span(src, window.start + state.at.done, wanted);
            let n = self.load_packets(&mut worker.block, from, 0, run);
            state.at.done += n;
            if n < run {
                return Progress::Blocked;
            }
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        while state.at.number < instr.dsts {
            if !self.push_trigger(code, state, window) {
                return Progress::Blocked;
            }
        }
        Progress::Next
    }

    /// Queues on each channel a signal, or a flush for which it waits.
    pub fn port_sync(&self, code: &Block, instr: &Instr, state: &mut AgentState, flush: bool) -> Progress {
        while state.at.number < instr.ids {
            if !self.push_trigger(code, state, Window { start: 0, len: 0 }) {
                return Progress::Blocked;
            }
        }
        self.wait_for_flush(code, instr, state, flush)
    }

    /// Queues the next trigger of the current operation, and returns whether there was room.
    fn push_trigger(&self, code: &Block, state: &mut AgentState, window: Window) -> bool {
        let Window { start: at, len } = window;
        let trigger = Trigger { instr: state.at.instr, number: state.at.number, at, len };
        let Some(position) = self.counters.fifos[code.proxy as usize].push(trigger) else {
            return false;
        };
        state.ticket = position + 1;
        state.at.number += 1;
        true
    }

    /// Waits for a flush. A queue is served in order, so waiting for its last trigger is waiting for all; sources for other nodes may be
    /// in use for longer.
    fn wait_for_flush(&self, code: &Block, instr: &Instr, state: &AgentState, flush: bool) -> Progress {
        if !flush || state.at.number == 0 {
            return Progress::Next;
        }
        let is_handled = self.counters.fifos[code.proxy as usize].is_handled(state.ticket);
        let are_read = || self.program.ids(instr).iter().all(|&channel| self.are_sources_read(channel));
        if is_handled && are_read() { Progress::Next } else { Progress::Blocked }
    }

    /// Returns whether no data for the peer of a channel is read any more.
    fn are_sources_read(&self, channel: u32) -> bool {
        let peer = self.program.channels[channel as usize].peer;
        self.remote(peer).is_none_or(|remote| remote.are_sources_read(peer))
    }

    /// Serves a queue until it is empty or the fuel is used up.
    pub fn serve(&self, worker: &mut Worker, proxy: usize, state: &mut AgentState) -> Progress {
        let fifo = &self.counters.fifos[proxy];
        loop {
            if state.trigger.is_none() {
                state.trigger = fifo.pop();
                state.at.done = 0;
            }
            let Some(trigger) = state.trigger else {
                return Progress::Blocked;
            };
            let instr = &self.program.instrs[trigger.instr as usize];
            if self.transfer(worker, instr, &trigger, state) == Progress::Yielded {
                return Progress::Yielded;
            }
            if matches!(instr.action, Opcode::Port { signal: true, .. } | Opcode::PortSignal) {
                let channel = self.program.ids(instr)[trigger.number as usize];
                let Channel { peer, pair, .. } = self.program.channels[channel as usize];
                match self.remote(peer) {
                    Some(remote) if pair != UNPAIRED => remote.signal(peer, pair),
                    Some(_) => {}
                    None => self.deliver(channel),
                }
            }
            state.trigger = None;
            // Counts as progress even where nothing was transferred.
            state.at.number = state.at.number.wrapping_add(1);
            fifo.complete();
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
    }

    /// Executes the transfer of a trigger; packets are copied with their flags.
    fn transfer(&self, worker: &mut Worker, instr: &Instr, trigger: &Trigger, state: &mut AgentState) -> Progress {
        let (srcs, dsts) = (self.program.srcs(instr), self.program.dsts(instr));
        let number = trigger.number as usize;
        let from = if instr.action == Opcode::PortForward { 0 } else { number };
        let (Some(src), Some(dst)) = (srcs.get(from), dsts.get(number)) else {
            return Progress::Next;
        };
        if instr.counted.is_some() {
            return self.transfer_counted(worker, (src, dst), trigger, state);
        }
        if let Some(remote) = self.remote(dst.rank) {
            while state.at.done < trigger.len {
                match self.send(remote, src, dst, trigger, state.at.done) {
                    0 => return Progress::Yielded,
                    n => state.at.done += n,
                }
            }
            return Progress::Next;
        }
        while state.at.done < trigger.len {
            let at = trigger.at + state.at.done;
            let (from, run) = self.span(src, at, trigger.len - state.at.done);
            let (to, run) = self.span(dst, at, run);
            let scale = if src.space == Space::Packets { 2 } else { 1 };
            // Bytes that are not padding.
            let useful = run.min(to.len() as u64 / scale);
            let n = if useful == 0 { run } else { useful.min(worker.quantum) };
            copy(from, to, scale * n);
            state.at.done += n;
            if state.at.done < trigger.len && worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }
}
