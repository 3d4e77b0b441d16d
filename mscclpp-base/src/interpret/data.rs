//! Operations on data. Each processes its range in steps and can yield between any two.

use smallvec::SmallVec;

use super::launch::{Launch, Progress, Window, Worker};
use super::program::{Instr, Operand, Space, Transfer};
use super::state::AgentState;
use crate::memory::{Lines, Span, copy_lines, copy_shifted_lines};
use crate::numeric::{LINE, LINES, Line, Tile};

/// Bytes of a tile.
pub(super) const BLOCK: u64 = (LINE * LINES) as u64;

/// Number of operands whose spans are resolved once per range; those of an operation with more are resolved once per
/// tile.
const CACHED: usize = 24;

impl<'a> Launch<'a> {
    /// Executes an operation on data in memory.
    pub fn run_transfer(
        &self,
        transfer: Transfer,
        worker: &mut Worker,
        instr: &Instr,
        state: &mut AgentState,
    ) -> Progress {
        match transfer {
            Transfer::Copy => self.copy(worker, instr, state),
            Transfer::Pack => self.pack(worker, instr, state),
            Transfer::Unpack => self.unpack(worker, instr, state),
            Transfer::Forward => self.forward(worker, instr, state),
            Transfer::Reduce => self.reduce(worker, instr, state),
            // These depend on what a rank passes: `norm_rows`, `copy_counted`.
            Transfer::RowNorm => Progress::Next,
            Transfer::CopyCounted => Progress::Next,
        }
    }

    /// Calls `step` for the contiguous parts of source i and destination i. It returns the number of bytes it
    /// processed, which is smaller than requested if it must wait.
    fn each_pair(
        &self,
        worker: &mut Worker,
        instr: &Instr,
        state: &mut AgentState,
        mut step: impl FnMut(&mut Worker, Span<'a>, Span<'a>, u64) -> u64,
    ) -> Progress {
        let (srcs, dsts) = (self.program.srcs(instr), self.program.dsts(instr));
        while let (Some(src), Some(dst)) = (srcs.get(state.at.number as usize), dsts.get(state.at.number as usize)) {
            let Window { start, len } = self.window(instr, src.size, state);
            while state.at.done < len {
                let at = start + state.at.done;
                let (from, run) = self.span(src, at, len - state.at.done);
                let (to, run) = self.span(dst, at, run);
                let packets = src.space == Space::Packets || dst.space == Space::Packets;
                let useful = if packets { run } else { run.min(to.len() as u64) };
                if useful == 0 {
                    // Padding, which can be much longer than the data.
                    state.at.done += run;
                    continue;
                }
                let wanted = useful.min(worker.quantum);
                let done = step(worker, from, to, wanted);
                state.at.done += done;
                if done < wanted {
                    return Progress::Blocked;
                }
                if worker.consume_fuel() {
                    return Progress::Yielded;
                }
            }
            state.at.number += 1;
            state.at.done = 0;
        }
        Progress::Next
    }

    fn copy(&self, worker: &mut Worker, instr: &Instr, state: &mut AgentState) -> Progress {
        self.each_pair(worker, instr, state, |_, from, to, len| {
            copy(from, to, len);
            len
        })
    }

    fn pack(&self, worker: &mut Worker, instr: &Instr, state: &mut AgentState) -> Progress {
        self.each_pair(worker, instr, state, |worker, from, to, len| {
            for at in (0..len).step_by(BLOCK as usize) {
                let n = BLOCK.min(len - at);
                load(&mut worker.block, from, at, n);
                store_packets(&worker.block, to, at, n, self.flag);
            }
            len
        })
    }

    fn unpack(&self, worker: &mut Worker, instr: &Instr, state: &mut AgentState) -> Progress {
        self.each_pair(worker, instr, state, |worker, from, to, len| {
            let mut at = 0;
            while at < len {
                let wanted = BLOCK.min(len - at);
                let n = self.load_packets(&mut worker.block, from, at, wanted);
                store(&worker.block, to, at, n);
                at += n;
                if n < wanted {
                    break;
                }
            }
            at
        })
    }

