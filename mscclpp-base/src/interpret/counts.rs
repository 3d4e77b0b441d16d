//! The table of counts of a launch: how ranks exchange it, and operations whose sizes are entries of it.
//!
//! Every rank has a row in memory that all ranks of the launch share: the number of the plan's launch, the elements for which its input and
//! its output have room, its counts, and what it expects of the others, if it does. A rank fills its row and then publishes the number; it has the table when
//! it has found the number in all rows. It also sends its row to every rank of other nodes, which fill it into the table of their node: to
//! all of them, as each is to have it before it ends the launch, and all fill in the same words. There are two tables, which launches of a plan use in turn: a rank that fills a row
//! of the next launch but one has found all rows of the next launch, so every rank has ended this one.
//!
//! All ranks compare the same numbers, so they all accept a table or all reject it. Of a rejected table, as of one that was
//! never exchanged, every entry is 0. So counted operations stay inside of their chunks whatever the counts are.

use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use mscclpp_core::plan::raw::Count;

use super::counters::{Counters, LINE_WORDS};
use super::data::copy;
use super::fifo::Trigger;
use super::launch::{Launch, Progress, Window, Worker};
use super::program::{Instr, Operand, ResolvedPlan, Space};
use super::remote::MAX_SEND_BYTES;
use super::state::AgentState;
use crate::error::{CountLimit, CountOverflow};
use crate::memory::Span;

/// What a rank passes to a launch of a plan with counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountRow {
    /// Elements for each rank.
    pub counts: Box<[i64]>,
    /// Elements that it expects from each rank, of a rank that knows.
    pub expected: Option<Box<[i64]>>,
    /// Elements for which its input and output have room, in an all-to-all-v.
    pub room: [u64; 2],
}

impl CountRow {
    /// Returns the bytes of chunks of the rank's packed input; `size`: bytes of an element. Of counts that no table may have, any bytes
    /// within the input.
    pub fn parts(&self, chunks: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
        let sizes: Vec<u64> = self.counts.iter().map(|count| u64::try_from(*count).unwrap_or(0)).collect();
        let place = |chunk: u64| {
            let before = sizes.iter().take(usize::try_from(chunk).unwrap_or(usize::MAX));
            before.fold(0_u64, |sum, count| sum.saturating_add(*count)).min(self.room[0]).saturating_mul(size)
        };
        chunks.iter().map(|chunks| place(chunks.start)..place(chunks.end)).collect()
    }
}

/// The rows that ranks of this process pass to a launch.
#[derive(Clone, Copy, Debug)]
pub struct CountRows<'a> {
    /// The rank of the first row.
    pub first: u32,
    /// A row for each rank.
    pub rows: &'a [CountRow],
}

/// Words of a row before its counts: number of the launch, room of input and output, whether expected counts follow the counts.
const HEAD: u32 = 4;

/// Returns the number of words of a row: no two rows share a cache line.
#[inline]
fn row_words(ranks: u32) -> usize {
    (HEAD as usize + 2 * ranks as usize).next_multiple_of(LINE_WORDS)
}

/// Returns the number of cache lines of both tables of a plan.
pub fn count_lines(program: &ResolvedPlan) -> usize {
    let ranks = program.shape.ranks;
    if program.is_counted { 2 * ranks as usize * row_words(ranks) / LINE_WORDS } else { 0 }
}

impl Counters {
    /// Returns a word of a rank's row of a launch.
    #[inline]
    fn word_of(&self, ranks: u32, number: u64, rank: u32, word: u32) -> &AtomicU64 {
        let row = if number.is_multiple_of(2) { rank } else { ranks + rank };
        self.count_word(row as usize * row_words(ranks) + word as usize)
    }

    /// Returns an entry of the table of the plan's last launch, which has ended.
    #[inline]
    pub fn count(&self, ranks: u32, number: u64, count: Count) -> i64 {
        self.word_of(ranks, number, count.sender, HEAD + count.receiver).load(Relaxed) as i64
    }
}

