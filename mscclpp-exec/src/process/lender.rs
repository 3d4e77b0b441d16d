//! Buffers that a launch passes to its peers: where these access them, and copies of short ones.

use std::sync::Weak;

use super::buffer::Shared;
use super::calls::{BufferArgs, RING};
use super::plan::PlanState;
use super::session::Session;
use mscclpp_base::error::Error;
use mscclpp_base::memory::Loan;
use mscclpp_base::passes::place_in_caller_memory::SLOTS;

/// Detaches written buffers from peers, and from the engine between nodes, when a launch ends before they have finished with them, by an
/// error or a panic.
pub(super) struct Revoke<'l> {
    /// By slot: the allocation of the passed slice, and where the slice is, if they access it.
    pub(super) last: &'l [Weak<Shared>; SLOTS],
    pub(super) regions: &'l [Option<(u64, u64)>; SLOTS],
    pub(super) written: [bool; SLOTS],
    pub(super) lens: [u64; SLOTS],
}

impl Drop for Revoke<'_> {
    #[cold]
    fn drop(&mut self) {
        for (slot, shared) in self.last.iter().enumerate().filter(|(slot, _)| self.written[*slot]) {
            let (Some((number, at)), Some(shared)) = (self.regions[slot], shared.upgrade()) else { continue };
            if shared.number != number {
                continue;
            }
            if let Err(error) = shared.own.replace_pages(at..at + self.lens[slot]) {
                // Otherwise the caller would get back memory to which peers may still write.
                log::error!("{error}");
                std::process::abort();
            }
        }
    }
}

/// Maximum bytes of a short slice, which is copied for peers to read. One ring entry has two of them.
pub(super) const MAX_SHORT_BYTES: u64 = 1 << 16;

/// Maximum bytes of a registered slice that is copied although it is registered, because waiting until peers have read it takes
/// longer.
const MAX_COPIED_BYTES: u64 = 1 << 12;

/// Maximum bytes of such a slice if the ranks are oversubscribed, where a wait yields the processor to other ranks.
const MAX_COPIED_BYTES_OVERSUBSCRIBED: u64 = 1 << 14;

/// Bytes of the ring of a rank.
pub(super) const RING_BYTES: u64 = RING * SLOTS as u64 * MAX_SHORT_BYTES;

/// Returns where the copy of a call's slot is in the ring.
pub(super) fn ring_entry(call: u64, slot: usize) -> u64 {
    (call % RING * SLOTS as u64 + slot as u64) * MAX_SHORT_BYTES
}

/// Buffers that a launch passes to the peers.
pub(super) struct Lender {
    pub(super) buffer_args: BufferArgs,
    /// By slot: whether peers access a copy.
    pub(super) copies: [bool; SLOTS],
    /// By slot: the number of the allocation in which others access the slice itself, and its offset there.
    pub(super) regions: [Option<(u64, u64)>; SLOTS],
    /// Whether all memory that peers access stays valid after the launch, so that the launch need not wait for them.
    pub(super) lasting: bool,
}

impl Lender {
    #[inline]
    pub(super) fn new(
        session: &mut Session,
        context: &PlanState,
        last: &mut [Weak<Shared>; SLOTS],
        loans: &[Loan<'_>; SLOTS],
        number: u64,
    ) -> Result<Self, Error> {
        let placement = &context.placement;
        let mut lender = Self {
            buffer_args: BufferArgs::default(),
            copies: [false; SLOTS],
            regions: [None; SLOTS],
            lasting: context.is_read_only,
        };
        let uses_regions = context.has_messages() && session.connections.uses_regions();
        let ring = session.ring.as_ref().map(|ring| ring.number).filter(|_| context.is_read_only);
        let registered = if session.oversubscribed { MAX_COPIED_BYTES_OVERSUBSCRIBED } else { MAX_COPIED_BYTES };
        for (slot, loan) in loans.iter().enumerate() {
            let len = loan.bytes().len() as u64;
            if len == 0 {
                continue;
            }
            if !placement.peers_access[slot] {
                if uses_regions {
                    lender.regions[slot] = session.region(&mut last[slot], loan);
                }
                continue;
            }
            let ring = ring.filter(|_| len <= MAX_SHORT_BYTES);
            let region = if len <= registered && ring.is_some() { None } else { session.region(&mut last[slot], loan) };
            if let Some(region) = region {
                lender.buffer_args.0[slot] = region;
                lender.regions[slot] = Some(region);
                lender.lasting = false;
            } else if let Some(ring) = ring {
                lender.buffer_args.0[slot] = (ring, ring_entry(number, slot));
                lender.copies[slot] = true;
            } else if let Some(staging) = &session.staging[slot] {
                lender.buffer_args.0[slot] = (staging.number, 0);
                // A failure fails the communicator: peers have started the launch that needs the pages.
                staging.reserve(len).map_err(|error| session.abort(error))?;
                lender.copies[slot] = true;
                lender.lasting = false;
            }
        }
        Ok(lender)
    }
}
