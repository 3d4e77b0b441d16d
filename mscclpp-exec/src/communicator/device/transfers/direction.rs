//! One transfer between two ranks on device memory.

use std::panic::Location;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::place;

use super::super::OnStream;
use super::super::launch::Memory;
use super::lane;
use crate::communicator::Communicator;
use crate::communicator::point_to_point::Sequence;
use crate::cuda::{Lent, Stream};
use crate::dtype::{DataType, Element};
use crate::error::{Error, ErrorKind};
use crate::select::Request;

/// Interval after which a call is repeated that another thread has excluded, which checks for failures.
const RETRY_INTERVAL: Duration = Duration::from_micros(50);

/// A transfer on memory that a stream lends.
pub(in crate::communicator) struct Transfer<'a> {
    pub(super) direction: Direction,
    pub(super) stream: &'a Stream,
    pub(super) memory: Lent<'a>,
}

/// From where to where a transfer goes, in which call.
pub(super) struct Direction {
    communicator: Communicator,
    call: &'static str,
    peer: u32,
    pub(super) is_sent: bool,
    dtype: DataType,
    place: &'static Location<'static>,
    /// What messages state as the place instead.
    name: Option<&'static str>,
}

impl<'a> Transfer<'a> {
    /// Returns a transfer with another rank.
    ///
    /// # Errors
    /// [`Error::Peer`].
    #[track_caller]
    pub(in crate::communicator) fn new<T: Element>(
        on: OnStream<'a>,
        call: &'static str,
        peer: u32,
        is_sent: bool,
        memory: Lent<'a>,
    ) -> Result<Self, Error> {
        on.communicator.check_peer(call, peer)?;
        let (communicator, place, name) = (on.communicator.clone(), place::current(Location::caller()), place::name());
        let direction = Direction { communicator, call, peer, is_sent, dtype: T::TYPE, place, name };
        Ok(Self { direction, stream: on.stream, memory })
    }

    /// Makes transfers of one communicator, in an order in which no transfer waits for another one of them.
    ///
    /// # Errors
    /// As [`OnStream::send`].
    pub(in crate::communicator) fn make_together(transfers: Vec<Self>) -> Result<(), Error> {
        let Some(first) = transfers.first() else { return Ok(()) };
        let communicator = first.direction.communicator.clone();
        communicator.wait_for_started();
        lane::make_together(&communicator.inner.lanes, transfers)
    }

    /// Makes a transfer that is in no group.
    ///
    /// # Errors
    /// As [`OnStream::send`].
    pub(super) fn make_alone(self) -> Result<(), Error> {
        let communicator = self.direction.communicator.clone();
        communicator.wait_for_started();
        lane::make_alone(&communicator.inner.lanes, self)
    }

    /// Returns whether the ranks have made a transfer of this size before, so that a launch waits for no rank on the host.
    pub(super) fn is_prepared(&self) -> bool {
        let Direction { communicator, peer, is_sent, .. } = &self.direction;
        let Some(pair) = communicator.known_pair(*peer, Sequence::on_device(*is_sent)) else { return false };
        let Ok(calls) = pair.calls() else { return false };
        calls.devices.is_prepared(&self.direction.request(&pair, &self.memory))
    }

    /// Enqueues the transfer on its stream. Waits for the other rank if it is not prepared.
    pub(super) fn enqueue(&self) -> Result<(), Error> {
        // Later transfers on other streams must not follow waits of this stream for them.
        self.direction.enqueue(&self.stream.borrowed(), &self.memory)
    }
}

impl Direction {
    /// Returns what distinguishes the sequence of transfers from others of the communicator.
    pub(super) fn key(&self) -> (u32, bool) {
        (self.peer, self.is_sent)
    }

    fn request(&self, pair: &Communicator, memory: &Lent<'_>) -> Request {
        let from = if self.is_sent { pair.rank() } else { 1 - pair.rank() };
        pair.transfer_request(self.dtype, memory.as_slice().bytes, from)
    }

    /// Enqueues a transfer of memory on a stream. Waits for the other rank if it is not prepared.
    pub(super) fn enqueue(&self, stream: &Stream, memory: &Lent<'_>) -> Result<(), Error> {
        let (_place, _name) = (place::enter(self.place), self.name.map(place::enter_name));
        self.communicator.transfer(self.call, self.peer, Sequence::on_device(self.is_sent), |pair| {
            let memory = Memory { input: None, output: memory };
            loop {
                match pair.on(stream).serve(self.request(pair, memory.output), memory) {
                    // The transfers of a direction are made one after the other; another thread checks for failures.
                    Err(error) if error.kind() == ErrorKind::Busy => thread::sleep(RETRY_INTERVAL),
                    made => return made,
                }
            }
        })
    }
}
