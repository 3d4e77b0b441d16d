//! Threads that make the calls of several ranks of this process at once. They stay for the next calls, because to start a thread takes
//! longer than most calls do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_core::threads;

use crate::abi::Code;
use crate::failure::{Failure, Result, panicked};

/// What a worker runs. It calls its argument when it has done all but to report its result: from then on the worker has capacity.
type Job = Box<dyn FnOnce(&dyn Fn()) + Send>;

/// A thread that waits for jobs.
#[derive(Clone)]
struct Worker(Sender<Job>);

/// Workers without a job, and the process that has them: a copy of it, made by `fork`, has no threads.
struct Idle {
    process: u32,
    workers: Vec<Worker>,
}

static IDLE: Mutex<Idle> = Mutex::new(Idle { process: 0, workers: Vec::new() });

fn idle() -> MutexGuard<'static, Idle> {
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if idle.process != process {
        std::mem::forget(std::mem::take(&mut idle.workers));
        idle.process = process;
    }
    idle
}

impl Worker {
    /// Starts a worker.
    ///
    /// # Errors
    /// The system has no thread.
    fn new() -> Result<Self> {
        let (sender, jobs) = channel();
        let worker = Self(sender);
        let own = worker.clone();
        let thread = threads::named("mscclpp-nccl-call");
        match thread.spawn(move || own.run(&jobs)) {
            Ok(_) => Ok(worker),
            Err(error) => Err(Failure::new(Code::SystemError, format!("no thread for the calls of a rank: {error}"))),
        }
    }

    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            job(&|| idle().workers.push(self.clone()));
        }
    }
}

/// Runs functions at once, the last one in this thread, and returns when all have returned: the first error in their order.
///
/// # Errors
/// Those of the functions; a panic is an internal error. If the system has no thread for one of them, none runs.
pub(crate) fn run_at_once<F: FnOnce() -> Result<()> + Send + 'static>(mut functions: Vec<F>) -> Result<()> {
    let Some(own) = functions.pop() else { return Ok(()) };
    let mut workers = Vec::new();
    for _ in &functions {
        let known = idle().workers.pop();
        match known.map_or_else(Worker::new, Ok) {
            Ok(worker) => workers.push(worker),
            Err(failure) => {
                idle().workers.append(&mut workers);
                return Err(failure);
            }
        }
    }
    let run = |function: F| catch_unwind(AssertUnwindSafe(function)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    let results: Vec<_> = (workers.into_iter().zip(functions))
        .map(|(worker, function)| {
            let (sender, result) = channel();
            let job: Job = Box::new(move |has_capacity| {
                let result = run(function);
                has_capacity();
                // The caller waits for it.
                let _ = sender.send(result);
            });
            // A worker waits for jobs as long as the process runs.
            let _ = worker.0.send(job);
            result
        })
        .collect();
    let own = run(own);
    let mut all = Ok(());
    for result in results {
        let lost = || Err(Failure::new(Code::InternalError, "the thread for the calls of a rank has ended"));
        all = all.and(result.recv().unwrap_or_else(|_| lost()));
    }
    all.and(own)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;

    #[test]
    fn functions_run_at_once_in_threads_that_stay() {
        let threads = Arc::new(Mutex::new(HashSet::new()));
        for num in [3, 1, 8, 8, 2, 8] {
            for _ in 0..50 {
                // Each waits for all others.
                let barrier = Arc::new(Barrier::new(num));
                let function = |_| {
                    let (barrier, threads) = (Arc::clone(&barrier), Arc::clone(&threads));
                    move || {
                        barrier.wait();
                        threads.lock().expect("no panic").insert(thread::current().id());
                        Ok(())
                    }
                };
                assert!(run_at_once((0..num).map(function).collect()).is_ok());
            }
        }
        // This thread and seven workers, and perhaps some of another test.
        assert!(threads.lock().expect("no panic").len() <= 12, "{threads:?}");
    }

    #[test]
    fn first_failure_is_returned_when_all_have_ended() {
        let ended = Arc::new(Mutex::new(0));
        let function = |number: usize| {
            let ended = Arc::clone(&ended);
            move || {
                *ended.lock().expect("no panic") += 1;
                match number {
                    0 | 3 => Ok(()),
                    1 => panic!("a defect"),
                    _ => Err(Failure::new(Code::InvalidUsage, format!("failure {number}"))),
                }
            }
        };
        let failure = run_at_once((0..5).map(function).collect()).expect_err("two fail");
        assert_eq!((failure.code, *ended.lock().expect("no panic")), (Code::InternalError, 5));
        assert!(failure.text.contains("a defect"), "{}", failure.text);
        let failure = run_at_once((3..5).map(function).collect()).expect_err("one fails");
        assert_eq!(failure.text, "failure 4");
        assert!(run_at_once(Vec::<fn() -> Result<()>>::new()).is_ok());
    }
}
