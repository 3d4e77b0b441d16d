//! Resolves the operands of an operation: the rank, the memory and the chunks.

use std::ops::Range;

use mscclpp_core::plan::image::OpView;
use mscclpp_core::plan::raw::{BufferRef, Packets};
use mscclpp_core::plan::{self};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::{At, BlockTables, Resolver, entry};
use crate::error::Error;
use crate::interpret::program::{Operand, Space};

/// Maximum number of operands of a resolved plan. A plan of multicasts over many ranks could otherwise exceed the
/// available memory.
const MAX_OPERANDS: usize = 1 << 27;

/// Ranks whose memory a reference names.
enum Owners {
    One(u32),
    /// A range of `Tables::members`.
    Group(Range<u32>),
}

impl Resolver {
    /// Resolves one side's operands.
    pub(super) fn operands<'a>(
        &mut self,
        at: At,
        of: &BlockTables<'a>,
        view: &OpView<'a>,
        refs: impl Iterator<Item = plan::raw::Operand>,
        packets: Packets,
    ) -> Result<u32, Error> {
        let first = self.program.operands.len();
        for (number, reference) in refs.enumerate() {
            let packets = packets.at(number);
            let (buffer, owners) = self.owners(at, of, view, reference.buffer)?;
            let space = match buffer {
                BufferKind::Scratch if packets => Space::Packets,
                _ if packets => {
                    return at.error(format!("packets in the {buffer} buffer, expected scratch"));
                }
                BufferKind::Input => Space::Input,
                BufferKind::Output => Space::Output,
                BufferKind::Scratch => Space::Scratch,
            };
            match owners {
                Owners::One(rank) => self.operand(at, rank, buffer, space, reference)?,
                Owners::Group(members) => {
                    for member in members {
                        self.operand(at, self.tables.members[member as usize], buffer, space, reference)?;
                    }
                }
            }
        }
        Ok((self.program.operands.len() - first) as u32)
    }

    /// Returns the buffer that a reference names, and the ranks that own it.
    fn owners<'a>(
        &self,
        at: At,
        of: &BlockTables<'a>,
        view: &OpView<'a>,
        place: BufferRef,
    ) -> Result<(BufferKind, Owners), Error> {
        match place {
            BufferRef::Local(buffer) => Ok((buffer, Owners::One(of.rank))),
            BufferRef::Remote(number) => {
                let Some(kind) = view.channel() else {
                    return at.error("a remote operand without a channel kind");
                };
                let id = match entry(&of.remote[kind as usize], number) {
                    Ok(id) => id,
                    Err(have) => {
                        return at.error(format!("{kind} remote buffer {number}, but its thread block has {have}"));
                    }
                };
                let Some(remote) = self.tables.remote.get(id as usize) else {
                    let have = self.tables.remote.len();
                    return at.error(format!("remote buffer {id}, but its rank has {have}"));
                };
                Ok((remote.buffer, Owners::One(remote.rank)))
            }
            BufferRef::Switch(number) => {
                let id = match entry(&of.channels[ChannelKind::Switch as usize], number) {
                    Ok(id) => id,
                    Err(have) => {
                        return at.error(format!("switch channel {number}, but its thread block has {have}"));
                    }
                };
                let Some(&(buffer, first, len)) = self.tables.switches.get(id as usize) else {
                    let have = self.tables.switches.len();
                    return at.error(format!("switch channel {id}, but its rank has {have}"));
                };
                Ok((buffer, Owners::Group(first..first + len)))
            }
        }
    }

    fn operand(
        &mut self,
        at: At,
        rank: u32,
        buffer: BufferKind,
        space: Space,
        chunk: plan::raw::Operand,
    ) -> Result<(), Error> {
        let have = self.chunks[rank as usize][buffer as usize];
        let plan::raw::Operand { index, size, .. } = chunk;
        if index.checked_add(size).is_none_or(|end| end > have) {
            let end = u64::from(index) + u64::from(size);
            return at.error(format!("chunks {index}..{end} of rank {rank}'s {buffer}, which has {have} chunks"));
        }
        if self.program.operands.len() >= MAX_OPERANDS {
            return at.error(format!(
                "more than {MAX_OPERANDS} operands in total, where a multicast operand counts once per member"
            ));
        }
        self.program.operands.push(Operand { rank, index, size, space });
        Ok(())
    }
}
