//! Ranks whose memory and counters can be accessed only through messages.

use super::fifo::Trigger;
use super::launch::{Extent, Launch};
use super::program::{Instr, Opcode, Operand, Space};
use crate::memory::Span;

/// Connections to ranks on other nodes. Messages to one rank arrive in order.
pub trait Remote {
    /// Returns whether a rank is on another node.
    fn reaches(&self, rank: u32) -> bool;

    /// Returns the maximum number of bytes of a put.
    fn max_bytes(&self) -> u64;

    /// Returns whether more data can be sent to a rank now.
    fn has_room(&self, rank: u32) -> bool;

    /// Sends a part of a trigger's data, which begins at byte `at` of the operands: the first `len` bytes of `from`, zeros after its
    /// end. Returns how many bytes were sent; if not all, the next message to the rank must be the rest.
    fn put(&self, rank: u32, trigger: &Trigger, at: u64, from: Span<'_>, len: u64) -> u64;

    /// Sends the row of counts of the rank that a trigger of an exchange of counts names as its number.
    fn put_row(&self, rank: u32, trigger: &Trigger, row: &[u8]);

    /// Returns whether no data that was passed for a rank is read any more.
    fn are_sources_read(&self, rank: u32) -> bool;

    /// Adds one to the counter of a channel of a rank.
    fn signal(&self, rank: u32, channel: u32);
}

/// Maximum offset in an operand that another rank may name: more than any memory has, and so little that no sum overflows.
const MAX_OFFSET: u64 = 1 << 48;

/// Maximum number of bytes of data that are sent at once.
pub(super) const MAX_SEND_BYTES: u64 = 1 << 18;

impl<'a> Launch<'a> {
    /// Returns the connection to a rank, if it is on another node.
    pub(super) fn remote(&self, rank: u32) -> Option<&'a dyn Remote> {
        self.remote.filter(|remote| remote.reaches(rank))
    }

    /// Sends the next part of a trigger's data. Returns how many bytes of the operands it covers, 0 if there is no
    /// room.
    pub(super) fn send(&self, remote: &dyn Remote, src: &Operand, dst: &Operand, trigger: &Trigger, done: u64) -> u64 {
        if !remote.has_room(dst.rank) {
            return 0;
        }
        let at = trigger.at + done;
        // Packets have twice the bytes.
        let most = MAX_SEND_BYTES.min(remote.max_bytes() / 2);
        let (from, run) = self.span(src, at, (trigger.len - done).min(most));
        let Extent { len, run, .. } = self.extent(dst, at, run);
        let sent = if len > 0 { remote.put(dst.rank, trigger, at, from, len) } else { 0 };
        // Padding, which follows what is sent, is not.
        if sent < len { sent / scale(dst) } else { run.max(1) }
    }

    /// Returns the memory of `rank` into which data for an operand of an instruction can be received, from byte `done` on of those
    /// that begin with `trigger`, at most `len` bytes. `None` if it must be written by [`accept`](Self::accept).
    pub fn destination(&self, rank: u32, trigger: &Trigger, done: u64, len: u64) -> Option<Span<'a>> {
        let (instr, dst) = self.operand(rank, trigger)?;
        let at = trigger.at.checked_add(done)?;
        let (to, run) = self.arriving_span(instr, dst, at, len);
        (scale(dst) == 1 && to.len() as u64 == run && run > 0 && to.is_writable()).then_some(to)
    }

    /// Returns the operand in memory of `rank` that a trigger of another rank names; `None` if no plan sends it.
    fn operand(&self, rank: u32, trigger: &Trigger) -> Option<(&'a Instr, &'a Operand)> {
        let instr = self.program.instrs.get(trigger.instr as usize)?;
        let dst = self.program.dsts(instr).get(trigger.number as usize)?;
        (dst.rank == rank && trigger.at <= MAX_OFFSET).then_some((instr, dst))
    }

    /// Writes data that arrived for an operand of an instruction, or a row of counts, and returns whether there is such an
    /// operand in memory of `rank`.
    pub fn accept(&self, rank: u32, trigger: &Trigger, bytes: &[u8]) -> bool {
        let instr = self.program.instrs.get(trigger.instr as usize);
        if instr.is_some_and(|instr| instr.action == Opcode::ExchangeCounts) {
            return self.accept_row(trigger.number, bytes);
        }
        let Some((instr, dst)) = self.operand(rank, trigger) else { return false };
        let mut done = 0;
        while done < bytes.len() as u64 {
            let (to, run) = self.arriving_span(
                instr,
                dst,
                trigger.at + done / scale(dst),
                (bytes.len() as u64 - done).div_ceil(scale(dst)),
            );
            let n = (scale(dst) * run).min(bytes.len() as u64 - done);
            to.write(&bytes[done as usize..(done + n) as usize]);
            done += n.max(1);
        }
        true
    }
}

fn scale(operand: &Operand) -> u64 {
    if operand.space == Space::Packets { 2 } else { 1 }
}
