//! Buffers that peers can access.
//!
//! Each rank of the node maps the buffers of its peers, also those of ranks of its own process. Between launches an owner
//! accesses its buffer through references to its elements, so nothing else in its process may access these addresses.
//! Peers access the buffer at others, in atomic units. After a failed launch, in which peers may still be, the owner's
//! pages are replaced at its addresses alone: from then on its references and the peers' accesses have no memory in common. The
//! same holds for a library that moves bytes between nodes: it gets the memory as a [`Region`].

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::session::{Session, lost_descriptor};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_base::memory::{Loan, check_available};
use mscclpp_base::shm::{Region, SecondMapping, Segment, Sent};

/// An allocation of callers that all ranks of a node made together: each has its own memory, and has mapped the others',
/// those of this process too.
pub(super) struct Shared {
    /// Its number among the allocations of the communicator; 0 for none.
    pub(super) number: u64,
    pub(super) own: Arc<Segment>,
    /// By local rank; `None` for this rank.
    pub(super) peers: Vec<Option<Arc<Segment>>>,
    pub(super) second: SecondMapping,
}

impl Shared {
    /// Returns the memory of a local rank; `None` if there is no such rank.
    pub(super) fn at(&self, local_rank: usize) -> Option<&Arc<Segment>> {
        self.peers.get(local_rank).map(|segment| segment.as_ref().unwrap_or(&self.own))
    }

    /// Returns bytes of this rank's memory as a region; `None` if they are not in it.
    pub(super) fn region(&self, addresses: &Range<usize>) -> Option<Region> {
        self.second.region(&self.own, &(0..self.own.len() as u64), addresses)
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

impl Session {
    /// Allocates a buffer of every rank of the node, mapped by all of them.
    pub(super) fn allocate_buffers(&mut self, bytes: u64, text: &str) -> Result<Arc<Shared>, Error> {
        const PURPOSE: &str = "shared buffers";
        let own = check_available(bytes, PURPOSE).and_then(|()| {
            let (segment, file) = Segment::new(bytes, PURPOSE)?;
            segment.reserve(&file, &(0..bytes), PURPOSE)?;
            Ok((segment, Arc::new(file)))
        });
        // A rank without memory takes part in the exchange as well, or the others would wait for it.
        let message = match &own {
            Ok((_, file)) => {
                Sent { bytes: bytes.to_le_bytes().to_vec(), files: vec![Arc::clone(file)], ..Sent::default() }
            }
            Err(_) => Sent::default(),
        };
        let sent = self.exchange(text, &message)?;
        // Counted on all ranks, whether the allocation succeeds or not.
        self.allocations += 1;
        let (own, _) = own.map_err(|error| self.fail_allocation(error))?;
        let mut peers = Vec::new();
        for (local_rank, sent) in sent.into_iter().enumerate() {
            if local_rank == self.own_local_rank {
                peers.push(None);
                continue;
            }
            let peer = self.locals[local_rank];
            let len = sent.bytes.as_slice().try_into().map(u64::from_le_bytes);
            let Ok(len) = len else {
                return Err(self.peer_out_of_memory(local_rank, text));
            };
            let file = sent.files.into_iter().next().ok_or_else(|| lost_descriptor(peer));
            // No peer has noticed this failure.
            let segment = file.and_then(|file| Segment::open(file.as_fd(), len)).map_err(|error| self.abort(error))?;
            peers.push(Some(Arc::new(segment)));
        }
        let shared =
            Arc::new(Shared { number: self.allocations, own: Arc::new(own), peers, second: SecondMapping::default() });
        self.regions.retain(|region| region.strong_count() > 0);
        self.regions.push(Arc::downgrade(&shared));
        self.count_memory();
        Ok(shared)
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
