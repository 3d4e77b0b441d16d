//! Buffers that peers can reach.

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
use crate::memory::Loan;
use crate::shm::Segment;

/// One allocation that all ranks of a node made together: each has its own memory, and has mapped the others'.
pub(super) struct Shared {
    /// Counted over the allocations of the group; 0 for none.
    pub(super) number: u64,
    pub(super) mine: Arc<Segment>,
    /// Its file, where its pages are taken later, and whether they were.
    pub(super) file: Option<OwnedFd>,
    pub(super) reserved: AtomicBool,
    /// By place; `None` at the own place.
    pub(super) theirs: Vec<Option<Arc<Segment>>>,
}

impl Shared {
    /// Takes the pages of memory that was allocated without.
    ///
    /// # Errors
    /// [`Error::NoMemory`], after which the group cannot go on: peers have begun the launch that needs them.
    #[inline]
    pub(super) fn reserve(&self, session: &mut Session) -> Result<(), Error> {
        if let Some(file) = self.file.as_ref().filter(|_| !self.reserved.load(Relaxed)) {
            self.mine.reserve(file, "copies").inspect_err(|error| session.give_up(error))?;
            self.reserved.store(true, Relaxed);
        }
        Ok(())
    }

    /// The memory of the rank at a place; `None` if there is no such place.
    pub(super) fn at(&self, place: usize) -> Option<&Arc<Segment>> {
        self.theirs.get(place).map(|segment| segment.as_ref().unwrap_or(&self.mine))
    }

    /// Where a slice begins in the own memory, if it lies there and peers can use it where it is. What is written must have
    /// its own pages: a launch that fails takes those away from peers.
    #[inline]
    pub(super) fn find(&self, loan: &Loan<'_>) -> Option<u64> {
        let bytes = loan.bytes();
        let at = bytes.as_ptr().addr().checked_sub(self.mine.base().addr().get())?;
        let part = at as u64..(at + bytes.len()) as u64;
        let fits = part.end <= self.mine.len() as u64 && (!loan.is_written() || self.mine.has_own_pages(&part));
        fits.then_some(part.start)
    }
}

/// Elements that a launch uses where they are, without copies, because the other ranks of the node can reach them.
///
/// Made by [`Transport::alloc`](super::Transport::alloc), zero at first, aligned to a page. It is a slice otherwise: any part
/// of it can be handed to a launch. A part that a launch may write to is copied all the same unless it begins with a page of
/// the system and ends with one, or with the buffer. The memory is freed when all ranks have dropped their part of the
/// allocation, and every executable that was launched with it was launched with other buffers or dropped.
///
/// Peers write to it only during launches that it was handed to, so while this rank holds a reference nothing changes under
/// it: a launch borrows its output exclusively, and returns when its peers have finished with it.
///
/// ```compile_fail,E0502
/// # fn f(x: &mut mscclpp_exec::process::Executable, mut buffer: mscclpp_exec::process::SharedBuffer<f32>) {
/// let first = &buffer[0];
/// x.launch_in_place(&mut buffer).unwrap(); // peers write to it
/// println!("{first}");
/// # }
/// ```
///
/// ```compile_fail,E0502
/// # fn f(x: &mut mscclpp_exec::process::Executable, mut buffer: mscclpp_exec::process::SharedBuffer<f32>) {
/// x.launch(&buffer, &mut buffer).unwrap(); // input and output overlap
/// # }
/// ```
pub struct SharedBuffer<T: Element> {
    pub(super) shared: Arc<Shared>,
    pub(super) len: usize,
    pub(super) elements: PhantomData<T>,
}

impl<T: Element> Deref for SharedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the segment has `len` elements, lives as long as `self`, and begins on a page; any bits are an element.
        // Nobody writes to them while the result lives: this process only through `deref_mut` or a launch that it was lent to
        // for writing, both of which need `self` exclusively; peers only during such a launch, which they wait to begin
        // and which waits for them to finish (see `process`). After a launch that failed nobody else reaches what it was lent;
        // where that cannot be had the process ends.
        unsafe { std::slice::from_raw_parts(self.shared.mine.base().as_ptr().cast(), self.len) }
    }
}

impl<T: Element> DerefMut for SharedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; peers read the memory only during launches too, and `self` is borrowed exclusively. The
        // segment is reached through this one buffer only: `shared` gives out no references to its memory.
        unsafe { std::slice::from_raw_parts_mut(self.shared.mine.base().as_ptr().cast(), self.len) }
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
