//! Shared-memory call log: every rank of a node writes its own cache lines and reads those of its peers.
//!
//! A rank numbers its calls from 1 and records each in a ring of lines. No rank is more than [`AHEAD`] calls ahead of
//! the last call that its slowest peer has started, so no line is overwritten that a peer has yet to compare.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence, fence};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

use mscclpp_base::shm::SharedCacheLines;
use mscclpp_bootstrap as bootstrap;

/// Number of calls whose lines are kept.
pub(super) const RING: u64 = 8;

/// Maximum number of calls that a rank may be ahead of a peer.
pub(super) const AHEAD: u64 = RING / 2;

/// Lines of a rank: the ring, then one line for each of the following, then the cause of an abort. After the lines of all
/// ranks there is one that shows whether any rank has aborted.
const LINES: usize = CAUSE + CAUSE_LINES;
const FINISHED: usize = RING as usize;
const FUTEX: usize = FINISHED + 1;
const STATE: usize = FINISHED + 2;
const CAUSE: usize = FINISHED + 3;
const CAUSE_LINES: usize = 32;

/// Words of the line `STATE`.
const IS_PARKED: usize = 0;
const ABORTED_IN: usize = 1;
const LEFT_AFTER: usize = 2;

/// Buffers that a rank passes to a call: per slot, the number of the allocation and the first byte in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferArgs(pub(super) [(u64, u64); 2]);

/// Value of the futex word when the rank announced that it is about to sleep.
pub(super) struct ParkToken(u32);

/// Lines of all ranks of a node. The ranks of a node are addressed by local rank, their index among them.
pub(super) struct Calls {
    cache_lines: SharedCacheLines,
    /// This rank's local rank.
    own_local_rank: usize,
    ranks: usize,
}

impl Calls {
    /// Returns the size of the segment for a number of ranks, in bytes.
    pub(super) fn bytes(ranks: usize) -> u64 {
        SharedCacheLines::bytes(ranks * LINES + 1)
    }

    pub(super) fn new(cache_lines: SharedCacheLines, own_local_rank: usize, ranks: usize) -> Self {
        Self { cache_lines, own_local_rank, ranks }
    }

    fn line(&self, local_rank: usize, line: usize) -> &[AtomicU64; 8] {
        self.cache_lines.line(local_rank * LINES + line)
    }

    /// Records that this rank starts a call.
    #[inline]
    pub(super) fn begin(&self, number: u64, id: u64, buffers: &BufferArgs) {
        let line = self.line(self.own_local_rank, (number % RING) as usize);
        line[1].store(id, Relaxed);
        for (i, (buffer, at)) in buffers.0.into_iter().enumerate() {
            line[2 + 2 * i].store(buffer, Relaxed);
            line[3 + 2 * i].store(at, Relaxed);
        }
        line[0].store(number, Release);
    }

    /// Returns the id and buffers of call `number` of a rank; `None` if the rank has not started it.
    #[inline]
    pub(super) fn begun(&self, local_rank: usize, number: u64) -> Option<(u64, BufferArgs)> {
        let line = self.line(local_rank, (number % RING) as usize);
        (line[0].load(Acquire) == number).then(|| {
            let word = |i: usize| line[i].load(Relaxed);
            (word(1), BufferArgs([(word(2), word(3)), (word(4), word(5))]))
        })
    }

    /// Records that this rank accesses no peer's buffers any more in calls up to this one.
    #[inline]
    pub(super) fn finish(&self, number: u64) {
        self.line(self.own_local_rank, FINISHED)[0].store(number, Release);
    }

    /// Returns whether a rank has finished a call.
    #[inline]
    pub(super) fn is_finished(&self, local_rank: usize, number: u64) -> bool {
        self.line(local_rank, FINISHED)[0].load(Acquire) >= number
    }

    /// Records that this rank has aborted, in which call it noticed, and the communicator's failure if that is the
    /// cause; wakes all peers. Only the first record counts.
    pub(super) fn abort(&self, number: u64, cause: Option<&bootstrap::Error>) {
        if self.has_aborted(self.own_local_rank) {
            return;
        }
        // A cause that is too long is omitted: peers then know only that this rank has aborted.
        if let Some(cause) = cause.and_then(|cause| postcard::to_allocvec(cause).ok())
            && cause.len() < 64 * CAUSE_LINES - 2
        {
            self.write(CAUSE, CAUSE_LINES, &[&(cause.len() as u16).to_le_bytes(), cause.as_slice()].concat());
        }
        self.line(self.own_local_rank, STATE)[ABORTED_IN].store(number.max(1), Release);
        self.cache_lines.line(self.ranks * LINES)[0].store(1, Release);
        self.unpark_peers(true);
    }

