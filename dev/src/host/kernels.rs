//! Running kernels: all that are first on their streams run at once.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::time::Duration;

use super::{Code, Queue, SimulatedHost, State, Work, error};
use crate::alloc::SimulatedMemory;
use crate::launch::{self, Fault, Finished, Kernel, Turn};
use crate::native::SimKernel;
use crate::threaded::ThreadedKernels;

/// Number of consecutive turns in which kernels wait for threads of the host or other processes, after which the thread that runs them
/// sleeps between turns: the others may need its core.
const BUSY_TURNS: u32 = 8;

/// Returns how long it sleeps after this number of turns: longer the longer it has waited, up to a millisecond.
fn turn_interval(turns: u32) -> Duration {
    Duration::from_micros(50) * (turns / 16).clamp(1, 20)
}

impl SimulatedHost {
    /// Runs kernels until none can begin.
    pub(super) fn run(&self, seed: u64) {
        if let Some(threaded) = self.options.threaded {
            return self.run_threaded(threaded);
        }
        let mut held = Some(self.memory());
        let mut version = None;
        let (mut stuck_turns, mut waits_for_others) = (0_u32, false);
        launch::run(self.options, seed, |finished, stuck| {
            if finished.is_empty() && version.is_some() {
                // The host may use memory in between.
                held = None;
                stuck_turns = if stuck && waits_for_others { stuck_turns + 1 } else { 0 };
                match stuck_turns {
                    ..=BUSY_TURNS => std::thread::yield_now(),
                    _ => std::thread::sleep(turn_interval(stuck_turns)),
                }
                held = Some(self.memory());
            }
            let Some(memory) = held.as_deref() else {
                return Turn { more: Vec::new(), may_help: false, reach: None };
            };
            let mut state = self.state();
            let ended = !finished.is_empty();
            finished.into_iter().for_each(|finished| state.finish(finished));
            self.perform(memory, &mut state);
            let more = self.startable(memory, &mut state);
            let now = Some((memory.version, state.access.len()));
            let reach = (version != now)
                .then(|| (0..self.devices).map(|device| reach(memory, &state.access, device)).collect());
            version = now;
            // Delayed work may be what the kernels wait for: the record that another stream waits for before its
            // kernel.
            let has_delayed_work = state.has_delayed_work(self.options.one_connection);
            let may_help = state.helped || self.options.others || has_delayed_work;
            waits_for_others = (self.options.others || state.helped) && !has_delayed_work;
            // Otherwise their waits end by their timeouts.
            state.stuck = stuck && may_help;
            if ended || state.stuck {
                self.finished.notify_all();
            }
            Turn { more, may_help, reach }
        });
    }

    /// Runs kernels one by one, with threads of the operating system.
    fn run_threaded(&self, threaded: ThreadedKernels) {
        loop {
            let kernels = {
                let memory = self.memory();
                let mut state = self.state();
                self.perform(&memory, &mut state);
                self.startable(&memory, &mut state)
            };
            if kernels.is_empty() {
                return;
            }
            for Kernel { kernel, blocks, threads, argument, stream, .. } in kernels {
                // SAFETY: guaranteed by the code that enqueued it on the stream.
                unsafe { threaded.run(kernel, blocks, threads, &argument) };
                self.state().finish((stream, Ok(())));
            }
        }
    }

    /// Returns the kernels that are first on their streams.
    fn startable(&self, memory: &SimulatedMemory, state: &mut State) -> Vec<Kernel> {
        let mut kernels = Vec::new();
        let unblocked = state.unblocked(self.options.one_connection);
        let State { streams, functions, access, .. } = state;
        let may_run = |queue: &Queue| !queue.runs && unblocked.has(queue);
        for (&stream, queue) in streams.iter_mut().filter(|(_, queue)| may_run(queue)) {
            let Some(Work::Launch(launch)) = queue.work.front() else { continue };
            let Some(&kernel) = functions.get(&launch.function.0) else {
                let error = error::<()>("cuLaunchKernel", Code::NotFound, "no such kernel");
                queue.failed = error.err();
                queue.pop();
                continue;
            };
            // SAFETY: a kernel of a module that is loaded, as the caller of `launch` guarantees.
            let has_all_threads = unsafe { (*(kernel as *const SimKernel)).has_all_threads };
            kernels.push(Kernel {
                kernel: kernel as *const c_void,
                blocks: launch.blocks,
                threads: if has_all_threads { launch.threads } else { launch.threads.min(self.options.threads) },
                argument: launch.argument.clone(),
                reach: reach(memory, access, queue.device),
                device: queue.device,
                stream,
            });
            queue.runs = true;
        }
        kernels
    }
}

impl State {
    fn finish(&mut self, (stream, result): Finished) {
        let Some(queue) = self.streams.get_mut(&stream) else { return };
        queue.runs = false;
        queue.pop();
        if let Err(fault) = result {
            let code = match fault {
                Fault::Access { .. } => Code::IllegalAddress,
                Fault::Endless { .. } => Code::LaunchTimeout,
                Fault::Assertion { .. } => Code::Assert,
            };
            let error = error::<()>("cuLaunchKernel", code, fault.to_string()).err();
            queue.failed = queue.failed.take().or(error);
        }
    }
}

/// Returns the memory that a device can access.
fn reach(memory: &SimulatedMemory, access: &BTreeSet<(u32, u32)>, device: u32) -> launch::Reach {
    memory.reach(device, |of| access.contains(&(device, of)))
}