    fn forward(&self, worker: &mut Worker, instr: &Instr, state: &mut AgentState) -> Progress {
        let (src, dsts) = (&self.program.srcs(instr)[0], self.program.dsts(instr));
        let Window { start, len } = self.window(instr, src.size, state);
        while state.at.done < len {
            let at = start + state.at.done;
            let wanted = BLOCK.min(len - state.at.done).min(worker.quantum);
            let (from, run) = self.span(src, at, wanted);
            let n = self.load_packets(&mut worker.block, from, 0, run);
            for dst in dsts {
                store_packets(&worker.block, self.span(dst, at, n).0, 0, n, self.flag);
            }
            state.at.done += n;
            if n < run {
                return Progress::Blocked;
            }
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }

    fn reduce(&self, worker: &mut Worker, instr: &Instr, state: &mut AgentState) -> Progress {
        let (srcs, dsts) = (self.program.srcs(instr), self.program.dsts(instr));
        let Window { start, len } = self.window(instr, srcs[0].size, state);
        while state.at.done < len {
            let at = start + state.at.done;
            // Up to the end of the shortest contiguous operand.
            let mut run = len - state.at.done;
            let mut spans = [Span::EMPTY; CACHED];
            for (number, operand) in srcs.iter().chain(dsts).enumerate() {
                let (span, shorter) = self.span(operand, at, run);
                run = shorter;
                if let Some(slot) = spans.get_mut(number) {
                    *slot = span;
                }
            }
            let operands = Operands { launch: self, srcs, dsts, spans: &spans, at };
            let useful = operands.useful(run);
            if useful == 0 {
                state.at.done += run;
                continue;
            }
            let limit = useful.min(worker.quantum);
            let mut offset = match operands.before_word(limit) {
                0 => 0,
                head => operands.combine(worker, instr, 0, head),
            };
            offset += operands.fuse(instr, offset, limit);
            state.at.done += offset;
            while offset < limit {
                let wanted = BLOCK.min(limit - offset);
                let n = operands.combine(worker, instr, offset, wanted);
                offset += n;
                state.at.done += n;
                if n < wanted {
                    return Progress::Blocked;
                }
            }
            if worker.consume_fuel() {
                return Progress::Yielded;
            }
        }
        Progress::Next
    }

    /// Loads the payload of packets into a tile up to the first missing packet. Returns the number of payload bytes, in
    /// whole grains unless all packets are present.
    pub fn load_packets(&self, block: &mut Tile, from: Span<'_>, at: u64, n: u64) -> u64 {
        let payload: &mut [u32] = bytemuck::cast_slice_mut(block);
        let found = from.load_packets(at as usize / 4, self.flag, &mut payload[..n as usize / 4]);
        self.whole_grains(4 * found as u64, n)
    }

    fn whole_grains(&self, found: u64, wanted: u64) -> u64 {
        if found >= wanted { wanted } else { found - found % self.params.grain }
    }
}

/// Operands of a reduction over a range in which each of them is contiguous.
struct Operands<'l, 'a> {
    launch: &'l Launch<'a>,
    srcs: &'l [Operand],
    dsts: &'l [Operand],
    spans: &'l [Span<'a>; CACHED],
    /// First byte of the range in the operands.
    at: u64,
}

