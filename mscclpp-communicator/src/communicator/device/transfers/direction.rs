//! One transfer between two ranks on device memory.

use std::panic::Location;
use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::{ActiveTimeout, place};

use super::super::OnStream;
use super::super::launch::Memory;
use super::lane;
use crate::communicator::Communicator;
use crate::communicator::point_to_point::Sequence;
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::{Error, ErrorKind};
use mscclpp_exec::cuda::{Lent, Stream};
use mscclpp_select::Request;

/// Interval after which a call is repeated that another thread has excluded.
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
        let (communicator, _current) = (first.direction.communicator.clone(), first.stream.enter()?);
        communicator.wait_for_started();
        lane::make_together(&communicator, transfers)
    }

    /// Makes a transfer that is in no group.
    ///
    /// # Errors
    /// As [`OnStream::send`].
    pub(super) fn make_alone(self) -> Result<(), Error> {
        let (communicator, _current) = (self.direction.communicator.clone(), self.stream.enter()?);
        communicator.wait_for_started();
        lane::make_alone(&communicator, self)
    }

    /// Returns whether the ranks have made a transfer of this size before, so that a launch waits for no rank on the host.
    pub(super) fn is_prepared(&self) -> bool {
        let Direction { communicator, peer, is_sent, .. } = &self.direction;
        let Some(pair) = communicator.known_pair(*peer, Sequence::on_device(*is_sent)) else { return false };
        let Ok(calls) = pair.calls() else { return false };
        let request = self.direction.request(&pair, &self.memory);
        calls.devices.is_prepared(calls.forced.variant(&request), &request)
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
            let call = || pair.on(stream).serve(self.request(pair, memory.output), memory);
            let check = || Ok(pair.bootstrap().check_alive()?);
            repeat_while_busy(pair.rank(), pair.timeout(), check, call)
        })
    }
}

impl Direction {
    /// Ends the transfers with the other rank after a failure of this one: that rank would wait for a transfer that is not made.
    pub(super) fn abort(&self, error: &Error) {
        let Self { communicator, call, peer, .. } = self;
        // Without a pair, the communicator has failed. Most failures of calls of the two ranks have ended them.
        _ = communicator.transfer(call, *peer, Sequence::on_device(self.is_sent), |pair| {
            if pair.bootstrap().check_alive().is_ok() {
                pair.bootstrap().abort(&error.to_string());
            }
            Ok(())
        });
    }
}

/// Makes a call of a rank until no other thread excludes it: one that checks for failures, or makes an earlier transfer of the direction.
///
/// # Errors
/// Those of `call` and `check`; [`Error::BusyTimeout`].
fn repeat_while_busy(
    rank: u32,
    timeout: Duration,
    mut check: impl FnMut() -> Result<(), Error>,
    mut call: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let mut expiry = ActiveTimeout::new(timeout);
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Busy => {}
            made => return made,
        }
        check()?;
        if expiry.is_expired() {
            return Err(Error::BusyTimeout { rank, waited: timeout });
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn call_that_stays_busy_ends_with_the_timeout() {
        let waited = Duration::from_millis(20);
        let error = repeat_while_busy(1, waited, || Ok(()), || Err(Error::Busy)).expect_err("it stays busy");
        assert_eq!((&error, error.kind()), (&Error::BusyTimeout { rank: 1, waited }, ErrorKind::Timeout));
        assert_eq!((error.rank(), error.root_cause().map(|cause| cause.rank)), (Some(1), Some(1)));
        assert!(error.to_string().contains("another thread of rank 1"), "{error}");
    }

    #[test]
    fn busy_call_ends_when_the_communicator_fails() {
        let mut checks = 0;
        let failed = || Error::RankLost { peer: 0, reason: "it died".into() };
        let check = || {
            checks += 1;
            if checks < 3 { Ok(()) } else { Err(failed()) }
        };
        assert_eq!(repeat_while_busy(1, LONG, check, || Err(Error::Busy)), Err(failed()));
        assert_eq!(checks, 3);
    }

    #[test]
    fn call_is_repeated_until_it_is_not_busy() {
        let mut calls = 0;
        let call = || {
            calls += 1;
            if calls < 4 { Err(Error::Busy) } else { Ok(()) }
        };
        assert_eq!(repeat_while_busy(1, LONG, || Ok(()), call), Ok(()));
        assert_eq!(calls, 4);
    }
}
