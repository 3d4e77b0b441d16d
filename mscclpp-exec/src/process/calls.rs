//! What each rank of a node is at: a segment in which every rank has its own lines and reads those of its peers.
//!
//! A rank numbers its calls from 1 and says of each what it calls, in a ring of lines. Nobody runs ahead of the slowest peer's
//! beginning by more than [`AHEAD`] calls, so no line is overwritten that somebody has yet to compare.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence, fence};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

use crate::shm::SharedCacheLines;
use mscclpp_bootstrap as bootstrap;

/// Calls whose lines are kept.
pub(super) const RING: u64 = 8;

/// Calls that a rank may be ahead of a peer.
pub(super) const AHEAD: u64 = RING / 2;

/// Lines of a rank: the ring, then one line each for what is below, then what it calls and why it gave up.
const LINES: usize = CAUSE + CAUSE_LINES;
const DONE: usize = RING as usize;
const BELL: usize = DONE + 1;
const STATE: usize = DONE + 2;
const TEXT: usize = DONE + 3;
const TEXT_LINES: usize = 4;
const CAUSE: usize = TEXT + TEXT_LINES;
const CAUSE_LINES: usize = 32;

/// Words of the line `STATE`.
const SLEEPS: usize = 0;
const GAVE_UP: usize = 1;
const LEFT: usize = 2;

/// What a rank says of a call besides what it calls: the shared buffers that it hands in, as number and first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BufferArgs(pub(super) [(u64, u64); 2]);

/// What the bell said when a rank lay down.
pub(super) struct ParkToken(u32);

/// The lines of all ranks of a node.
pub(super) struct Calls {
    cells: SharedCacheLines,
    /// The own place among them.
    me: usize,
    ranks: usize,
}

impl Calls {
    /// Bytes of the segment for a number of ranks.
    pub(super) fn bytes(ranks: usize) -> u64 {
        SharedCacheLines::bytes(ranks * LINES)
    }

    pub(super) fn new(cells: SharedCacheLines, me: usize, ranks: usize) -> Self {
        Self { cells, me, ranks }
    }

    fn line(&self, place: usize, line: usize) -> &[AtomicU64; 8] {
        self.cells.line(place * LINES + line)
    }

    /// Says that the own rank begins a call.
    #[inline]
    pub(super) fn begin(&self, number: u64, id: u64, handed: &BufferArgs) {
        let line = self.line(self.me, (number % RING) as usize);
        line[1].store(id, Relaxed);
        for (i, (buffer, at)) in handed.0.into_iter().enumerate() {
            line[2 + 2 * i].store(buffer, Relaxed);
            line[3 + 2 * i].store(at, Relaxed);
        }
        line[0].store(number, Release);
    }

    /// What the rank at a place calls in call `number`; `None` if it has not begun it.
    #[inline]
    pub(super) fn begun(&self, place: usize, number: u64) -> Option<(u64, BufferArgs)> {
        let line = self.line(place, (number % RING) as usize);
        (line[0].load(Acquire) == number).then(|| {
            let word = |i: usize| line[i].load(Relaxed);
            (word(1), BufferArgs([(word(2), word(3)), (word(4), word(5))]))
        })
    }

    /// Says that the own rank touches nobody's buffers any more in calls up to this one.
    #[inline]
    pub(super) fn finish(&self, number: u64) {
        self.line(self.me, DONE)[0].store(number, Release);
    }

    /// Whether the rank at a place has finished a call.
    #[inline]
    pub(super) fn is_finished(&self, place: usize, number: u64) -> bool {
        self.line(place, DONE)[0].load(Acquire) >= number
    }

    /// Says that the own rank cannot go on, in which call it saw that, and why the group is finished if that is why; wakes
    /// everybody. What is said first holds.
    pub(super) fn give_up(&self, number: u64, cause: Option<&bootstrap::Error>) {
        if self.has_given_up(self.me) {
            return;
        }
        // A cause that is too long is not said: peers know then that this rank gave up, and no more.
        if let Some(cause) = cause.and_then(|cause| postcard::to_allocvec(cause).ok())
            && cause.len() < 64 * CAUSE_LINES - 2
        {
            self.write(CAUSE, CAUSE_LINES, &[&(cause.len() as u16).to_le_bytes(), cause.as_slice()].concat());
        }
        self.line(self.me, STATE)[GAVE_UP].store(number.max(1), Release);
        self.unpark_peers(true);
    }

