//! Resolves the channels, semaphores and barriers on which an operation waits or which it releases.

use mscclpp_core::plan::image::OpView;
use mscclpp_core::types::ChannelKind;

use super::{At, BlockTables, Resolver, entry};
use crate::error::Error;
use crate::interpret::program::{Barrier, Opcode};

impl Resolver {
    pub(super) fn sync(
        &mut self,
        at: At,
        action: Opcode,
        of: &BlockTables<'_>,
        view: &OpView<'_>,
    ) -> Result<bool, Error> {
        let kind = match view.channel() {
            Some(kind @ (ChannelKind::Memory | ChannelKind::Port)) => kind,
            Some(ChannelKind::Switch) => return at.error("a switch channel, which has no signals"),
            None => return at.error("no kind of channel"),
        };
        if action == Opcode::Flush && kind != ChannelKind::Port {
            return at.error(format!("a flush of a {kind} channel, expected a port channel"));
        }
        let ids = self.channel_ids(at, kind, of, view)?;
        let instr = self.last();
        (instr.action, instr.ids) = (action, ids);
        Ok(matches!(action, Opcode::PortSignal | Opcode::Flush))
    }

    /// Adds an operation's channels to the ids.
    pub(super) fn channel_ids(
        &mut self,
        at: At,
        kind: ChannelKind,
        of: &BlockTables<'_>,
        view: &OpView<'_>,
    ) -> Result<u32, Error> {
        let first = self.program.ids.len();
        let (table, (start, have)) = (&of.channels[kind as usize], self.tables.channels[kind as usize]);
        for number in view.ids() {
            let id = match entry(table, number) {
                Ok(id) => id,
                Err(have) => return at.error(format!("{kind} channel {number}, but its thread block has {have}")),
            };
            if id >= have {
                return at.error(format!("{kind} channel {id}, but its rank has {have}"));
            }
            self.program.ids.push(start + id);
        }
        Ok((self.program.ids.len() - first) as u32)
    }

    pub(super) fn semaphore(&mut self, at: At, action: Opcode, view: &OpView<'_>) -> Result<bool, Error> {
        let (first, have) = self.tables.semaphores;
        for id in view.ids() {
            if id >= have {
                return at.error(format!("semaphore {id}, but its rank has {have}"));
            }
            self.program.ids.push(first + id);
        }
        let ids = view.ids().len() as u32;
        let instr = self.last();
        (instr.action, instr.ids) = (action, ids);
        Ok(false)
    }

    pub(super) fn barrier(&mut self, at: At, view: &OpView<'_>) -> Result<bool, Error> {
        let count = view.num_blocks();
        let mut ids = view.ids();
        let (Some(id), None) = (ids.next(), ids.next()) else {
            return at.error("a barrier whose number of ids is not 1");
        };
        if count == 0 {
            return at.error("a barrier of 0 thread blocks, expected at least 1");
        }
        let barriers = &mut self.program.barriers;
        let position = *self.tables.barriers.entry(id).or_insert_with(|| {
            barriers.push(Barrier { id });
            barriers.len() as u32 - 1
        });
        self.program.ids.push(position);
        let instr = self.last();
        (instr.action, instr.count, instr.ids) = (Opcode::Barrier, count, 1);
        Ok(false)
    }
}
