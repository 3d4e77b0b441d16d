//! A rank's handle to the process executor.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use super::at_exit;
use super::buffer::SharedBuffer;
use super::options::Options;
use super::session::{CallHistory, Session};
use super::timeline::TimelineFile;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_bootstrap::{Bootstrap, MAX_TIMEOUT, place};

/// A rank's handle to the process executor: allocates shared buffers, prepares plans. Clones are handles of the same
/// rank.
///
/// [`alloc`](Self::alloc), [`prepare`](Self::prepare) and launches are collective calls: all ranks make the same ones
/// in the same order, one at a time. Every rank compares its calls with its peers'; if they differ both ranks return
/// [`Error::Bootstrap`] with both calls. After a call that failed while peers were in it the communicator has failed: all
/// ranks return the same cause, and later calls return it again. A rank whose part of that call was done before may return
/// from it without an error, and then learns the cause in its next call.
///
/// `Send` and `Sync`: any thread may make calls. A call does not wait for one of another thread, but returns
/// [`Error::Busy`].
#[derive(Clone)]
pub struct Executor {
    pub(super) inner: Arc<Inner>,
}

static_assertions::assert_impl_all!(Executor: Send, Sync);

/// State that clones share.
pub(super) struct Inner {
    pub(super) session: Mutex<Session>,
    pub(super) bootstrap: Arc<Bootstrap>,
    pub(super) history: Arc<CallHistory>,
}

impl Inner {
    /// Returns the session, for one call. Does not wait: two threads must not use one rank at the same time.
    #[track_caller]
    pub(super) fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        match self.session.try_lock() {
            Ok(mut session) => {
                session.set_place(place::current(Location::caller()));
                Ok(session)
            }
            Err(TryLockError::WouldBlock) => Err(Error::Busy),
            Err(TryLockError::Poisoned(session)) => {
                let mut session = session.into_inner();
                session.abort(Error::Internal("a call panicked".into()));
                Ok(session)
            }
        }
    }

    /// Returns what a function finds in the session; `None` while a thread is in a call.
    pub(super) fn peek<R>(&self, find: impl FnOnce(&Session) -> R) -> Option<R> {
        self.session.try_lock().ok().map(|session| find(&session))
    }
}

impl Executor {
    /// Connects the ranks of a communicator with default [`Options`] and the bootstrap's timeout. A collective call of
    /// all ranks.
    ///
    /// # Errors
    /// [`Error::Bootstrap`] if the ranks cannot exchange their addresses; [`Error::RankLost`] names a rank of this node
    /// that did not connect within the timeout; [`Error::System`], [`Error::OutOfMemory`].
    pub fn new(bootstrap: Arc<Bootstrap>) -> Result<Self, Error> {
        let options = Options::default().timeout(bootstrap.options().timeout);
        Self::with_options(bootstrap, options)
    }