    /// The place of a peer that has given up.
    pub(super) fn find_given_up(&self) -> Option<usize> {
        (0..self.ranks).find(|&place| place != self.me && self.has_given_up(place))
    }

    /// Why the group is finished, in the words of a peer that gave up because of it.
    pub(super) fn find_cause(&self) -> Option<bootstrap::Error> {
        let peers = (0..self.ranks).filter(|&place| place != self.me && self.has_given_up(place));
        peers.into_iter().find_map(|place| {
            let bytes = self.read(place, CAUSE, CAUSE_LINES);
            let (len, bytes) = bytes.split_first_chunk()?;
            // Nothing that could be decoded is as long as nothing.
            postcard::from_bytes(bytes.get(..usize::from(u16::from_le_bytes(*len)))?).ok()
        })
    }

    /// Whether the rank at a place has given up.
    pub(super) fn has_given_up(&self, place: usize) -> bool {
        self.line(place, STATE)[GAVE_UP].load(Acquire) != 0
    }

    /// Says that the own rank leaves, and after which call.
    pub(super) fn leave(&self, number: u64) {
        self.line(self.me, STATE)[LEFT].store(number + 1, Release);
    }

    /// Whether the rank at a place has left after a call, which it finished.
    pub(super) fn has_left_after(&self, place: usize, number: u64) -> bool {
        self.line(place, STATE)[LEFT].load(Acquire) > number
    }

    /// What the own rank calls, for peers that find it differs.
    pub(super) fn write_text(&self, text: &str) {
        self.write(TEXT, TEXT_LINES, text.as_bytes());
    }

    /// The text of the rank at a place.
    pub(super) fn text(&self, place: usize) -> String {
        let bytes = self.read(place, TEXT, TEXT_LINES);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Writes bytes into some of the own lines, as many as fit, and zeros after them.
    fn write(&self, first: usize, lines: usize, bytes: &[u8]) {
        let mut words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        for word in (first..first + lines).flat_map(|line| self.line(self.me, line)) {
            word.store(words.next().unwrap_or(0), Relaxed);
        }
    }

    /// The bytes in some lines of the rank at a place.
    fn read(&self, place: usize, first: usize, lines: usize) -> Vec<u8> {
        let words = (first..first + lines).flat_map(|line| self.line(place, line));
        words.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect()
    }

    /// Wakes peers that sleep, after something that they may wait for; all of them if `even_awake`.
    #[inline]
    pub(super) fn unpark_peers(&self, even_awake: bool) {
        // Without a fence, which would wait until the lines written before are here, this may miss a peer that lies down in
        // the same hundred nanoseconds. It then sleeps until its nap is over, and finds what was written.
        compiler_fence(SeqCst);
        for place in (0..self.ranks).filter(|&place| place != self.me) {
            if even_awake || self.line(place, STATE)[SLEEPS].load(Relaxed) != 0 {
                let bell = self.cells.futex_word(place * LINES + BELL);
                bell.fetch_add(1, Release);
                // A wake that fails wakes nobody, who then wakes by himself a little later.
                let _ = futex::wake(bell, futex::Flags::empty(), u32::MAX);
            }
        }
    }

    /// Begins to sleep: from now on peers wake the own rank. It must look a last time whether there is something to do, then
    /// either [`park`](Self::sleep) or [`cancel_park`](Self::get_up).
    pub(super) fn prepare_park(&self) -> ParkToken {
        let before = self.cells.futex_word(self.me * LINES + BELL).load(Acquire);
        self.line(self.me, STATE)[SLEEPS].store(1, Relaxed);
        fence(SeqCst);
        ParkToken(before)
    }

    /// Sleeps until a peer wakes the own rank, or `at_most`.
    pub(super) fn park(&self, ParkToken(before): ParkToken, at_most: Duration) {
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let bell = self.cells.futex_word(self.me * LINES + BELL);
        // Whatever ends it, who slept looks again.
        let _ = futex::wait(bell, futex::Flags::empty(), before, Some(&timeout));
        self.cancel_park();
    }

    /// Ends the sleep.
    pub(super) fn cancel_park(&self) {
        self.line(self.me, STATE)[SLEEPS].store(0, Relaxed);
    }
}