impl<'a> Launch<'a> {
    /// Returns a word of a rank's row.
    #[inline]
    fn count_word(&self, rank: u32, word: u32) -> &'a AtomicU64 {
        self.counters.word_of(self.program.shape.ranks, self.counts_number, rank, word)
    }

    /// Returns an entry of the table, which has been exchanged.
    #[inline]
    fn entry(&self, sender: u32, receiver: u32) -> i64 {
        self.counters.count(self.program.shape.ranks, self.counts_number, Count { sender, receiver })
    }

    /// Returns what a rank expects of another one; `None` if it does not.
    #[inline]
    fn expected(&self, receiver: u32, sender: u32) -> Option<i64> {
        let has_expected = self.count_word(receiver, HEAD - 1).load(Relaxed) == 1;
        let word = HEAD + self.program.shape.ranks + sender;
        has_expected.then(|| self.count_word(receiver, word).load(Relaxed) as i64)
    }

    /// Gives the rank's row to all ranks, and waits for the rows of all.
    pub(super) fn exchange_counts(&self, rank: u32, state: &mut AgentState) -> Progress {
        if !state.at.waiting && state.at.done == 0 {
            let given = self.counts.and_then(|given| given.rows.get(rank.checked_sub(given.first)? as usize));
            let (counts, room) = given.map_or((&[][..], [0; 2]), |row| (&row.counts[..], row.room));
            for (word, room) in (1..).zip(room) {
                self.count_word(rank, word).store(room, Relaxed);
            }
            let ranks = self.program.shape.ranks;
            let expected = given.and_then(|row| row.expected.as_deref());
            self.count_word(rank, HEAD - 1).store(expected.is_some().into(), Relaxed);
            for (first, list) in [(HEAD, Some(counts)), (HEAD + ranks, expected)] {
                let Some(list) = list else { continue };
                for peer in 0..ranks {
                    // A row that is missing or too short is an error of every rank.
                    let count = list.get(peer as usize).copied().unwrap_or(-1);
                    self.count_word(rank, first + peer).store(count as u64, Relaxed);
                }
            }
            self.count_word(rank, 0).store(self.counts_number, Release);
            state.at.done = 1;
        }
        if !state.at.waiting {
            if !self.send_row(rank, state) {
                return Progress::Blocked;
            }
            (state.at.number, state.at.waiting) = (0, true);
        }
        while state.at.number < self.program.shape.ranks {
            if self.count_word(state.at.number, 0).load(Acquire) != self.counts_number {
                return Progress::Blocked;
            }
            state.at.number += 1;
        }
        if self.count_overflow().is_none() {
            self.counters.accept_counts(rank, self.counts_number);
        }
        Progress::Next
    }

    /// Sends the rank's row to the ranks of other nodes from the state's number on, and returns whether there was room for all.
    fn send_row(&self, rank: u32, state: &mut AgentState) -> bool {
        let ranks = if self.remote.is_none() { 0 } else { self.program.shape.ranks };
        while state.at.number < ranks {
            if let Some(remote) = self.remote(state.at.number) {
                if !remote.has_room(state.at.number) {
                    return false;
                }
                let words = (0..HEAD + 2 * ranks).map(|word| self.count_word(rank, word).load(Relaxed));
                let row: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
                remote.put_row(state.at.number, &Trigger { instr: state.at.instr, number: rank, at: 0, len: 0 }, &row);
            }
            state.at.number += 1;
        }
        true
    }

    /// Fills in the row of a rank of another node that has arrived, and returns whether it is one of this launch.
    pub(super) fn accept_row(&self, rank: u32, row: &[u8]) -> bool {
        let ranks = self.program.shape.ranks;
        let (words, rest) = row.as_chunks::<8>();
        let mut words = (0..HEAD + 2 * ranks).zip(words.iter().map(|word| u64::from_le_bytes(*word)));
        let is_row = rank < ranks && words.len() == (HEAD + 2 * ranks) as usize && row.len() == 8 * words.len();
        if !is_row || !rest.is_empty() || words.next() != Some((0, self.counts_number)) {
            return false;
        }
        for (word, value) in words {
            self.count_word(rank, word).store(value, Relaxed);
        }
        self.count_word(rank, 0).store(self.counts_number, Release);
        true
    }

    /// Returns whether a rank has found the table of this launch valid: [`count_overflow`](Self::count_overflow) returns nothing.
    pub fn has_accepted_counts(&self, rank: u32) -> bool {
        self.counters.accepts_counts(rank, self.counts_number)
    }

    /// Returns the first count that exceeds its limit, of a table that has been exchanged.
    pub fn count_overflow(&self) -> Option<CountOverflow> {
        let ranks = self.program.shape.ranks;
        let most = self.max_count();
        let entries = || (0..ranks).flat_map(|sender| (0..ranks).map(move |receiver| (sender, receiver)));
        for (sender, receiver) in entries() {
            let demand = self.entry(sender, receiver);
            if let Some(expected) = self.expected(receiver, sender).filter(|expected| *expected != demand) {
                let (limit, room) = (CountLimit::Expected, expected.max(0) as u64);
                return Some(CountOverflow { rank: receiver, limit, demand, room, peer: sender, part: demand });
            }
        }
        for (sender, receiver) in entries() {
            let demand = self.entry(sender, receiver);
            if u64::try_from(demand).is_ok_and(|demand| demand <= most) {
                continue;
            }
            let (limit, peer) = (CountLimit::Entry, receiver);
            return Some(CountOverflow { rank: sender, limit, demand, room: most, peer, part: demand });
        }
        if !self.program.is_packed() {
            return None;
        }
        for (limit, word) in [(CountLimit::Input, 1), (CountLimit::Output, 2)] {
            for rank in 0..ranks {
                let part = |peer| if word == 1 { self.entry(rank, peer) } else { self.entry(peer, rank) };
                let demand = (0..ranks).map(part).fold(0, i64::saturating_add);
                let room = self.count_word(rank, word).load(Relaxed);
                if demand as u64 > room {
                    let peer = (0..ranks).rev().max_by_key(|peer| part(*peer)).unwrap_or(0);
                    return Some(CountOverflow { rank, limit, demand, room, peer, part: part(peer) });
                }
            }
        }
        None
    }

    /// Returns the maximum of a count: the elements of a chunk. A sum of as many as there are ranks does not overflow.
    fn max_count(&self) -> u64 {
        self.params.layout.stride / self.params.message.dtype.size() as u64
    }

    /// Returns the number of elements that a count of the table states on a rank that has accepted the table; otherwise 0.
    fn count_on(&self, rank: u32, count: Count) -> u64 {
        let ranks = self.program.shape.ranks;
        let is_known = count.sender.max(count.receiver) < ranks && self.has_accepted_counts(rank);
        if is_known { self.entry(count.sender, count.receiver) as u64 } else { 0 }
    }

    /// Returns the bytes of a chunk of a rank's input or output that is packed, as first byte and length. A rank that changes its row
    /// after the exchange gets other bytes of the buffers, no overflow: spans end with their buffers.
    pub fn packed_chunk(&self, own: u32, rank: u32, space: Space, chunk: u32) -> (u64, u64) {
        let ranks = self.program.shape.ranks;
        if rank.max(chunk) >= ranks || !self.has_accepted_counts(own) {
            return (0, 0);
        }
        let is_input = matches!(space, Space::Input | Space::OwnInput);
        let size = self.params.message.dtype.size() as u64;
        let count = |peer| if is_input { self.entry(rank, peer) } else { self.entry(peer, rank) };
        let bytes = |peer| (count(peer) as u64).saturating_mul(size);
        ((0..chunk).map(bytes).fold(0, u64::saturating_add), bytes(chunk))
    }

    /// Returns the bytes of a chunk that a counted operation of a rank processes.
    pub(super) fn counted_window(&self, instr: &Instr, rank: u32, count: Count) -> Window {
        let bytes = self.count_on(rank, count).saturating_mul(self.params.message.dtype.size() as u64);
        let (start, len) = self.params.layout.slice(bytes, instr.slice.0, instr.slice.1);
        Window { start, len }
    }

    /// Executes the transfer of a trigger of a counted put: to a rank of another node at the bytes that its counts give.
    pub(super) fn transfer_counted(
        &self,
        worker: &mut Worker,
        (src, dst): (&Operand, &Operand),
        trigger: &Trigger,
        state: &mut AgentState,
    ) -> Progress {
        let own = src.rank;
        let remote = self.remote(dst.rank);
        let first = if self.is_packed(dst) { self.packed_chunk(own, dst.rank, dst.space, dst.index).0 } else { 0 };
        let to = Trigger { at: trigger.at.saturating_add(first), ..*trigger };
        while state.at.done < trigger.len {
            let (done, left) = (state.at.done, trigger.len - state.at.done);
            let at = trigger.at.saturating_add(done);
            let n = match remote {
                Some(remote) if remote.has_room(dst.rank) => {
                    let len = left.min(MAX_SEND_BYTES).min(remote.max_bytes());
                    remote.put(dst.rank, &to, to.at.saturating_add(done), self.counted_span(own, src, at, len), len)
                }
                Some(_) => 0,
                None => {
                    let len = left.min(worker.quantum);
                    copy(self.counted_span(own, src, at, len), self.counted_span(own, dst, at, len), len);
                    len
                }
            };
            state.at.done += n;
            if n == 0 || remote.is_none() && state.at.done < trigger.len && worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }

    /// Returns memory for data that arrives from another node for a counted operand: of a packed buffer the sender counts bytes from
    /// its beginning.
    pub(super) fn arriving_span(&self, instr: &Instr, dst: &Operand, at: u64, len: u64) -> (Span<'a>, u64) {
        if instr.counted.is_none() || !self.is_packed(dst) {
            return self.span(dst, at, len);
        }
        let area = self.params.area(dst.rank, dst.space);
        (self.memory.slice(area.slice as usize).range(area.base.saturating_add(at), len), len)
    }

    /// Returns whether a counted operand begins where the counts before it end.
    fn is_packed(&self, operand: &Operand) -> bool {
        self.program.is_packed() && operand.space.is_callers()
    }

    /// Copies the counted elements of one chunk to another one.
    pub(super) fn copy_counted(
        &self,
        worker: &mut Worker,
        instr: &Instr,
        rank: u32,
        state: &mut AgentState,
    ) -> Progress {
        let (Some(src), Some(dst), Some(count)) =
            (self.program.srcs(instr).first(), self.program.dsts(instr).first(), instr.counted)
        else {
            return Progress::Next;
        };
        let Window { start, len } = self.counted_window(instr, rank, count);
        while state.at.done < len {
            let (at, n) = (start + state.at.done, (len - state.at.done).min(worker.quantum));
            copy(self.counted_span(rank, src, at, n), self.counted_span(rank, dst, at, n), n);
            state.at.done += n;
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }

    /// Returns bytes of a chunk, for an operation of rank `own`.
    fn counted_span(&self, own: u32, operand: &Operand, at: u64, len: u64) -> Span<'a> {
        if !self.is_packed(operand) {
            return self.span(operand, at, len).0;
        }
        let area = self.params.area(operand.rank, operand.space);
        let (first, _) = self.packed_chunk(own, operand.rank, operand.space, operand.index);
        self.memory.slice(area.slice as usize).range(area.base.saturating_add(first).saturating_add(at), len)
    }
}