impl<'a> Operands<'_, 'a> {
    /// Returns `n` bytes of an operand, and their offset in the span.
    #[inline(always)]
    fn span(&self, number: usize, offset: u64, n: u64) -> (Span<'a>, u64) {
        if let Some(span) = self.spans.get(number) {
            return (*span, offset);
        }
        let operand = self.srcs.get(number).or_else(|| self.dsts.get(number - self.srcs.len()));
        let (span, _) = self.launch.span(operand.unwrap_or(&self.srcs[0]), self.at + offset, n);
        (span, 0)
    }

    /// Returns how many of `run` bytes have an effect: writes past the end of every destination would be dropped.
    /// Padding can be much longer than the data. Packets are awaited and sent in any case.
    fn useful(&self, run: u64) -> u64 {
        if self.has_packets() {
            return run;
        }
        let end = |number| self.span(self.srcs.len() + number, 0, run).0.len() as u64;
        (0..self.dsts.len()).map(end).max().unwrap_or(0).min(run)
    }

    /// Returns whether any operand consists of packets.
    fn has_packets(&self) -> bool {
        self.srcs.iter().chain(self.dsts).any(|operand| operand.space == Space::Packets)
    }

    /// Returns how many bytes to process first, so that the first destination continues at the start of a word: whole
    /// elements only.
    fn before_word(&self, limit: u64) -> u64 {
        let (to, _) = self.span(self.srcs.len(), 0, limit);
        let head = (to.before_word() as u64).min(limit);
        let element = self.launch.params.message.dtype.size() as u64;
        if head.is_multiple_of(element) && !self.has_packets() { head } else { 0 }
    }

    /// Combines the whole lines of all operands between `offset` and `limit` at once, and returns the number of bytes.
    fn fuse(&self, instr: &Instr, offset: u64, limit: u64) -> u64 {
        let Some(fuse) = self.launch.params.reducers[instr.reduce as usize].fuse else {
            return 0;
        };
        let number = self.srcs.len() + self.dsts.len();
        if number > CACHED || self.has_packets() {
            return 0;
        }
        let (offset, limit) = (offset as usize, limit as usize);
        let spans = &self.spans[..number];
        let shortest = spans.iter().map(Span::len).min().unwrap_or(0).min(limit).saturating_sub(offset);
        let whole = shortest - shortest % LINE;
        let lines: SmallVec<[Lines<'_>; CACHED]> = spans.iter().filter_map(|span| span.lines(offset, whole)).collect();
        if whole == 0 || lines.len() < number {
            return 0;
        }
        let (srcs, dsts) = lines.split_at(self.srcs.len());
        fuse(srcs, dsts);
        whole as u64
    }

    /// Combines `n` bytes, or fewer if packets of a source are missing, and returns the number.
    fn combine(&self, worker: &mut Worker, instr: &Instr, offset: u64, mut n: u64) -> u64 {
        let reducer = &self.launch.params.reducers[instr.reduce as usize];
        let Worker { block, acc, .. } = worker;
        let is_single = self.srcs.len() == 1;
        let mut first = true;
        // From left to right; `resolve` has put a plain source after packets, as the reference executor combines them.
        let mut number = 0;
        while let Some(src) = self.srcs.get(number) {
            let (span, at) = self.span(number, offset, n);
            if src.space == Space::Packets {
                let found = self.launch.load_packets(block, span, at, n);
                if found == 0 {
                    return 0;
                }
                if found < n {
                    // The earlier sources must contribute the same number of bytes.
                    n = found;
                    if !first {
                        (first, number) = (true, 0);
                        continue;
                    }
                }
            } else {
                load(block, span, at, n);
            }
            if !is_single {
                (if first { reducer.start } else { reducer.add })(acc, block, lines_of(n));
            }
            first = false;
            number += 1;
        }
        let result: &[Line] = match reducer.finish {
            _ if is_single => block,
            Some(finish) => {
                finish(acc, block, lines_of(n));
                block
            }
            None => acc,
        };
        for (number, dst) in self.dsts.iter().enumerate() {
            let (span, at) = self.span(self.srcs.len() + number, offset, n);
            if dst.space == Space::Packets {
                store_packets(result, span, at, n, self.launch.flag);
            } else {
                store(result, span, at, n);
            }
        }
        n
    }
}

/// Minimum bytes of a copy whose destination is aligned to a line.
const LONG_COPY: u64 = 1 << 10;

