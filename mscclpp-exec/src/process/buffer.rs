//! Buffers that peers can access.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::session::Session;
use crate::dtype::Element;
use crate::error::Error;
use crate::shm::{Loan, Segment};

/// An allocation that all ranks of a node made together: each has its own memory, and has mapped the others'.
pub(super) struct Shared {
    /// Its number among the allocations of the communicator; 0 for none.
    pub(super) number: u64,
    pub(super) own: Arc<Segment>,
    /// Its file, if its pages are allocated later, and whether they were.
    pub(super) file: Option<OwnedFd>,
    pub(super) reserved: AtomicBool,
    /// By local rank; `None` for this rank.
    pub(super) peers: Vec<Option<Arc<Segment>>>,
}

impl Shared {
    /// Allocates the pages of memory that was allocated without.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], which fails the communicator: peers have started the launch that needs the pages.
    #[inline]
    pub(super) fn reserve(&self, session: &mut Session) -> Result<(), Error> {
        if let Some(file) = self.file.as_ref().filter(|_| !self.reserved.load(Relaxed)) {
            self.own.reserve(file, "copies").map_err(|error| session.abort(error))?;
            self.reserved.store(true, Relaxed);
        }
        Ok(())
    }

    /// Returns the memory of a local rank; `None` if there is no such rank.
    pub(super) fn at(&self, local_rank: usize) -> Option<&Arc<Segment>> {
        self.peers.get(local_rank).map(|segment| segment.as_ref().unwrap_or(&self.own))
    }

    /// Returns the offset of a slice in this rank's memory, if the slice is in it and peers can use it there. A written
    /// slice must have its own pages, because a failed launch detaches those from the peers.
    #[inline]
    pub(super) fn find(&self, loan: &Loan<'_>) -> Option<u64> {
        let bytes = loan.bytes();
        let at = bytes.as_ptr().addr().checked_sub(self.own.base().addr().get())?;
        let part = at as u64..(at + bytes.len()) as u64;
        let fits = part.end <= self.own.len() as u64 && (!loan.is_written() || self.own.has_own_pages(&part));
        fits.then_some(part.start)
    }
}

/// Elements that a launch uses without copies, because the other ranks of the node can access them.
///
/// Allocated by [`Executor::alloc`](super::Executor::alloc), zeroed and page-aligned. Apart from that it is a slice:
/// any part of it can be passed to a launch. A part that a launch may write to is copied nevertheless, unless it begins
/// at a page boundary of the system and ends at one, or at the end of the buffer. The memory is freed when all ranks
/// have dropped their part of the allocation, and every prepared plan that was launched with it was launched with other
/// buffers or dropped.
///
/// Peers write to it only during launches to which it was passed, so it does not change while this rank holds a
/// reference: a launch borrows its output exclusively, and returns when its peers have finished with it.
///
/// ```compile_fail,E0502
/// # fn f(x: &mut mscclpp_exec::process::PreparedPlan, mut buffer: mscclpp_exec::process::SharedBuffer<f32>) {
/// let first = &buffer[0];
/// x.launch_in_place(&mut buffer).unwrap(); // peers write to it
/// println!("{first}");
/// # }
/// ```
///
/// ```compile_fail,E0502
/// # fn f(x: &mut mscclpp_exec::process::PreparedPlan, mut buffer: mscclpp_exec::process::SharedBuffer<f32>) {
/// x.launch(&buffer, &mut buffer).unwrap(); // input and output overlap
/// # }
/// ```
///
/// `Send` and `Sync` like `Vec<T>`: threads of this process access the elements as the borrow checker permits, and peers
/// access them only during a launch that borrows the buffer.
pub struct SharedBuffer<T: Element> {
    pub(super) shared: Arc<Shared>,
    pub(super) len: usize,
    pub(super) elements: PhantomData<T>,
}

static_assertions::assert_impl_all!(SharedBuffer<f32>: Send, Sync);

impl<T: Element> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the segment has `len` elements, lives as long as `self`, and is page-aligned; every bit pattern is an
        // element. No thread writes to the elements while the result lives: this process only through `deref_mut` or a
        // launch to which the buffer was lent for writing, both of which need `self` exclusively; peers only during
        // such a launch, whose start they wait for and which waits for them to finish (see `process`). After a failed
        // launch no peer can access the memory that was lent to it; if that cannot be ensured the process aborts.
        unsafe { std::slice::from_raw_parts(self.shared.own.base().as_ptr().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; peers read the memory only during launches too, and `self` is borrowed exclusively.
        // The segment is accessed through this one buffer only: `shared` returns no references to its memory.
        unsafe { std::slice::from_raw_parts_mut(self.shared.own.base().as_ptr().cast(), self.len) }
    }
}

impl<T: Element> AsRef<[T]> for SharedBuffer<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: Element> AsMut<[T]> for SharedBuffer<T> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for SharedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
