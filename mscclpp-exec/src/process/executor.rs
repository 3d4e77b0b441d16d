//! A rank's way to its peers.

use std::fmt;
use std::marker::PhantomData;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use super::buffer::{Shared, SharedBuffer};
use super::options::Options;
use super::session::{Session, lost_descriptor};
use crate::dtype::Element;
use crate::error::Error;
use crate::shm::Segment;
use mscclpp_bootstrap::{Bootstrap, MAX_TIMEOUT};

/// A rank's way to its peers: makes shared buffers, prepares plans. Clones are the same rank.
///
/// [`alloc`](Self::alloc), [`prepare`](Self::prepare) and launches are calls of the group: all ranks make the same ones in the
/// same order, one at a time. Every rank compares them with its peers'; if they differ both get [`Error::Mismatch`]. After a
/// call that failed while peers were in it the group cannot go on, and all its calls return [`Error::Broken`].
#[derive(Clone)]
pub struct Executor {
    pub(super) inner: Arc<Inner>,
}

/// What clones share.
pub(super) struct Inner {
    session: Mutex<Session>,
    bootstrap: Arc<Bootstrap>,
}

impl Inner {
    /// The session, for one call. Does not wait: two threads must not use one rank at the same time.
    pub(super) fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        match self.session.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::WouldBlock) => Err(Error::Busy),
            Err(TryLockError::Poisoned(session)) => {
                let mut session = session.into_inner();
                session.give_up(&Error::Internal("a call panicked".into()));
                Ok(session)
            }
        }
    }
}

impl Executor {
    /// Connects the ranks of a group with default [`Options`] and the group's deadline. A call of all of them.
    ///
    /// # Errors
    /// [`Error::Group`] if the ranks cannot tell each other where they are; [`Error::RankLost`] names a rank of this node that did
    /// not come before the deadline; [`Error::System`], [`Error::NoMemory`].
    pub fn new(bootstrap: Arc<Bootstrap>) -> Result<Self, Error> {
        let options = Options::default().timeout(bootstrap.options().timeout);
        Self::with_options(bootstrap, options)
    }

    /// [`new`](Self::new) with other options, the same on all ranks.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_options(bootstrap: Arc<Bootstrap>, options: Options) -> Result<Self, Error> {
        // Instants have an end.
        let options = options.timeout(options.timeout.min(MAX_TIMEOUT));
        let session = Session::new(Arc::clone(&bootstrap), options)?;
        Ok(Self { inner: Arc::new(Inner { session: Mutex::new(session), bootstrap }) })
    }

    /// Another deadline for the calls that this rank makes from now on; the others keep theirs. See [`Options::timeout`].
    ///
    /// # Errors
    /// [`Error::Busy`] while another thread is in a call.
    pub fn set_timeout(&self, deadline: Duration) -> Result<(), Error> {
        // Instants have an end.
        self.inner.session()?.options.timeout = deadline.min(MAX_TIMEOUT);
        Ok(())
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        self.inner.bootstrap.rank()
    }

    /// Number of ranks.
    pub fn num_ranks(&self) -> u32 {
        self.inner.bootstrap.num_ranks()
    }

    /// Waits until all ranks have come here: ranks of one node through shared memory, in less than a microsecond if each has a
    /// processor.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn barrier(&self) -> Result<(), Error> {
        self.inner.session()?.barrier()
    }

    /// A buffer of `len` elements, zero at first, that launches use without copies. A call of all ranks; lengths may differ.
    ///
    /// # Errors
    /// [`Error::NoMemory`] on this rank, [`Error::RankLost`] on the others, if the machine does not have so much; otherwise as
    /// [`prepare`](Self::prepare).
    pub fn alloc<T: Element>(&self, len: usize) -> Result<SharedBuffer<T>, Error> {
        let mut session = self.inner.session()?;
        let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
        let shared = session.allocate(bytes, &format!("alloc of {}", T::TYPE), "shared buffers", true)?;
        Ok(SharedBuffer { shared, len, elements: PhantomData })
    }
}

impl Session {
    /// Memory of every rank of the node, mapped by all of them. `now`: takes its pages at once.
    pub(super) fn allocate(
        &mut self,
        bytes: u64,
        text: &str,
        purpose: &'static str,
        now: bool,
    ) -> Result<Arc<Shared>, Error> {
        let mine = Segment::new(bytes, purpose).and_then(|segment| {
            if now {
                segment.0.reserve(&segment.1, purpose)?;
            }
            Ok(segment)
        });
        // Who has no memory still takes part, or the others would wait for it.
        let (header, files) = match &mine {
            Ok((_, file)) => (bytes.to_le_bytes().to_vec(), vec![file.as_fd()]),
            Err(_) => (Vec::new(), Vec::new()),
        };
        let sent = self.exchange(text, &header, &files)?;
        // Counted on all ranks, whatever becomes of it.
        self.allocations += 1;
        let (mine, file) = mine?;
        let mut theirs = Vec::new();
        for (place, sent) in sent.into_iter().enumerate() {
            if place == self.me {
                theirs.push(None);
                continue;
            }
            let peer = self.locals[place];
            let len = sent.bytes.as_slice().try_into().map(u64::from_le_bytes);
            let Ok(len) = len else {
                return Err(Error::RankLost {
                    peer,
                    why: format!("it has not enough memory for its part of `{text}`"),
                });
            };
            let file = sent.files.into_iter().next().ok_or_else(|| lost_descriptor(peer));
            // No peer knows of this.
            let segment = file.and_then(|file| Segment::open(file, len)).inspect_err(|error| self.give_up(error))?;
            theirs.push(Some(Arc::new(segment)));
        }
        let (number, reserved) = (self.allocations, AtomicBool::new(now));
        let file = (!now).then_some(file);
        let shared = Arc::new(Shared { number, mine: Arc::new(mine), file, reserved, theirs });
        self.regions.retain(|region| region.strong_count() > 0);
        self.regions.push(Arc::downgrade(&shared));
        Ok(shared)
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("rank", &self.rank()).field("ranks", &self.num_ranks()).finish()
    }
}