    /// Returns whether any rank has aborted.
    #[inline]
    pub(super) fn any_aborted(&self) -> bool {
        self.cache_lines.line(self.ranks * LINES)[0].load(Acquire) != 0
    }

    /// Returns a peer that has aborted.
    pub(super) fn find_aborted(&self) -> Option<usize> {
        (0..self.ranks).find(|&local_rank| local_rank != self.own_local_rank && self.has_aborted(local_rank))
    }

    /// Returns why the communicator has failed, as recorded by a peer that aborted because of it.
    pub(super) fn find_cause(&self) -> Option<bootstrap::Error> {
        let peers =
            (0..self.ranks).filter(|&local_rank| local_rank != self.own_local_rank && self.has_aborted(local_rank));
        peers.into_iter().find_map(|local_rank| {
            let bytes = self.read(local_rank, CAUSE, CAUSE_LINES);
            let (len, bytes) = bytes.split_first_chunk()?;
            // A length of zero means that there is no cause; no error is encoded in zero bytes.
            postcard::from_bytes(bytes.get(..usize::from(u16::from_le_bytes(*len)))?).ok()
        })
    }

    /// Returns whether a rank has aborted.
    pub(super) fn has_aborted(&self, local_rank: usize) -> bool {
        self.line(local_rank, STATE)[ABORTED_IN].load(Acquire) != 0
    }

    /// Records that this rank leaves, and after which call.
    pub(super) fn leave(&self, number: u64) {
        self.line(self.own_local_rank, STATE)[LEFT_AFTER].store(number + 1, Release);
    }

    /// Returns the last call that a rank had finished when it left in order, if it has left.
    pub(super) fn left_after(&self, local_rank: usize) -> Option<u64> {
        self.line(local_rank, STATE)[LEFT_AFTER].load(Acquire).checked_sub(1)
    }

    /// Returns whether a rank has left after a call that it had finished.
    pub(super) fn has_left_after(&self, local_rank: usize, number: u64) -> bool {
        self.left_after(local_rank).is_some_and(|last| last >= number)
    }

    /// Writes as many bytes as fit into some of this rank's lines, and zeros after them.
    fn write(&self, first: usize, lines: usize, bytes: &[u8]) {
        let mut words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        for word in (first..first + lines).flat_map(|line| self.line(self.own_local_rank, line)) {
            word.store(words.next().unwrap_or(0), Relaxed);
        }
    }

    /// Returns the bytes in some lines of a rank.
    fn read(&self, local_rank: usize, first: usize, lines: usize) -> Vec<u8> {
        let words = (first..first + lines).flat_map(|line| self.line(local_rank, line));
        words.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    /// Wakes sleeping peers after a change for which they may wait; wakes all peers if `wake_all`.
    #[inline]
    pub(super) fn unpark_peers(&self, wake_all: bool) {
        // A fence would wait until the lines written before are visible. Without one, this may miss a peer that parks
        // within the same hundred nanoseconds. That peer then sleeps until its park interval is over, and observes the
        // change.
        compiler_fence(SeqCst);
        for local_rank in (0..self.ranks).filter(|&local_rank| local_rank != self.own_local_rank) {
            if wake_all || self.line(local_rank, STATE)[IS_PARKED].load(Relaxed) != 0 {
                let word = self.cache_lines.futex_word(local_rank * LINES + FUTEX);
                word.fetch_add(1, Release);
                // If the wake fails, the peer wakes after its park interval.
                let _ = futex::wake(word, futex::Flags::empty(), u32::MAX);
            }
        }
    }

    /// Announces that this rank is about to sleep: from now on peers wake it. The caller must recheck whether there is
    /// work, then either [`park`](Self::park) or [`cancel_park`](Self::cancel_park).
    pub(super) fn prepare_park(&self) -> ParkToken {
        let before = self.cache_lines.futex_word(self.own_local_rank * LINES + FUTEX).load(Acquire);
        self.line(self.own_local_rank, STATE)[IS_PARKED].store(1, Relaxed);
        fence(SeqCst);
        ParkToken(before)
    }

    /// Sleeps until a peer wakes this rank, or for `at_most`.
    pub(super) fn park(&self, ParkToken(before): ParkToken, at_most: Duration) {
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let word = self.cache_lines.futex_word(self.own_local_rank * LINES + FUTEX);
        // The caller rechecks after every wakeup, whatever its cause.
        let _ = futex::wait(word, futex::Flags::empty(), before, Some(&timeout));
        self.cancel_park();
    }

    /// Withdraws the announcement.
    pub(super) fn cancel_park(&self) {
        self.line(self.own_local_rank, STATE)[IS_PARKED].store(0, Relaxed);
    }
}
