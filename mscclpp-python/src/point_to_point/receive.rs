//! Receives messages: a thread that waits for one does it for a short time, then a thread of the rank that sends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Zeroable;
use mscclpp_bootstrap::place;
use mscclpp_communicator::Communicator;
use mscclpp_core::threads;
use mscclpp_exec::Error;

use super::header::Header;
use super::{Inbox, Message, Receive};
use crate::failure::Failure;
use crate::work::{Completion, Helper};

/// Time that a thread waits for a message that no receive needs yet.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// Time for which a thread that waits for a message looks for it.
const LOOKS: Duration = Duration::from_micros(200);

/// Number of looks before the thread yields the processor.
const SPINS: u32 = 50;

/// Time between two looks of a thread of a source for receives that no thread makes.
const INTERVAL: Duration = Duration::from_millis(1);

/// Intervals without a receive after which it looks only when it is woken.
const MAX_IDLE: u32 = 20;

#[derive(Default)]
pub(crate) struct Receivers(Mutex<Inbox>);

/// The receives that a thread makes while it waits.
pub(super) enum Receiver {
    /// Of a send, or of a receive from any rank: leaves the others to their threads.
    Leaves(Arc<Receivers>),
    /// Of a receive from one rank: receives from it for a short time.
    Receives(Source),
}

impl Helper for Receiver {
    fn help(&self, completion: &Completion) {
        if completion.is_finished() {
            return;
        }
        if let Self::Receives(source) = self {
            source.receive_until(completion);
        }
        if !completion.is_finished() {
            self.leave();
        }
    }

    fn leave(&self) {
        match self {
            Self::Leaves(receivers) | Self::Receives(Source { receivers, .. }) => receivers.leave(),
        }
    }
}

/// A rank that sends.
pub(super) struct Source {
    pub(super) receivers: Arc<Receivers>,
    pub(super) comm: Communicator,
    pub(super) rank: u32,
}

impl Source {
    /// Receives from the rank until a call has ended, if its message arrives soon.
    fn receive_until(&self, completion: &Completion) {
        let Self { receivers, comm, rank } = self;
        if !receivers.lock().occupy(*rank) {
            return;
        }
        let end = Instant::now() + LOOKS;
        let mut looks = 0;
        while !completion.is_finished() {
            if comm.has_started_transfer(*rank) {
                if let Err(failure) = receivers.receive(comm, comm, *rank) {
                    receivers.fail(*rank, &failure);
                    break;
                }
            } else if looks < SPINS {
                looks += 1;
                std::hint::spin_loop();
            } else if Instant::now() < end {
                thread::yield_now();
            } else {
                break;
            }
        }
        receivers.lock().release(*rank);
    }
}

impl Receivers {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread of a rank, unless there is one. `comm`: of transfers from it.
    pub(super) fn start(self: &Arc<Self>, source: u32, comm: &Communicator) -> Result<(), Failure> {
        let mut inbox = self.lock();
        if inbox.sources.contains_key(&source) {
            return Ok(());
        }
        let (receivers, comm) = (Arc::clone(self), comm.clone());
        let thread = threads::named("mscclpp-receives");
        let thread = thread.spawn(move || receivers.serve(&comm, source));
        thread.map_err(|error| Failure::of_kind("out-of-resources", "recv", format!("no thread: {error}")))?;
        inbox.sources.entry(source).or_default();
        Ok(())
    }

    /// Leaves all receives to the threads of their ranks.
    fn leave(&self) {
        self.lock().leave();
    }

    /// Ends the threads that are not in a transfer.
    pub(super) fn close(&self) {
        let mut inbox = self.lock();
        inbox.is_closed = true;
        inbox.sources.values().for_each(|source| source.changed.notify_one());
    }

    /// Adds a receive, or ends it with a message that is kept.
    pub(super) fn post(&self, receive: Receive) {
        let mut inbox = self.lock();
        let found = inbox.kept.iter().position(|message| receive.matches(message.source, message.header.tag));
        if let Some(message) = found.and_then(|at| inbox.kept.remove(at)) {
            drop(inbox);
            return receive.deliver(&message);
        }
        let of_receive = |source: &u32| receive.source.is_none_or(|wanted| wanted == *source);
        let sources = || inbox.sources.iter().filter(|(source, _)| of_receive(source)).map(|(_, source)| source);
        if let Some(failure) = sources().find_map(|source| source.failure.clone()) {
            drop(inbox);
            return receive.finish(Err(failure));
        }
        sources()
            .filter(|source| source.is_asleep || receive.intervals_left == 0)
            .for_each(|source| source.changed.notify_one());
        inbox.posted.push_back(receive);
    }

