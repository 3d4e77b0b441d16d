//! Ranks whose memory and counters can be accessed only through messages.

use super::fifo::Trigger;
use super::launch::{Extent, Launch};
use super::program::{Operand, Space};
use crate::memory::Span;
use crate::numeric::{LINE, Line};

/// Connections to ranks on other nodes. Messages to one rank arrive in order.
pub(crate) trait Remote {
    /// Returns whether a rank is on another node.
    fn reaches(&self, rank: u32) -> bool;

    /// Returns the maximum number of bytes of a put.
    fn max_bytes(&self) -> u64;

    /// Returns whether more data can be sent to a rank now.
    fn has_room(&self, rank: u32) -> bool;

    /// Sends a part of a trigger's data, which begins at byte `at` of the operands.
    fn put(&self, rank: u32, trigger: &Trigger, at: u64, bytes: &mut dyn FnMut(&mut Vec<u8>));

    /// Adds one to the counter of a channel of a rank.
    fn signal(&self, rank: u32, channel: u32);
}

/// Maximum number of bytes of data that are sent at once.
const MAX_SEND_BYTES: u64 = 1 << 18;

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
        if len > 0 {
            remote.put(dst.rank, trigger, at, &mut |to| read(from, len as usize, to));
        }
        run.max(1)
    }

    /// Writes data that arrived for an operand of an instruction, and returns whether there is such an operand in
    /// memory of `rank`.
    pub(crate) fn accept(&self, rank: u32, trigger: &Trigger, bytes: &[u8]) -> bool {
        let Some(instr) = self.program.instrs.get(trigger.instr as usize) else {
            return false;
        };
        let Some(dst) = self.program.dsts(instr).get(trigger.number as usize).filter(|dst| dst.rank == rank) else {
            return false;
        };
        let mut done = 0;
        while done < bytes.len() as u64 {
            let (to, run) =
                self.span(dst, trigger.at + done / scale(dst), (bytes.len() as u64 - done).div_ceil(scale(dst)));
            let n = (scale(dst) * run).min(bytes.len() as u64 - done);
            write(&bytes[done as usize..(done + n) as usize], to);
            done += n.max(1);
        }
        true
    }
}

fn scale(operand: &Operand) -> u64 {
    if operand.space == Space::Packets { 2 } else { 1 }
}

fn read(from: Span<'_>, bytes: usize, to: &mut Vec<u8>) {
    to.reserve(bytes);
    for at in (0..bytes).step_by(LINE) {
        let line: [u8; LINE] = bytemuck::cast(from.load(at, LINE.min(bytes - at)));
        to.extend(&line[..LINE.min(bytes - at)]);
    }
}

fn write(bytes: &[u8], to: Span<'_>) {
    for (i, bytes) in bytes.chunks(LINE).enumerate() {
        let mut line = [0; LINE];
        line[..bytes.len()].copy_from_slice(bytes);
        to.store(i * LINE, bytes.len(), bytemuck::cast::<_, Line>(line));
    }
}
