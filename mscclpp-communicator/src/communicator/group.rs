//! Calls that are made together.

use std::collections::VecDeque;
use std::panic::Location;

use mscclpp_bootstrap::place;

#[cfg(feature = "cuda")]
use super::device::{OnStream, Transfer};
use super::handle::Communicator;
use mscclpp_base::dtype::{Element, ElementType};
use mscclpp_base::error::Error;
#[cfg(feature = "cuda")]
use mscclpp_exec::cuda::{DeviceMut, DeviceRef, Lent, Stream};

/// Calls that are made together, in an order in which ranks do not wait for each other in a cycle: for ranks that exchange data,
/// and for several communicators, also of different jobs.
///
/// ```
/// use mscclpp_communicator::{Communicator, Group};
/// use mscclpp_exec::Error;
///
/// /// Passes `own` to the next rank and returns what the one before passes here.
/// fn pass_on(comm: &Communicator, own: &[f32]) -> Result<Vec<f32>, Error> {
///     let (rank, ranks) = (comm.rank(), comm.num_ranks());
///     let mut received = vec![0.0; own.len()];
///     let mut group = Group::new();
///     group.send(comm, own, (rank + 1) % ranks);
///     group.recv(comm, &mut received, (rank + ranks - 1) % ranks);
///     group.run()?;
///     Ok(received)
/// }
/// # std::thread::scope(|scope| {
/// #     for comm in Communicator::local(3).expect("three ranks") {
/// #         scope.spawn(move || {
/// #             let before = (comm.rank() + 2) % 3;
/// #             assert_eq!(pass_on(&comm, &[comm.rank() as f32; 5]).expect("all ranks"), [before as f32; 5]);
/// #         });
/// #     }
/// # });
/// ```
///
/// # Ordering
/// Calls of one communicator precede its transfers, in the order in which they were added. The transfers from one rank to another
/// are made in the order in which they were added on both. Otherwise the order is that of communicators and ranks.
#[derive(Default)]
#[must_use = "the calls are made by `run`"]
pub struct Group<'a> {
    calls: Vec<Grouped<'a>>,
    own: Vec<OwnPart<'a>>,
    /// Error of the first transfer with a rank that does not exist; no call is made then.
    invalid: Option<Error>,
}

struct Grouped<'a> {
    position: Position,
    place: &'static Location<'static>,
    /// What messages state as the place instead.
    name: Option<&'static str>,
    run: Run<'a>,
}

enum Run<'a> {
    Call(Box<dyn FnOnce() -> Result<(), Error> + 'a>),
    /// A transfer on a device, which is made with the next ones.
    #[cfg(feature = "cuda")]
    OnDevice(Box<dyn FnOnce() -> Result<Transfer<'a>, Error> + 'a>),
}

/// Lets messages name a call while the result exists.
fn enter(place: &'static Location<'static>, name: Option<&'static str>) -> (place::At, Option<place::Named>) {
    (place::enter(place), name.map(place::enter_name))
}

#[cfg(feature = "cuda")]
impl<'a> Grouped<'a> {
    /// Lends the memory of a transfer on a device.
    fn lend(self) -> Option<Result<Transfer<'a>, Error>> {
        let _entered = enter(self.place, self.name);
        match self.run {
            Run::OnDevice(transfer) => Some(transfer()),
            Run::Call(_) => None,
        }
    }
}

/// What distinguishes a communicator from all others: communicators of several jobs may be in one group.
type Identity = (u64, u128);

/// Where a call is among those of a group, the same on all ranks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    communicator: Identity,
    transfer: Option<Order>,
    number: usize,
}

/// Where a transfer between two ranks is among others. At each time those of one round are possible at once, because they have no rank in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Order {
    round: u32,
    low: u32,
    high: u32,
    is_from_high: bool,
}

impl Order {
    pub(super) fn new(from: u32, to: u32, num_ranks: u32) -> Self {
        let (low, high) = (from.min(to), from.max(to));
        let round = ((u64::from(low) + u64::from(high)) % u64::from(num_ranks.max(1))) as u32;
        Self { round, low, high, is_from_high: from == high }
    }
}

/// Data that a rank sends to itself, or memory for it.
struct OwnPart<'a> {
    communicator: Identity,
    rank: u32,
    elements: ElementType,
    /// Number of elements; of device memory known when it is lent.
    len: Option<usize>,
    memory: OwnMemory<'a>,
}

