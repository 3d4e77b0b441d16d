//! Pool of worker threads. They sleep between launches, and a launch does not wait for those that have not woken up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mscclpp_core::threads;

use super::plan_state::{Outcome, PlanState};
use super::schedule::{LaunchSchedule, Plain, Runner, Schedule};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::timeline::Stamps;
use mscclpp_base::interpret::{CountRow, CountRows, Launch, Params, RowCall, RowCalls, Worker};
use mscclpp_base::memory::Table;

/// A launch, for the workers that take part in it.
#[derive(Clone)]
pub(super) struct Job {
    pub(super) context: Arc<PlanState>,
    pub(super) params: Arc<Params>,
    pub(super) table: Arc<Table>,
    pub(super) number: u64,
    pub(super) flag: u32,
    pub(super) workers: usize,
    pub(super) schedule: Schedule,
    /// By rank; none for a plan without counts.
    pub(super) counts: Arc<[CountRow]>,
    /// By rank; none for a plan without rows.
    pub(super) rows: Arc<[RowCall]>,
    /// By thread block.
    pub(super) stamps: Option<Arc<[Mutex<Stamps>]>>,
}

impl Job {
    /// Runs the launch as worker `index` until it has ended. A panic ends it as failed, with the panic's message.
    pub(super) fn work(&self, worker: &mut Worker, index: usize) -> Result<(), String> {
        let held = self.table.hold();
        let work = || match &self.stamps {
            None => {
                self.launch_schedule(held.memory(), Plain).work(worker, index, self.workers, self.schedule);
            }
            Some(stamps) => {
                self.launch_schedule(held.memory(), &**stamps).work(worker, index, self.workers, self.schedule);
            }
        };
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            self.context.progress.end(Outcome::Failed);
            let text = panic.downcast_ref::<String>().cloned();
            text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
        })
    }

    pub(super) fn launch_schedule<'a, R: Runner>(
        &'a self,
        memory: mscclpp_base::memory::LentSlices<'a>,
        runner: R,
    ) -> LaunchSchedule<'a, R> {
        let launch = Launch {
            counters: &self.context.counters,
            program: &self.context.program,
            params: &self.params,
            memory,
            number: self.number,
            flag: self.flag,
            // A launch starts when all ranks have finished the previous one, so the order of the halves does not
            // matter.
            second_half: self.flag.is_multiple_of(2),
            counts: (!self.counts.is_empty()).then_some(CountRows { first: 0, rows: &self.counts }),
            counts_number: self.number,
            rows: (!self.rows.is_empty()).then_some(RowCalls { first: 0, calls: &self.rows }),
            exclusive: self.workers == 1,
            remote: None,
            peer_buffers_blocked: false,
        };
        LaunchSchedule { context: &self.context, launch, runner }
    }
}

/// Worker threads of an executor, other than the calling thread.
pub(super) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    slot: Mutex<Slot>,
    /// Signals that there is a job, or that the pool ends.
    job_posted: Condvar,
    /// Signals that a worker has left its job.
    left: Condvar,
}

#[derive(Default)]
struct Slot {
    job: Option<Job>,
    /// Counts jobs, so that a worker does not take one twice.
    jobs: u64,
    /// Number of workers that took the current job, and of those that still run it.
    taken: usize,
    working: usize,
    /// Message of a worker's panic.
    panic: Option<String>,
    quit: bool,
}

impl Pool {
    /// Starts the workers.
    ///
    /// # Errors
    /// [`Error::SpawnThread`] if the system cannot start a thread.
    pub(super) fn new(workers: usize) -> Result<Self, Error> {
        let mut pool = Self { shared: Arc::default(), threads: Vec::new() };
        for worker in 0..workers {
            let shared = Arc::clone(&pool.shared);
            let thread = threads::named(format!("mscclpp-{worker}"));
            let thread =
                thread.spawn(move || shared.worker_main()).map_err(|error| Error::SpawnThread(error.to_string()))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Runs a job with the workers; when this returns all of them have left it.
    pub(super) fn run(&self, job: &Job, worker: &mut Worker) -> Result<(), String> {
        {
            let mut slot = self.shared.slot();
            slot.job = Some(job.clone());
            slot.jobs += 1;
            (slot.taken, slot.panic) = (0, None);
        }
        self.shared.job_posted.notify_all();
        let own = job.work(worker, 0);
        let mut slot = self.shared.slot();
        slot.job = None;
        while slot.working > 0 {
            slot = self.shared.left.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
        slot.panic.take().map_or(own, Err)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.slot().quit = true;
        self.shared.job_posted.notify_all();
        for thread in self.threads.drain(..) {
            // A worker does not panic outside of `Job::work`; if it did, nothing could be done about it.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn worker_main(&self) {
        let mut worker = Box::<Worker>::default();
        let mut seen = 0;
        let mut slot = self.slot();
        while !slot.quit {
            let job = if slot.jobs == seen { None } else { slot.job.clone() };
            seen = slot.jobs;
            // A launch may use fewer workers than there are.
            let Some(job) = job.filter(|job| slot.taken + 1 < job.workers) else {
                slot = self.job_posted.wait(slot).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            slot.taken += 1;
            slot.working += 1;
            let index = slot.taken;
            drop(slot);
            let result = job.work(&mut worker, index);
            drop(job);
            slot = self.slot();
            slot.working -= 1;
            if let Err(panic) = result {
                slot.panic = Some(panic);
            }
            self.left.notify_all();
        }
    }
}