    /// Gives a message to the first receive that it matches, or keeps it.
    pub(super) fn arrived(&self, message: Message) {
        let mut inbox = self.lock();
        match inbox.take(message.source, message.header.tag) {
            Some(receive) => {
                drop(inbox);
                receive.deliver(&message);
            }
            None => inbox.kept.push_back(message),
        }
    }

    /// Receives the messages of a rank that no thread has waited for.
    fn serve(&self, comm: &Communicator, source: u32) {
        let patient = comm.with_timeout(LONG);
        while let Some(is_named) = self.wait_until_due(source) {
            let received = self.receive(if is_named { comm } else { &patient }, comm, source);
            if let Err(failure) = received {
                return self.fail(source, &failure);
            }
            self.lock().release(source);
        }
    }

    /// Waits until the thread of a rank has to receive from it. Returns whether a receive names the rank; `None` if nothing more is to be
    /// received.
    fn wait_until_due(&self, source: u32) -> Option<bool> {
        let mut inbox = self.lock();
        let changed = Arc::clone(&inbox.sources.get(&source)?.changed);
        let mut idle = 0;
        loop {
            if inbox.is_closed {
                let failure = Failure::of_kind("invalid-input", "recv", "the process group was destroyed".into());
                drop(inbox);
                self.fail(source, &failure);
                return None;
            }
            if inbox.sources.get(&source)?.failure.is_some() {
                return None;
            }
            if inbox.wanted(source).any(|receive| receive.intervals_left == 0) && inbox.occupy(source) {
                return Some(inbox.wanted(source).any(|receive| receive.source.is_some()));
            }
            idle = if inbox.wanted(source).next().is_some() { 0 } else { idle + 1 };
            if idle > MAX_IDLE {
                inbox.sources.get_mut(&source)?.is_asleep = true;
                inbox = changed.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                inbox.sources.get_mut(&source)?.is_asleep = false;
                idle = 0;
            } else {
                let waited = changed.wait_timeout(inbox, INTERVAL).unwrap_or_else(PoisonError::into_inner);
                inbox = waited.0;
                if waited.1.timed_out() {
                    inbox
                        .wanted(source)
                        .for_each(|receive| receive.intervals_left = receive.intervals_left.saturating_sub(1));
                }
            }
        }
    }

    /// Receives a message of a rank. `patient`: the handle that waits for it.
    fn receive(&self, patient: &Communicator, comm: &Communicator, source: u32) -> Result<(), Failure> {
        // Messages would state lines of this library.
        let _name = place::enter_name("recv");
        let on_rank = |failure: Failure| failure.on(comm.rank(), "recv");
        let mut header = Header::zeroed();
        let received = patient.recv::<u8>(bytemuck::bytes_of_mut(&mut header), source);
        received.map_err(|error| on_rank(error.into()))?;
        let receive = {
            let mut inbox = self.lock();
            // The first match decides, also where its type or length is another one.
            let found = inbox.posted.iter().find(|receive| receive.matches(source, header.tag));
            let fits = found.is_some_and(|receive| receive.expected() == header);
            if fits { inbox.take(source, header.tag) } else { None }
        };
        let Some(receive) = receive else { return self.keep(comm, source, header).map_err(on_rank) };
        let received = match header.bytes {
            0 => Ok(()),
            // SAFETY: the tensor is kept with the receive, and Python does not access it until the call has ended.
            _ => comm.recv::<u8>(unsafe { receive.view.slice_mut() }, source).map_err(|error| on_rank(error.into())),
        };
        receive.finish(received.clone().map(|()| source));
        received
    }

    /// Receives a message into memory of its own.
    fn keep(&self, comm: &Communicator, source: u32, header: Header) -> Result<(), Failure> {
        let bytes = header.bytes;
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut data = Vec::new();
        let no_memory = |_| Error::ReceiveMemory { call: "recv", rank: comm.rank(), count: bytes, bytes: 1 };
        data.try_reserve_exact(len).map_err(no_memory)?;
        data.resize(len, 0);
        if len > 0 {
            comm.recv::<u8>(&mut data, source)?;
        }
        self.arrived(Message { source, header, data });
        Ok(())
    }

    /// Ends all receives that wait for a rank.
    fn fail(&self, source: u32, failure: &Failure) {
        let mut inbox = self.lock();
        if let Some(source) = inbox.sources.get_mut(&source) {
            source.failure = Some(failure.clone());
            source.changed.notify_one();
        }
        let (failed, rest) = std::mem::take(&mut inbox.posted)
            .into_iter()
            .partition(|receive: &Receive| receive.source.is_none_or(|wanted| wanted == source));
        inbox.posted = rest;
        drop(inbox);
        failed.into_iter().for_each(|receive: Receive| receive.finish(Err(failure.clone())));
    }
}