enum OwnMemory<'a> {
    Sent(&'a [u8]),
    Received(&'a mut [u8]),
    #[cfg(feature = "cuda")]
    SentOn(OnStream<'a>, Lend<'a>),
    #[cfg(feature = "cuda")]
    ReceivedOn(OnStream<'a>, Lend<'a>),
}

/// Lends device memory to a stream.
#[cfg(feature = "cuda")]
type Lend<'a> = Box<dyn FnOnce(&Stream) -> Result<Lent<'a>, Error> + 'a>;

impl<'a> Group<'a> {
    /// Creates a group without calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a call of all ranks of a communicator:
    /// `group.call(&comm, |comm| comm.all_reduce(&input, &mut output, ReduceOp::Sum))`.
    #[track_caller]
    pub fn call(&mut self, comm: &'a Communicator, call: impl FnOnce(&Communicator) -> Result<(), Error> + 'a) {
        self.add(comm, None, Run::Call(Box::new(move || call(comm))));
    }

    /// Adds a [`Communicator::send`]. `peer` may be this rank.
    #[track_caller]
    pub fn send<T: Element>(&mut self, comm: &'a Communicator, data: &'a [T], peer: u32) {
        let rank = comm.rank();
        if peer == rank {
            return self.add_own::<T>(comm, Some(data.len()), OwnMemory::Sent(bytemuck::cast_slice(data)));
        }
        self.add_transfer(comm, true, peer, Run::Call(Box::new(move || comm.send(data, peer))));
    }

    /// Adds a [`Communicator::recv`]. `peer` may be this rank.
    #[track_caller]
    pub fn recv<T: Element>(&mut self, comm: &'a Communicator, data: &'a mut [T], peer: u32) {
        let rank = comm.rank();
        if peer == rank {
            return self.add_own::<T>(comm, Some(data.len()), OwnMemory::Received(bytemuck::cast_slice_mut(data)));
        }
        self.add_transfer(comm, false, peer, Run::Call(Box::new(move || comm.recv(data, peer))));
    }

    #[track_caller]
    fn add_transfer(&mut self, comm: &Communicator, is_sent: bool, peer: u32, run: Run<'a>) {
        let (rank, num_ranks) = (comm.rank(), comm.num_ranks());
        let (call, from, to) = if is_sent { ("send", rank, peer) } else { ("recv", peer, rank) };
        if peer >= num_ranks {
            self.invalid.get_or_insert(Error::Peer { call, rank, peer, num_ranks });
            return;
        }
        self.add(comm, Some(Order::new(from, to, num_ranks)), run);
    }

    #[track_caller]
    fn add(&mut self, comm: &Communicator, transfer: Option<Order>, run: Run<'a>) {
        let position = Position { communicator: comm.bootstrap().identity(), transfer, number: self.calls.len() };
        self.calls.push(Grouped { position, place: Location::caller(), name: place::name(), run });
    }

    fn add_own<T: Element>(&mut self, comm: &Communicator, len: Option<usize>, memory: OwnMemory<'a>) {
        let (communicator, rank) = (comm.bootstrap().identity(), comm.rank());
        self.own.push(OwnPart { communicator, rank, elements: comm.element_type(T::TYPE), len, memory });
    }

    /// Makes the calls. Returns the first error; later calls are not made then.
    ///
    /// # Errors
    /// Those of the calls; [`Error::OwnTransfer`] if what a rank sends to itself is not what it receives from itself.
    pub fn run(mut self) -> Result<(), Error> {
        if let Some(error) = self.invalid {
            return Err(error);
        }
        copy_own(self.own)?;
        self.calls.sort_by_key(|call| call.position);
        let mut calls = VecDeque::from(self.calls);
        while let Some(call) = calls.pop_front() {
            match call.run {
                Run::Call(run) => {
                    let _entered = enter(call.place, call.name);
                    run()?;
                }
                #[cfg(feature = "cuda")]
                Run::OnDevice(_) => {
                    let communicator = call.position.communicator;
                    let mut transfers = Vec::from_iter(call.lend().transpose()?);
                    let is_next = |next: &Grouped<'_>| {
                        next.position.communicator == communicator && matches!(next.run, Run::OnDevice(_))
                    };
                    while calls.front().is_some_and(is_next) {
                        transfers.extend(calls.pop_front().and_then(Grouped::lend).transpose()?);
                    }
                    Transfer::make_together(transfers)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(feature = "cuda")]
impl<'a> Group<'a> {
    /// Adds an [`OnStream::send`]. `peer` may be this rank.
    #[track_caller]
    pub fn send_on<T: Element>(&mut self, on: OnStream<'a>, data: &'a impl DeviceRef<T>, peer: u32) {
        let comm = on.communicator();
        if peer == comm.rank() {
            return self.add_own::<T>(comm, None, OwnMemory::SentOn(on, Box::new(|stream| data.lend(stream))));
        }
        let run = Run::OnDevice(Box::new(move || Transfer::new::<T>(on, "send", peer, true, data.lend(on.stream())?)));
        self.add_transfer(comm, true, peer, run);
    }

    /// Adds an [`OnStream::recv`]. `peer` may be this rank.
    #[track_caller]
    pub fn recv_on<T: Element>(&mut self, on: OnStream<'a>, data: &'a mut impl DeviceMut<T>, peer: u32) {
        let comm = on.communicator();
        if peer == comm.rank() {
            let lend: Lend<'a> = Box::new(|stream| data.lend_mut(stream));
            return self.add_own::<T>(comm, None, OwnMemory::ReceivedOn(on, lend));
        }
        let run =
            Run::OnDevice(Box::new(move || Transfer::new::<T>(on, "recv", peer, false, data.lend_mut(on.stream())?)));
        self.add_transfer(comm, false, peer, run);
    }
}

impl OwnPart<'_> {
    fn is_sent(&self) -> bool {
        match self.memory {
            OwnMemory::Sent(_) => true,
            OwnMemory::Received(_) => false,
            #[cfg(feature = "cuda")]
            OwnMemory::SentOn(..) => true,
            #[cfg(feature = "cuda")]
            OwnMemory::ReceivedOn(..) => false,
        }
    }

    fn side(&self) -> Side {
        (if self.is_sent() { "send" } else { "recv" }, self.len, self.elements)
    }
}

/// One side of a transfer: its call, its number of elements if it is known, and their type.
pub(super) type Side = (&'static str, Option<usize>, ElementType);

/// Returns the error for two sides that differ.
pub(super) fn mismatch(rank: u32, first: &Side, second: Option<&Side>) -> Error {
    let describe = |(call, len, elements): &Side| {
        let len = len.map_or_else(|| "any number of".to_owned(), |len| len.to_string());
        format!("{call} of {len} {elements}")
    };
    let second = second.map_or_else(|| "no other call".to_owned(), describe);
    Error::OwnTransfer { rank, first: describe(first), second }
}

/// Copies what ranks send to themselves: of each communicator the first part to the first memory, and so on.
fn copy_own(parts: Vec<OwnPart<'_>>) -> Result<(), Error> {
    let (mut sent, received): (Vec<_>, Vec<_>) = parts.into_iter().partition(OwnPart::is_sent);
    for to in received {
        let from = sent.iter().position(|from| from.communicator == to.communicator).map(|at| sent.remove(at));
        let (rank, found) = (to.rank, to.side());
        let other = from.as_ref().map(OwnPart::side);
        let mismatch = || mismatch(rank, &found, other.as_ref());
        let Some(from) = from.filter(|from| from.elements == to.elements) else { return Err(mismatch()) };
        match (from.memory, to.memory) {
            (OwnMemory::Sent(from), OwnMemory::Received(to)) if from.len() == to.len() => to.copy_from_slice(from),
            #[cfg(feature = "cuda")]
            (OwnMemory::SentOn(sender, from), OwnMemory::ReceivedOn(receiver, to)) => {
                let (from, to) = (from(sender.stream())?, to(receiver.stream())?);
                receiver.stream().wait_for(&sender.stream().untimed_event()?)?;
                receiver.copy_own(&from, &to, found.2)?;
                sender.stream().wait_for(&receiver.stream().untimed_event()?)?;
            }
            _ => return Err(mismatch()),
        }
    }
    sent.first().map_or(Ok(()), |part| Err(mismatch(part.rank, &part.side(), None)))
}
