//! Launches that run while the caller does something else.

use std::fmt;
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;

use super::launch::PreparedPlan;
use crate::dtype::Element;
use crate::error::Error;

/// A thread that runs launches one after the other, in the order in which they were handed to it.
///
/// A launch owns its executable and its buffers until it is waited for, so nobody touches them meanwhile:
///
/// ```compile_fail,E0382
/// # fn f(queue: mscclpp_exec::process::Queue, x: mscclpp_exec::process::Executable, buffer: Vec<f32>) {
/// let pending = queue.launch_in_place(x, buffer).unwrap();
/// println!("{}", buffer[0]); // belongs to the launch
/// # }
/// ```
///
/// While a launch is under way the rank's other calls fail with [`Error::Busy`]: the ranks of a group make one call at a time.
/// To overlap collectives, use a queue and a group for each. Dropping a queue waits for its launches, each of which ends by its
/// deadline.
pub struct Queue {
    work: Option<mpsc::Sender<Box<dyn FnOnce() + Send>>>,
    thread: Option<JoinHandle<()>>,
}

/// A launch that was handed to a [`Queue`]; gives back what it owns. If it is dropped the launch happens all the same.
pub struct Pending<B> {
    result: mpsc::Receiver<Finished<B>>,
}

/// What a launch on a [`Queue`] gives back.
#[derive(Debug)]
#[non_exhaustive]
pub struct Finished<B> {
    /// The executable.
    pub executable: PreparedPlan,
    /// The buffers.
    pub buffers: B,
    /// How the launch ended.
    pub result: Result<(), Error>,
}

impl Queue {
    /// # Errors
    /// [`Error::SpawnThread`] if the system gives no thread.
    pub fn new() -> Result<Self, Error> {
        let (work, received) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let thread = std::thread::Builder::new().name("mscclpp-queue".into());
        let thread = thread.spawn(move || received.into_iter().for_each(|job| job()));
        let thread = thread.map_err(|error| Error::SpawnThread(error.to_string()))?;
        Ok(Self { work: Some(work), thread: Some(thread) })
    }

    /// Queues a launch out of place; see [`PreparedPlan::launch`].
    ///
    /// # Errors
    /// [`Error::Internal`] if the thread has panicked.
    pub fn launch<T, I, O>(&self, mut x: PreparedPlan, input: I, mut output: O) -> Result<Pending<(I, O)>, Error>
    where
        T: Element,
        I: AsRef<[T]> + Send + 'static,
        O: AsMut<[T]> + Send + 'static,
    {
        self.run(move || {
            let result = x.launch(input.as_ref(), output.as_mut());
            Finished { executable: x, buffers: (input, output), result }
        })
    }

    /// Queues a launch in place; see [`PreparedPlan::launch_in_place`].
    ///
    /// # Errors
    /// [`Error::Internal`] if the thread has panicked.
    pub fn launch_in_place<T, B>(&self, mut x: PreparedPlan, mut buffer: B) -> Result<Pending<B>, Error>
    where
        T: Element,
        B: AsMut<[T]> + Send + 'static,
    {
        self.run(move || {
            let result = x.launch_in_place(buffer.as_mut());
            Finished { executable: x, buffers: buffer, result }
        })
    }

    fn run<B: Send + 'static>(&self, job: impl FnOnce() -> Finished<B> + Send + 'static) -> Result<Pending<B>, Error> {
        let (done, result) = mpsc::channel();
        let job: Box<dyn FnOnce() + Send> = Box::new(move || {
            // Nobody may be waiting any more.
            let _ = done.send(job());
        });
        let sent = self.work.as_ref().map(|work| work.send(job));
        match sent {
            Some(Ok(())) => Ok(Pending { result }),
            _ => Err(Error::Internal("the thread of a launch queue has exited".into())),
        }
    }
}

impl<B> Pending<B> {
    /// What [`wait`](Self::wait) gives, if the launch has ended.
    ///
    /// # Errors
    /// The pending launch itself, if it is still under way.
    pub fn try_wait(self) -> Result<Result<Finished<B>, Error>, Self> {
        match self.result.try_recv() {
            Ok(finished) => Ok(Ok(finished)),
            Err(TryRecvError::Disconnected) => Ok(Err(panicked())),
            Err(TryRecvError::Empty) => Err(self),
        }
    }

    /// Waits for the launch.
    ///
    /// # Errors
    /// [`Error::Internal`] if the launch or one before it panicked. Errors of the launch itself are in [`Finished::result`].
    pub fn wait(self) -> Result<Finished<B>, Error> {
        self.result.recv().map_err(|_| panicked())
    }
}

fn panicked() -> Error {
    Error::Internal("a queued launch panicked".into())
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A panic of a launch was reported to who waited for it.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Pending<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_launches_after_a_panic() {
        let queue = Queue::new().unwrap();
        let first = queue.run::<()>(|| panic!("a panic that a test wants")).unwrap();
        let second = queue.run::<()>(|| unreachable!("the thread is gone"));
        for mut pending in [Ok(first), second].into_iter().flatten() {
            let ended = loop {
                match pending.try_wait() {
                    Ok(ended) => break ended,
                    Err(still) => pending = still,
                }
            };
            assert!(matches!(ended, Err(Error::Internal(_))), "{ended:?}");
        }
    }
}