/// Copies bytes of one span to another.
pub fn copy(from: Span<'_>, to: Span<'_>, len: u64) {
    // Writes past the end of the destination would be dropped anyway.
    let len = len.min(to.len() as u64);
    // Words are written as a whole, so the main part starts at a word of the destination; a long one at a line, which no store divides then.
    let head = if len < LONG_COPY { to.before_word() } else { to.before_line() };
    let head = (head as u64).min(len);
    if head > 0 {
        to.store(0, head as usize, from.load(0, head as usize));
    }
    let (from, to, len) = (from.range(head, len - head), to.range(head, len - head), (len - head) as usize);
    let whole = len - len % LINE;
    let mut done = 0;
    if let (Some(from), Some(to)) = (from.lines(0, whole), to.lines(0, whole)) {
        copy_lines(from, to);
        done = whole;
    } else if whole >= 2 * LINE
        && let Some(to_lines) = to.lines(LINE, whole - LINE)
        && let Some(lines) = from.shifted_lines(LINE, whole - LINE)
    {
        // The words before the first line may be outside of the slice.
        to.store(0, LINE, from.load(0, LINE));
        done = LINE + LINE * copy_shifted_lines(lines, to_lines);
    }
    for at in (done..len).step_by(LINE) {
        let n = LINE.min(len - at);
        to.store(at, n, from.load(at, n));
    }
}

/// Returns the number of lines that contain the given number of bytes.
fn lines_of(n: u64) -> usize {
    (n as usize).div_ceil(LINE)
}

#[inline]
pub(super) fn load(block: &mut Tile, from: Span<'_>, at: u64, n: u64) {
    let (at, n) = (at as usize, n as usize);
    if let Some(lines) = from.lines(at, n) {
        return lines.load_into(block);
    }
    for (i, line) in block.iter_mut().enumerate().take(n.div_ceil(LINE)) {
        *line = from.load(at + i * LINE, LINE.min(n - i * LINE));
    }
}

#[inline]
pub(super) fn store(block: &[Line], to: Span<'_>, at: u64, n: u64) {
    let (at, n) = (at as usize, n as usize);
    if let Some(lines) = to.lines(at, n) {
        return lines.store_from(block);
    }
    for (i, &line) in block.iter().enumerate().take(n.div_ceil(LINE)) {
        to.store(at + i * LINE, LINE.min(n - i * LINE), line);
    }
}

#[inline]
fn store_packets(block: &[Line], to: Span<'_>, at: u64, n: u64, flag: u32) {
    let payload: &[u32] = bytemuck::cast_slice(block);
    to.store_packets(at as usize / 4, flag, &payload[..n as usize / 4]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Loan, Table};

    /// Words of the memory that contains a slice.
    const WORDS: usize = 256;

    /// Copies `len` bytes between slices that begin `from` and `to` bytes after a line, `inside` bytes after their beginnings.
    fn check_copy(from: usize, to: usize, inside: [usize; 2], len: usize) {
        let source: Vec<u64> = (0..WORDS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut target = vec![0_u64; WORDS];
        let source = &bytemuck::cast_slice(&source)[from..from + len + inside[0]];
        let result = &mut bytemuck::cast_slice_mut(&mut target)[to..to + len + inside[1]];
        let table = Table::default();
        table.lend(
            |lender| {
                lender.push(Loan::Read(source));
                lender.push(Loan::Write(result));
            },
            || {
                let held = table.hold();
                let (from, to) = (held.memory().slice(0), held.memory().slice(1));
                copy(from.range(inside[0] as u64, u64::MAX), to.range(inside[1] as u64, u64::MAX), len as u64);
            },
        );
        let mut expected = vec![0; 8 * WORDS];
        expected[to + inside[1]..][..len].copy_from_slice(&source[inside[0]..]);
        assert_eq!(bytemuck::cast_slice::<_, u8>(&target), expected, "{from} {to} {inside:?} {len}");
    }

    #[test]
    fn copies_between_any_bytes_move_these_and_no_others() {
        let lens =
            if cfg!(miri) { &[64, 200][..] } else { &[0, 1, 7, 64, 71, 128, 129, 200, 320, 1023, 1024, 1500][..] };
        for &len in lens {
            for (from, to) in (0..9).flat_map(|from| [0, 1, 4, 8, 13, 60].map(|to| (from, to))) {
                for inside in [[0, 0], [3, 0], [0, 5], [8, 16], [20, 4]] {
                    check_copy(from, to, inside, len);
                }
            }
        }
    }
}
