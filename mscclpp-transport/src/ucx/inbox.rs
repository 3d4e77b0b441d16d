//! Active messages that have arrived, until their connections take them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

use super::api::{AM_RECV_RNDV, AmRecvParam, IN_PROGRESS, OK, Status};

/// Identifies a connection in messages. Only the peer knows it.
pub(super) type Token = [u8; 16];

/// Number of bytes of an active message's header: token and number. The header of an offer has a frame and its seal in addition, and the
/// signals that follow it.
pub(super) const HEADER_BYTES: usize = size_of::<Token>() + 8;
/// Number of bytes for the frame and its seal.
pub(super) const PREFIX_BYTES: usize = crate::frame::FRAME_BYTES + mscclpp_bootstrap::SEAL_BYTES;
/// Maximum number of bytes of the signals in an offer. Few, because UCX limits a header to what its transports send at once.
pub(super) const MAX_SIGNALS_BYTES: usize = 2 * PREFIX_BYTES;
/// Maximum number of bytes of a header.
pub(super) const MAX_HEADER_BYTES: usize = HEADER_BYTES + PREFIX_BYTES + MAX_SIGNALS_BYTES;

/// Maximum number of bytes of a put that is sent before the receiver asks for it.
pub(super) const MAX_EAGER_BYTES: usize = 8 << 10;
/// Maximum number of bytes of a batch: the longest put that is sent so, and the signals that follow it.
pub(super) const MAX_BATCH_BYTES: usize = MAX_EAGER_BYTES + 8 * PREFIX_BYTES;

/// Maximum number of active messages that are sent and not consumed.
pub(super) const WINDOW: u64 = 256;

/// An active message that has arrived.
pub(super) enum Arrived {
    /// Messages with their bytes, one after the other.
    Batch(Vec<u8>),
    /// A frame and its seal, the messages that follow it, and how to receive the bytes, of which there are as many.
    Offer([u8; PREFIX_BYTES], Vec<u8>, Descriptor, usize),
}

/// `data_desc` of a rendezvous.
pub(super) struct Descriptor(pub(super) *mut c_void);

// SAFETY: as for the worker, whose message it is.
unsafe impl Send for Descriptor {}

/// Arrived messages, by the token of their connection.
#[derive(Default)]
pub(super) struct Inbox(RefCell<BTreeMap<Token, Messages>>);

/// Active messages of a connection.
#[derive(Default)]
struct Messages {
    /// Number of those that were taken.
    taken: u64,
    /// Those that follow, by their number; `None` before one that has overtaken it.
    arrived: VecDeque<Option<Arrived>>,
    /// Whether one arrived that no peer sends.
    is_invalid: bool,
}

impl Inbox {
    /// Accepts messages of a connection.
    pub(super) fn expect(&self, token: Token) {
        self.0.borrow_mut().insert(token, Messages::default());
    }

    /// Takes the next active message of a connection, if it has arrived.
    pub(super) fn take(&self, token: &Token) -> Option<Arrived> {
        let mut inbox = self.0.borrow_mut();
        let messages = inbox.get_mut(token)?;
        let arrived = messages.arrived.front_mut()?.take()?;
        messages.arrived.pop_front();
        messages.taken += 1;
        Some(arrived)
    }

    /// Returns whether a message of a connection has arrived that its peer cannot have sent.
    pub(super) fn is_invalid(&self, token: &Token) -> bool {
        self.0.borrow().get(token).is_some_and(|messages| messages.is_invalid)
    }

    /// Accepts no more messages of a connection, and returns those that were not taken.
    pub(super) fn forget(&self, token: &Token) -> impl Iterator<Item = Arrived> + use<> {
        self.0.borrow_mut().remove(token).into_iter().flat_map(|messages| messages.arrived.into_iter().flatten())
    }
}

/// Receives an active message. UCX calls it within `ucp_worker_progress`.
pub(super) extern "C" fn receive(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const AmRecvParam,
) -> Status {
    if !(HEADER_BYTES..=MAX_HEADER_BYTES).contains(&header_length) {
        return OK;
    }
    // SAFETY: `arg` is the worker's inbox, which exists as long as the worker does.
    let inbox = unsafe { &*arg.cast::<Inbox>() };
    // SAFETY: UCX passes a header of this length.
    let header = unsafe { std::slice::from_raw_parts(header.cast::<u8>(), header_length) };
    // SAFETY: UCX passes valid parameters.
    let is_rendezvous = unsafe { (*param).recv_attr } & AM_RECV_RNDV != 0;
    let (token, rest) = header.split_first_chunk().unwrap_or((&[0; _], &[]));
    let (number, rest) = rest.split_first_chunk().unwrap_or((&[0; _], &[]));
    // Not borrowed by anyone who calls UCX; a message of no connection is dropped.
    let Ok(mut messages) = inbox.0.try_borrow_mut() else { return OK };
    let Some(messages) = messages.get_mut(token) else { return OK };
    let number = u64::from_le_bytes(*number);
    let at = number.wrapping_sub(messages.taken).wrapping_sub(1);
    let is_next = at < WINDOW && messages.arrived.get(at as usize).is_none_or(Option::is_none);
    // What is not expected is kept neither here nor by UCX, so that no sender can exhaust the memory.
    let arrived = match rest.split_first_chunk() {
        _ if !is_next => None,
        Some((prefix, signals)) if is_rendezvous && length > MAX_EAGER_BYTES => {
            Some(Arrived::Offer(*prefix, signals.to_vec(), Descriptor(data), length))
        }
        None if rest.is_empty() && !is_rendezvous && (1..=MAX_BATCH_BYTES).contains(&length) => {
            // SAFETY: UCX passes data of this length.
            Some(Arrived::Batch(unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) }.to_vec()))
        }
        _ => None,
    };
    let Some(arrived) = arrived else {
        messages.is_invalid = true;
        return OK;
    };
    let at = at as usize;
    if messages.arrived.len() <= at {
        messages.arrived.resize_with(at + 1, || None);
    }
    messages.arrived[at] = Some(arrived);
    if is_rendezvous { IN_PROGRESS } else { OK }
}
