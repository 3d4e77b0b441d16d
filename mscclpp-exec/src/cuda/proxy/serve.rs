//! The thread that serves queues: its polling interval, and the execution of triggers.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{Failure, Rest, Shared, State};
use crate::cuda::abi;
use crate::cuda::driver;
use crate::cuda::nodes::is_remote_address;

/// Interval between two polls of the queues by an idle thread: at first, and later. A launch wakes the thread; the
/// launch of a graph does not.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
const SLEEP_INTERVAL: Duration = Duration::from_millis(1);

/// Time after which an idle thread sleeps between polls.
const POLL_DURATION: Duration = Duration::from_millis(200);

impl Shared {
    /// Serves the queues until the thread is asked to stop.
    pub(super) fn serve(&self) {
        let (mut idle, mut since) = (0_u32, Instant::now());
        while !self.stop.load(Acquire) {
            let (served, looks) = {
                let mut state = self.lock();
                // Polling connections takes system calls.
                let looks = if state.wires.is_some() { 20 } else { 1 };
                (self.try_serve(&mut state), looks)
            };
            if served || self.called.swap(false, Relaxed) {
                (idle, since) = (0, Instant::now());
            }
            idle = idle.saturating_add(looks);
            match idle {
                0..=10_000 => std::hint::spin_loop(),
                10_001..=20_000 => std::thread::yield_now(),
                _ if since.elapsed() < POLL_DURATION => std::thread::park_timeout(POLL_INTERVAL),
                _ => std::thread::park_timeout(SLEEP_INTERVAL),
            }
        }
        let mut state = self.lock();
        let in_order = state.failed.is_none();
        if let Some(wires) = &mut state.wires {
            wires.finish(in_order);
        }
    }

    /// Serves the queues once, unless the lock is held or the thread has failed; returns whether there was any work.
    fn try_serve(&self, state: &mut State) -> bool {
        let is_aborted = || self.flags.word(abi::AbortFlags::DEVICE).load(Acquire) != 0;
        match &mut state.wires {
            _ if state.failed.is_some() => return false,
            // Other ranks wait for data that this rank no longer sends.
            Some(wires) if is_aborted() => {
                wires.finish(false);
                return false;
            }
            _ => {}
        }
        self.serve_once(state).unwrap_or_else(|failure| {
            state.failed = Some(failure);
            self.flags.word(abi::AbortFlags::HOST).store(1, Release);
            if let Some(wires) = &mut state.wires {
                wires.finish(false);
            }
            false
        })
    }

    /// Takes the triggers in the queues and publishes the positions that are complete; returns whether there was any
    /// work.
    fn serve_once(&self, state: &mut State) -> Result<bool, Failure> {
        let mut served = false;
        for number in 0..self.queues.len() {
            served |= self.serve_queue(state, number)?;
        }
        if served {
            let event = self.driver.create_event()?;
            if let Err(error) = self.driver.record(event, self.stream) {
                self.driver.destroy_event(event)?;
                return Err(error.into());
            }
            state.pending.push_back((event, state.taken.clone()));
            state.begun += 1;
        }
        while let Some((event, _)) = state.pending.front() {
            if !self.driver.is_done(*event)? {
                break;
            }
            let Some((event, done)) = state.pending.pop_front() else { break };
            for (queue, done) in self.queues.iter().zip(done) {
                queue.handled().store(done, Release);
            }
            state.done += 1;
            self.driver.destroy_event(event)?;
            served = true;
        }
        if let Some(wires) = &mut state.wires {
            served |= wires.progress(state.done)?;
        }
        Ok(served || !state.pending.is_empty())
    }

    /// Takes the triggers in a queue, as long as there is space for those to other nodes; returns whether there were
    /// any.
    fn serve_queue(&self, state: &mut State, number: usize) -> Result<bool, Failure> {
        let mut served = false;
        loop {
            if let Some(rest) = state.rests[number].take() {
                let (progress, rest) = self.serve_rest(state, rest)?;
                served |= progress;
                if rest.is_some() {
                    state.rests[number] = rest;
                    return Ok(served);
                }
                state.taken[number] += 1;
            }
            let Some([src, dst, bytes, signal]) = self.queues[number].take(state.taken[number]) else {
                return Ok(served);
            };
            let put = match &state.wires {
                Some(wires) if bytes > 0 && is_remote_address(dst) => Some(wires.put(src, dst, bytes)?),
                _ => {
                    self.copy(src, dst, bytes)?;
                    None
                }
            };
            state.rests[number] = Some(Rest { put, signal });
        }
    }

    /// Copies within the node.
    fn copy(&self, src: u64, dst: u64, bytes: u64) -> driver::Result<()> {
        match (src, bytes) {
            (_, 0) => Ok(()),
            (0, bytes) => self.driver.memset_async(dst, bytes, self.stream),
            (src, bytes) => self.driver.copy(dst, src, bytes, self.stream),
        }
    }

    /// Executes the rest of a trigger, as far as there is space; returns whether it made progress, and what remains.
    fn serve_rest(&self, state: &mut State, mut rest: Rest) -> Result<(bool, Option<Rest>), Failure> {
        let mut served = false;
        if let (Some(put), Some(wires)) = (&mut rest.put, &mut state.wires) {
            served = wires.stage(put, state.begun, self.stream)?;
            if !put.is_staged() {
                return Ok((served, Some(rest)));
            }
        }
        if rest.signal == 0 {
            return Ok((true, None));
        }
        if let Some(wires) = &mut state.wires {
            if let Some(done) = wires.mark(rest.signal) {
                return Ok(if done { (true, None) } else { (served, Some(rest)) });
            }
            if is_remote_address(rest.signal) {
                rest.put = None;
                let sent = wires.signal(rest.signal, state.begun)?;
                return Ok(if sent { (true, None) } else { (served, Some(rest)) });
            }
        }
        // Only this thread signals the counters of port channels within the node.
        let sent = state.sent.entry(rest.signal).or_default();
        *sent += 1;
        self.driver.write_value(rest.signal, *sent, self.stream)?;
        Ok((true, None))
    }
}
