//! What each rank of a node is at: a segment in which every rank has its own lines and reads those of its peers.
//!
//! A rank numbers its calls from 1 and says of each what it calls, in a ring of lines. Nobody runs ahead of the slowest peer's
//! beginning by more than [`AHEAD`] calls, so no line is overwritten that somebody has yet to compare.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, compiler_fence, fence};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::thread::futex;

use crate::shm::Cells;

/// Calls whose lines are kept.
pub(super) const RING: u64 = 8;

/// Calls that a rank may be ahead of a peer.
pub(super) const AHEAD: u64 = RING / 2;

/// Lines of a rank: the ring, then one line each for what is below, then a text.
const LINES: usize = RING as usize + 3 + TEXT_LINES;
const DONE: usize = RING as usize;
const BELL: usize = DONE + 1;
const STATE: usize = DONE + 2;
const TEXT: usize = DONE + 3;
const TEXT_LINES: usize = 4;

/// Words of the line `STATE`.
const SLEEPS: usize = 0;
const GAVE_UP: usize = 1;
const LEFT: usize = 2;

/// What a rank says of a call besides what it calls: the shared buffers that it hands in, as number and first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Handed(pub(super) [(u64, u64); 2]);

/// What the bell said when a rank lay down.
pub(super) struct Drowsy(u32);

/// The lines of all ranks of a node.
pub(super) struct Calls {
    cells: Cells,
    /// The own place among them.
    me: usize,
    ranks: usize,
}

impl Calls {
    /// Bytes of the segment for a number of ranks.
    pub(super) fn bytes(ranks: usize) -> u64 {
        Cells::bytes(ranks * LINES)
    }

    pub(super) fn new(cells: Cells, me: usize, ranks: usize) -> Self {
        Self { cells, me, ranks }
    }

    fn line(&self, place: usize, line: usize) -> &[AtomicU64; 8] {
        self.cells.line(place * LINES + line)
    }

    /// Says that the own rank begins a call.
    #[inline]
    pub(super) fn begin(&self, number: u64, id: u64, handed: &Handed) {
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
    pub(super) fn begun(&self, place: usize, number: u64) -> Option<(u64, Handed)> {
        let line = self.line(place, (number % RING) as usize);
        (line[0].load(Acquire) == number).then(|| {
            let word = |i: usize| line[i].load(Relaxed);
            (word(1), Handed([(word(2), word(3)), (word(4), word(5))]))
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

    /// Says that the own rank cannot go on, in which call it saw that, and wakes everybody.
    pub(super) fn give_up(&self, number: u64) {
        self.line(self.me, STATE)[GAVE_UP].store(number.max(1), Release);
        self.wake(true);
    }

    /// The place of a peer that has given up.
    pub(super) fn find_given_up(&self) -> Option<usize> {
        (0..self.ranks).find(|&place| place != self.me && self.has_given_up(place))
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
        let mut bytes = [0; 64 * TEXT_LINES];
        let len = text.len().min(bytes.len());
        bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        for (line, bytes) in bytes.chunks_exact(64).enumerate() {
            for (word, bytes) in self.line(self.me, TEXT + line).iter().zip(bytemuck::cast_slice::<u8, u64>(bytes)) {
                word.store(*bytes, Relaxed);
            }
        }
    }

    /// The text of the rank at a place.
    pub(super) fn text(&self, place: usize) -> String {
        let lines = (0..TEXT_LINES).flat_map(|line| self.line(place, TEXT + line));
        let bytes: Vec<u8> = lines.flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Wakes peers that sleep, after something that they may wait for; all of them if `even_awake`.
    #[inline]
    pub(super) fn wake(&self, even_awake: bool) {
        // Without a fence, which would wait until the lines written before are here, this may miss a peer that lies down in
        // the same hundred nanoseconds. It then sleeps until its nap is over, and finds what was written.
        compiler_fence(SeqCst);
        for place in (0..self.ranks).filter(|&place| place != self.me) {
            if even_awake || self.line(place, STATE)[SLEEPS].load(Relaxed) != 0 {
                let bell = self.cells.bell(place * LINES + BELL);
                bell.fetch_add(1, Release);
                // A wake that fails wakes nobody, who then wakes by himself a little later.
                let _ = futex::wake(bell, futex::Flags::empty(), u32::MAX);
            }
        }
    }

    /// Begins to sleep: from now on peers wake the own rank. It must look a last time whether there is something to do, then
    /// either [`sleep`](Self::sleep) or [`get_up`](Self::get_up).
    pub(super) fn lie_down(&self) -> Drowsy {
        let before = self.cells.bell(self.me * LINES + BELL).load(Acquire);
        self.line(self.me, STATE)[SLEEPS].store(1, Relaxed);
        fence(SeqCst);
        Drowsy(before)
    }

    /// Sleeps until a peer wakes the own rank, or `at_most`.
    pub(super) fn sleep(&self, Drowsy(before): Drowsy, at_most: Duration) {
        let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: at_most.subsec_nanos().into() };
        let bell = self.cells.bell(self.me * LINES + BELL);
        // Whatever ends it, who slept looks again.
        let _ = futex::wait(bell, futex::Flags::empty(), before, Some(&timeout));
        self.get_up();
    }

    /// Ends the sleep.
    pub(super) fn get_up(&self) {
        self.line(self.me, STATE)[SLEEPS].store(0, Relaxed);
    }
}