    /// Does what [`new`](Self::new) does, with other options, the same on all ranks.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options(bootstrap: Arc<Bootstrap>, options: Options) -> Result<Self, Error> {
        // An `Instant` is bounded.
        let options = options.timeout(options.timeout.min(MAX_TIMEOUT));
        let session = Session::new(bootstrap, options)?;
        Ok(Self::of(session))
    }

    pub(super) fn of(session: Session) -> Self {
        let bootstrap = Arc::clone(&session.bootstrap);
        let history = Arc::clone(&session.history);
        let inner = Arc::new(Inner { session: Mutex::new(session), bootstrap, history });
        at_exit::register(&inner);
        Self { inner }
    }

    /// Returns the number of connections to ranks on other nodes.
    #[cfg(test)]
    pub(super) fn num_connections(&self) -> usize {
        self.inner.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner).connections.len()
    }

    /// Returns the last calls of this rank.
    #[doc(hidden)]
    pub fn history(&self) -> &Arc<CallHistory> {
        &self.inner.history
    }

    /// Sets the timeout of this rank's later calls; that of the other ranks does not change. See [`Options::timeout`].
    ///
    /// # Errors
    /// [`Error::Busy`] while another thread is in a call.
    pub fn set_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.replace_timeout(timeout).map(drop)
    }

    /// Sets the timeout of this rank's later calls, and returns the one before.
    #[doc(hidden)]
    pub fn replace_timeout(&self, timeout: Duration) -> Result<Duration, Error> {
        // An `Instant` is bounded.
        Ok(std::mem::replace(&mut self.inner.session()?.options.timeout, timeout.min(MAX_TIMEOUT)))
    }

    /// Writes the timeline of this rank's later launches to a file that does not exist yet, in Chrome's trace format; `name`: that of its
    /// process in the trace. A failure to write is a warning of the first launch.
    ///
    /// # Errors
    /// [`Error::Busy`] while another thread is in a call.
    #[doc(hidden)]
    pub fn record_timeline(&self, path: &Path, name: String) -> Result<(), Error> {
        self.inner.session()?.timeline = Some(TimelineFile::new(path, self.rank(), name));
        Ok(())
    }

    /// Returns this rank.
    pub fn rank(&self) -> u32 {
        self.inner.bootstrap.rank()
    }

    /// Returns the number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.bootstrap.num_ranks()
    }

    /// Waits until all ranks have entered this call. Ranks of one node synchronize through shared memory, in less than
    /// a microsecond if each has a processor.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    #[track_caller]
    pub fn barrier(&self) -> Result<(), Error> {
        self.inner.session()?.barrier()
    }

    /// Waits until all ranks have made this call; `text` distinguishes it from others, and describes it in messages.
    ///
    /// # Errors
    /// As [`barrier`](Self::barrier).
    #[track_caller]
    #[doc(hidden)]
    pub fn named_barrier(&self, text: &str) -> Result<(), Error> {
        self.inner.session()?.named_barrier(text)
    }

    /// Returns whether a rank of this node has started a call that this rank has yet to make; `false` while this rank is in a call.
    #[doc(hidden)]
    pub fn has_started(&self, rank: u32) -> bool {
        self.inner.peek(|session| session.has_started(rank)).unwrap_or(false)
    }

    /// Returns the control plane.
    #[cfg(feature = "cuda")]
    pub(crate) fn bootstrap(&self) -> &Arc<Bootstrap> {
        &self.inner.bootstrap
    }

    /// Returns the session, for one call of a rank that has CUDA devices too: one sequence of calls covers both.
    ///
    /// # Errors
    /// [`Error::Busy`] while another thread is in a call.
    #[cfg(feature = "cuda")]
    pub(crate) fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        self.inner.session()
    }

    /// Makes a call of the control plane as one of the calls of this executor; `text` describes it in messages.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare), and the error of `call`.
    #[track_caller]
    #[doc(hidden)]
    pub fn control<T>(
        &self,
        text: &str,
        call: impl FnOnce(&Bootstrap) -> Result<T, mscclpp_bootstrap::Error>,
    ) -> Result<T, Error> {
        let mut session = self.inner.session()?;
        let _place = session.place().map(place::enter);
        session.control(text, call)
    }

    /// Compares a call with those of the ranks of other nodes, which are otherwise compared when a plan is prepared. A call of all ranks.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    #[track_caller]
    #[doc(hidden)]
    pub fn agree(&self, text: &str) -> Result<(), Error> {
        self.inner.session()?.agree(text, text)
    }

    /// Fails the communicator because of a failure of this rank in a call. Returns the error, or the cause that another rank reported first.
    #[doc(hidden)]
    pub fn fail(&self, error: Error) -> Error {
        match self.inner.session() {
            Ok(mut session) => session.abort(error),
            Err(busy) => busy,
        }
    }

    /// Allocates a zeroed buffer of `len` elements, which launches use without copies. A collective call of all ranks;
    /// lengths may differ.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] on this rank and [`Error::PeerOutOfMemory`] on the others, if the machine does not have
    /// enough memory; otherwise as [`prepare`](Self::prepare).
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<SharedBuffer<T>, Error> {
        let mut session = self.inner.session()?;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let shared = session.allocate_buffers(bytes, &format!("alloc of {}", T::TYPE))?;
        Ok(SharedBuffer { shared, len, elements: PhantomData })
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("rank", &self.rank()).field("num_ranks", &self.num_ranks()).finish()
    }
}
