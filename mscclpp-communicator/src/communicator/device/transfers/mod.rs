//! Transfers between two ranks on device memory, and the calls that are made of them. A rank waits for another one on the host only in the
//! first transfer of a size.
//!
//! | module | contents |
//! |---|---|
//! | `direction` | a transfer, and its direction |
//! | `lane` | the transfers of one direction, and the thread that makes the first ones |
//! | `settle` | waits on the host for the thread |
//! | `buffer` | memory for sends that wait for their receiver |

mod buffer;
mod direction;
mod lane;
mod settle;

use std::panic::Location;

use mscclpp_bootstrap::place;

use self::direction::Direction;
pub(in crate::communicator) use self::direction::Transfer;
pub(in crate::communicator) use self::lane::Lanes;
pub(in crate::communicator) use self::settle::settle;
use super::OnStream;
use super::posted::Kind;
use crate::communicator::group::{Order, mismatch};
use mscclpp_base::dtype::{Element, ElementType};
use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{DeviceMut, DeviceRef, Lent};

/// A part of lent memory that travels.
struct Part<'a> {
    peer: u32,
    is_sent: bool,
    memory: Lent<'a>,
}

impl OnStream<'_> {
    /// Sends `data` to another rank, which receives as many elements of the same type with [`recv`](Self::recv), when the stream
    /// reaches this call. Returns without waiting for that rank if the send is buffered or its size is known, and `data` may be changed
    /// by work that is enqueued later.
    ///
    /// # Ordering
    /// The transfers from one rank to another one are made in the order of their calls on both, whatever their streams.
    ///
    /// A send is buffered until the other rank receives it, and sent by this process: a rank exits after the others have received what it
    /// sent, for example after a [`barrier`](Self::barrier) of all ranks, or they report that it is lost. The buffers of this direction have 4 MiB together, of which a send takes
    /// its bytes rounded up to a power of two, at least 4 KiB. A send that finds no room, one in a captured stream and one
    /// in a [`Group`](crate::Group) occupy their stream until they are received. So two ranks that both send more than 4 MiB to each other
    /// before they receive, each on one stream, wait for each other until the timeout, as with NCCL: they make their sends and receives in a
    /// group, which makes them at the same time.
    ///
    /// # Cost
    /// A buffered send costs a copy and two events. The first transfer of a size to a rank is made by a thread, when the other rank
    /// calls as well, for which the caller waits unless its send is buffered, for as long as
    /// [`Communicator::set_first_transfer_wait`](crate::Communicator::set_first_transfer_wait) says; later ones are one launch.
    ///
    /// # Errors
    /// [`Error::Peer`] for this rank itself or no rank; [`Error::Transfer`] with any other failure, which may be reported by
    /// a later transfer with the same rank, by [`synchronize`](Self::synchronize) or by
    /// [`Communicator::check`](crate::Communicator::check).
    #[track_caller]
    pub fn send<T: Element>(&self, data: &impl DeviceRef<T>, peer: u32) -> Result<(), Error> {
        self.transfer::<T>("send", peer, true, data.lend(self.stream)?)
    }

    /// Receives `data` from another rank, which sends as many elements of the same type with [`send`](Self::send). Returns without
    /// waiting for that rank, except in the first one of a size; work that is enqueued on the stream later waits.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[track_caller]
    pub fn recv<T: Element>(&self, data: &mut impl DeviceMut<T>, peer: u32) -> Result<(), Error> {
        self.transfer::<T>("recv", peer, false, data.lend_mut(self.stream)?)
    }

    /// Writes the inputs of all ranks to the output of rank `root`, as
    /// [`Communicator::gather`](crate::Communicator::gather) does. A call of all ranks, of which the first one connects them.
    ///
    /// # Errors
    /// [`Error::Length`], [`Error::Root`]; [`Error::Bootstrap`] with the mismatch if another rank of the node makes a different call;
    /// those of [`send`](Self::send).
    #[track_caller]
    pub fn gather<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        root: u32,
    ) -> Result<(), Error> {
        const CALL: &str = "gather";
        let comm = self.communicator;
        comm.check_root(CALL, root)?;
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        let len = input.len::<T>();
        let mut parts = Vec::new();
        if comm.rank() == root {
            comm.check_whole(CALL, "the output", output.len::<T>(), "the input", len)?;
            parts.extend(self.divided::<T>(&output, &vec![len; comm.num_ranks() as usize], false));
        }
        parts.push(Part { peer: root, is_sent: true, memory: input });
        self.post(Kind::Gather(len, comm.element_type(T::TYPE), root))?;
        self.exchange::<T>(CALL, parts)
    }

    /// Writes part r of the input of rank `root` to the output of each rank r, as
    /// [`Communicator::scatter`](crate::Communicator::scatter) does. A call of all ranks, of which the first one connects them.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    #[track_caller]
    pub fn scatter<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        root: u32,
    ) -> Result<(), Error> {
        const CALL: &str = "scatter";
        let comm = self.communicator;
        comm.check_root(CALL, root)?;
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        let len = output.len::<T>();
        let mut parts = Vec::new();
        if comm.rank() == root {
            comm.check_whole(CALL, "the input", input.len::<T>(), "the output", len)?;
            parts.extend(self.divided::<T>(&input, &vec![len; comm.num_ranks() as usize], true));
        }
        parts.push(Part { peer: root, is_sent: false, memory: output });
        self.post(Kind::Scatter(len, comm.element_type(T::TYPE), root))?;
        self.exchange::<T>(CALL, parts)
    }

    /// Posts a call that is made of transfers. Ranks that make different calls, or with other roots, would otherwise wait for each
    /// other.
    #[track_caller]
    fn post(&self, kind: Kind) -> Result<(), Error> {
        let (mut calls, place) = (self.communicator.calls()?, Location::caller());
        self.communicator.guard(&mut calls, |calls| {
            let (connection, call) = self.begin(calls, place)?;
            connection.check(call.stream)?;
            connection.post(kind, &call)
        })
    }

    /// Sends to each rank its part of `input`: the first `sent[0]` elements to rank 0, the next `sent[1]` to rank 1 and so on; and
    /// writes what the ranks send here to `output` in the same way, `received[r]` elements of rank r. Nothing is copied for
    /// parts without elements, but their lengths are compared.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is one count for each rank and the counts add up to the lengths; [`Error::Bootstrap`] with the mismatch
    /// if another rank of the node makes a different call; [`Error::Transfer`] if a rank sends another number than this one expects; those
    /// of [`send`](Self::send).
    #[track_caller]
    pub fn all_to_all_v<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        sent: &[usize],
        output: &mut impl DeviceMut<T>,
        received: &[usize],
    ) -> Result<(), Error> {
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        self.check_counts("the input", sent, input.len::<T>())?;
        self.check_counts("the output", received, output.len::<T>())?;
        let mut parts = self.divided::<T>(&input, sent, true);
        parts.extend(self.divided::<T>(&output, received, false));
        self.post(Kind::AllToAllV(self.communicator.element_type(T::TYPE)))?;
        self.exchange::<T>("all_to_all_v", parts)
    }

    fn check_counts(&self, what: &'static str, counts: &[usize], found: usize) -> Result<(), Error> {
        let (rank, ranks) = (self.communicator.rank(), self.communicator.num_ranks() as usize);
        let length = |what, expected, found| Error::Length { call: "all_to_all_v", rank, what, expected, found };
        if counts.len() != ranks {
            return Err(length("the list of counts", format!("{ranks}, one per rank"), counts.len()));
        }
        match counts.iter().try_fold(0_usize, |sum, count| sum.checked_add(*count)) {
            Some(total) if total == found => Ok(()),
            Some(total) => Err(length(what, format!("{total}, the sum of the counts"), found)),
            None => Err(length(what, "the sum of the counts, which exceeds the address space".into(), found)),
        }
    }

    /// Divides memory into parts of these numbers of elements, one for each rank.
    fn divided<'a, T: Element>(&self, memory: &'a Lent<'_>, counts: &[usize], is_sent: bool) -> Vec<Part<'a>> {
        let mut begin = 0;
        let part = |(peer, count): (u32, &usize)| {
            let part = memory.part::<T>(begin..begin + count);
            begin += count;
            Part { peer, is_sent, memory: part }
        };
        (0..).zip(counts).map(part).collect()
    }

    /// Makes transfers as those of a group. What a rank sends to itself is copied.
    #[track_caller]
    fn exchange<'a, T: Element>(&self, call: &'static str, mut parts: Vec<Part<'a>>) -> Result<(), Error> {
        let (rank, ranks) = (self.communicator.rank(), self.communicator.num_ranks());
        let order = |part: &Part<'_>| {
            let (from, to) = if part.is_sent { (rank, part.peer) } else { (part.peer, rank) };
            (part.peer != rank, Order::new(from, to, ranks))
        };
        parts.sort_by_key(order);
        let others = parts.split_off(parts.partition_point(|part| part.peer == rank));
        if let [one, other] = &parts[..] {
            let (from, to) = if one.is_sent { (one, other) } else { (other, one) };
            self.copy_own(&from.memory, &to.memory, T::TYPE.into())?;
        } else if let Some(part) = parts.first() {
            let name = if part.is_sent { "send" } else { "recv" };
            return Err(mismatch(rank, &(name, Some(part.memory.len::<T>()), T::TYPE.into()), None));
        }
        let _place = place::enter(Location::caller());
        let transfer = |part: Part<'a>| Transfer::new::<T>(*self, call, part.peer, part.is_sent, part.memory);
        Transfer::make_together(others.into_iter().map(transfer).collect::<Result<_, Error>>()?)
    }

    /// Enqueues the copy of what a rank sends to itself.
    pub(in crate::communicator) fn copy_own(
        &self,
        from: &Lent<'_>,
        to: &Lent<'_>,
        elements: ElementType,
    ) -> Result<(), Error> {
        let len = |memory: &Lent<'_>| memory.as_slice().bytes as usize / elements.dtype.size();
        if len(from) != len(to) {
            let (sent, received) = (("send", Some(len(from)), elements), ("recv", Some(len(to)), elements));
            return Err(mismatch(self.communicator.rank(), &received, Some(&sent)));
        }
        let none = || Error::StreamDeviceMismatch { device: "any device".into() };
        let device = self.stream.devices().next().ok_or_else(none)?;
        if from.as_slice().bytes == 0 { Ok(()) } else { self.stream.copy_lent(device, to, from) }
    }

    #[track_caller]
    fn transfer<T: Element>(
        &self,
        call: &'static str,
        peer: u32,
        is_sent: bool,
        memory: Lent<'_>,
    ) -> Result<(), Error> {
        Transfer::new::<T>(*self, call, peer, is_sent, memory)?.make_alone()
    }
}
