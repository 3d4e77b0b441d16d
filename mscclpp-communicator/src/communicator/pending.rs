//! Calls that run while the caller does something else.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

use mscclpp_core::threads;

use super::Communicator;
use mscclpp_base::error::Error;

type Job = Box<dyn FnOnce() + Send>;

/// The started calls of a rank, made by one thread in the order in which they were started.
#[derive(Default)]
pub(super) struct CallQueue {
    /// Whether there was a started call: most programs start none, and their calls take no lock for it.
    has_started: AtomicBool,
    state: Mutex<QueueState>,
    drained: Condvar,
}

#[derive(Default)]
struct QueueState {
    jobs: Option<(Sender<Job>, ThreadId)>,
    unfinished: u64,
}

impl CallQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The result of calls that [`Communicator::start`] began: wait for it, or poll it as a future. If it is dropped the calls are
/// still made.
///
/// `Send` and `Sync` if `T` is `Send`: the result moves to the thread that waits, and is never shared.
#[must_use = "the calls' result and errors are known only to those who wait for it"]
pub struct Pending<T> {
    shared: Arc<Shared<T>>,
}

static_assertions::assert_impl_all!(Pending<std::cell::Cell<f32>>: Send, Sync);
static_assertions::assert_not_impl_any!(Pending<std::rc::Rc<f32>>: Send, Sync);

struct Shared<T> {
    slot: Mutex<Slot<T>>,
    finished: Condvar,
}

struct Slot<T> {
    result: Option<Result<T, Error>>,
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Communicator {
    /// Starts calls on a thread of this rank and returns at once. `calls` owns its buffers until it is done, so that no other
    /// thread touches them:
    ///
    /// ```
    /// # use mscclpp_core::types::ReduceOp;
    /// # use mscclpp_communicator::Communicator;
    /// # use mscclpp_exec::Error;
    /// # fn main() -> Result<(), Error> {
    /// # let comm = Communicator::local(1)?.remove(0);
    /// let mut gradients = vec![1.0_f32; 1000];
    /// let pending = comm.start(move |comm| {
    ///     comm.all_reduce_in_place(&mut gradients, ReduceOp::Sum)?;
    ///     Ok(gradients)
    /// })?;
    /// // … the next layer's gradients …
    /// let gradients = pending.wait()?;
    /// # assert_eq!(gradients[0], 1.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Ordering
    /// Started calls are made in the order in which they were started. A call that is made directly waits until they are done.
    ///
    /// # Errors
    /// [`Error::SpawnThread`] if the system gives no thread. The [`Pending`] reports the error of the calls, and
    /// [`Error::Panicked`] if `calls` panicked.
    pub fn start<T, F>(&self, calls: F) -> Result<Pending<T>, Error>
    where
        T: Send + 'static,
        F: FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    {
        let shared =
            Arc::new(Shared { slot: Mutex::new(Slot { result: None, waker: None }), finished: Condvar::new() });
        let pending = Pending { shared: Arc::clone(&shared) };
        let communicator = self.clone();
        let job: Job = Box::new(move || {
            let result = catch_unwind(AssertUnwindSafe(|| calls(&communicator)));
            let result = result
                .unwrap_or_else(|panic| Err(Error::Panicked { rank: communicator.rank(), message: text_of(&*panic) }));
            let mut queue = communicator.inner.queue.lock();
            queue.unfinished -= 1;
            if queue.unfinished == 0 {
                communicator.inner.queue.drained.notify_all();
            }
            drop(queue);
            let mut slot = shared.lock();
            slot.result = Some(result);
            let waker = slot.waker.take();
            drop(slot);
            shared.finished.notify_all();
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        let mut queue = self.inner.queue.lock();
        let jobs = match &queue.jobs {
            Some((jobs, _)) => jobs.clone(),
            None => {
                let (jobs, received) = mpsc::channel::<Job>();
                let thread = threads::named("mscclpp-calls");
                let thread = thread.spawn(move || received.into_iter().for_each(|job| job()));
                let thread = thread.map_err(|error| Error::SpawnThread(error.to_string()))?;
                queue.jobs = Some((jobs.clone(), thread.thread().id()));
                jobs
            }
        };
        queue.unfinished += 1;
        self.inner.queue.has_started.store(true, Release);
        // The thread ends only with the last sender, one of which is here.
        jobs.send(job).map_err(|_| Error::Internal("the thread of started calls has ended".into()))?;
        Ok(pending)
    }

    /// Waits until all started calls are done, except on the thread that makes them.
    #[inline]
    pub(super) fn wait_for_started(&self) {
        if self.inner.queue.has_started.load(Acquire) {
            self.wait_until_drained();
        }
    }

    fn wait_until_drained(&self) {
        let mut queue = self.inner.queue.lock();
        let own = queue.jobs.as_ref().is_none_or(|(_, thread)| *thread == thread::current().id());
        while queue.unfinished > 0 && !own {
            queue = self.inner.queue.drained.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Pending<T> {
    /// Returns whether the calls are done, so that [`wait`](Self::wait) returns at once.
    pub fn is_finished(&self) -> bool {
        self.shared.lock().result.is_some()
    }

    /// Waits until the calls are done and returns their result. Each call ends by its timeout.
    ///
    /// # Errors
    /// The error of the calls; [`Error::Panicked`] if they panicked.
    pub fn wait(self) -> Result<T, Error> {
        let mut slot = self.shared.lock();
        loop {
            if let Some(result) = slot.result.take() {
                return result;
            }
            slot = self.shared.finished.wait(slot).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Ready when the calls are done; must not be polled again after that.
impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.shared.lock();
        match slot.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("is_finished", &self.is_finished()).finish()
    }
}

/// Returns the message of a panic.
fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
