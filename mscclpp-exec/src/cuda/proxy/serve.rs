//! The thread that serves queues: its polling interval, and the execution of triggers.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use super::{Failure, Rest, Shared, State};
use crate::cuda::nodes::{NodeConnections, is_remote_address};
use mscclpp_cuda::abi;
use mscclpp_cuda::driver;

/// Interval between two polls of the queues by an idle thread: at first, and later.
const POLL_INTERVAL: Duration = Duration::from_micros(50);
const SLEEP_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum interval where every launch wakes the thread: a launch that begins long after it was enqueued, or waits long for
/// other ranks, waits for its next transfer by a small part of that time.
const MAX_SLEEP_INTERVAL: Duration = Duration::from_millis(20);

/// Time after which an idle thread sleeps between polls, or until it is woken if all launches are complete.
const POLL_DURATION: Duration = Duration::from_millis(200);

/// Values of the count of idle polls from which on the thread yields its processor between them: where the process has few, which the
/// ranks need, and otherwise.
const MAX_SPINS: [u32; 2] = [200, 10_000];

/// Number of processors from which on they are not few.
const MANY_PROCESSORS: usize = 4;

/// Value of the count of idle polls from which on the thread sleeps between them.
const MAX_YIELDS: u32 = 20_000;

impl Shared {
    /// Serves the queues until the thread is asked to stop.
    pub(super) fn serve(&self) {
        let (mut idle, mut since) = (0_u32, Instant::now());
        let are_many = std::thread::available_parallelism().is_ok_and(|number| number.get() >= MANY_PROCESSORS);
        let max_spins = MAX_SPINS[usize::from(are_many)];
        while !self.stop.load(Acquire) {
            let is_idle = idle > MAX_YIELDS && since.elapsed() >= POLL_DURATION;
            // Before the queues are polled: what complete launches have pushed is in them.
            let are_complete = is_idle && self.are_launches_complete();
            let (served, looks, is_in_launch, has_work) = {
                let mut state = self.lock();
                // Polling connections takes system calls.
                let looks = if state.wires.is_some() { 20 } else { 1 };
                let served = self.try_serve(&mut state);
                let is_in_launch = state.wires.as_ref().is_some_and(NodeConnections::is_in_launch);
                (served, looks, is_in_launch, state.has_work())
            };
            if served || self.called.swap(false, Relaxed) {
                (idle, since) = (0, Instant::now());
            }
            idle = idle.saturating_add(looks);
            match idle {
                _ if idle <= max_spins => std::hint::spin_loop(),
                0..=MAX_YIELDS => std::thread::yield_now(),
                _ if since.elapsed() < POLL_DURATION => std::thread::park_timeout(POLL_INTERVAL),
                // A launch that is announced from now on wakes the thread.
                _ if are_complete && !is_in_launch && !has_work => std::thread::park(),
                _ if is_in_launch => std::thread::park_timeout(SLEEP_INTERVAL),
                _ => std::thread::park_timeout(self.sleep_interval(since.elapsed())),
            }
        }
        let mut state = self.lock();
        let in_order = state.failed.is_none();
        if let Some(wires) = &mut state.wires {
            wires.finish(in_order);
        }
    }

    /// Returns whether there are only launches of which [`Proxies::wake`](super::Proxies::wake) tells, and all so far are
    /// complete.
    fn are_launches_complete(&self) -> bool {
        let announced = self.announced.load(Acquire);
        !self.has_unannounced_launches.load(Relaxed)
            && self.enqueued.load(Acquire) == announced
            && (announced == 0 || self.driver.is_done(self.end).unwrap_or(false))
    }

    /// Returns the interval between two polls by a thread that has been idle for some time.
    fn sleep_interval(&self, idle: Duration) -> Duration {
        match self.has_unannounced_launches.load(Relaxed) {
            true => SLEEP_INTERVAL,
            false => sleep_interval(idle),
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

    /// Takes the triggers in the queues and publishes the positions that are complete; returns whether there were any.
    fn serve_once(&self, state: &mut State) -> Result<bool, Failure> {
        let mut served = false;
        for number in 0..self.queues.len() {
            served |= self.serve_queue(state, number)?;
        }
        if served {
            let event = state.events.record(self.stream)?;
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
            state.events.release(event);
            served = true;
        }
        if let Some(wires) = &mut state.wires {
            served |= wires.progress(state.done)?;
        }
        Ok(served)
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

impl State {
    /// Returns whether there is work that no trigger begins.
    fn has_work(&self) -> bool {
        let is_sent = self.wires.as_ref().is_none_or(NodeConnections::is_idle);
        !self.pending.is_empty() || self.rests.iter().any(Option::is_some) || !is_sent
    }
}

/// Returns the interval between two polls by a thread that every launch wakes, after it has been idle for some time.
fn sleep_interval(idle: Duration) -> Duration {
    (idle / 256).clamp(SLEEP_INTERVAL, MAX_SLEEP_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_thread_sleeps_longer_the_longer_it_is_idle() {
        let millis = |idle| sleep_interval(Duration::from_millis(idle)).as_micros();
        assert_eq!([0, 256, 512, 2560, 5120, 1 << 20].map(millis), [1000, 1000, 2000, 10_000, 20_000, 20_000]);
    }
}
