//! Records of thread blocks: what a thread block reads first, in one place, so that all of it is in flight at once.
//!
//! A record has the thread block's [`abi::Block`] and its first instructions, operands and ids, as many as its instruction
//! cache holds. All records of a device have the same layout, which is in the kernel parameters; unused entries are zero.
//! Later instructions are read from the tables.

use std::ops::Range;

use mscclpp_cuda::abi;

/// Number of entries of each kind in a record, and its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    instrs: u32,
    operands: u32,
    ids: u32,
    bytes: u32,
}

/// Alignment of records: sectors of memory that one request reads.
const ALIGNMENT: u32 = 128;

/// Returns the range of the entries of a table that a thread block's cache holds first.
fn entries(first: u32, end: u32, most: u32) -> Range<usize> {
    first as usize..end.min(first.saturating_add(most)).max(first) as usize
}

/// Returns the ranges of a thread block's first instructions, operands and ids.
fn parts(block: &abi::Block) -> [Range<usize>; 3] {
    [
        entries(block.first, block.end, abi::CACHED_INSTRS),
        entries(block.operands, block.operands_end, abi::CACHED_OPERANDS),
        entries(block.ids, block.ids_end, abi::CACHED_IDS),
    ]
}

impl Layout {
    pub(super) fn new(blocks: &[abi::Block]) -> Self {
        let mut layout = Self::default();
        for [instrs, operands, ids] in blocks.iter().map(parts) {
            layout.instrs = layout.instrs.max(instrs.len() as u32);
            layout.operands = layout.operands.max(operands.len() as u32);
            layout.ids = layout.ids.max(ids.len() as u32);
        }
        let [.., bytes] = layout.offsets();
        layout.bytes = (bytes as u32).next_multiple_of(ALIGNMENT);
        layout
    }

    /// Returns the offsets of a record's instructions, operands and ids, and of its end.
    fn offsets(&self) -> [usize; 4] {
        let instrs = size_of::<abi::Block>();
        let operands = instrs + self.instrs as usize * size_of::<abi::Instr>();
        let ids = operands + self.operands as usize * size_of::<abi::Operand>();
        [instrs, operands, ids, ids + self.ids as usize * size_of::<abi::Id>()]
    }

    /// Returns the bytes of the records of a number of thread blocks.
    pub(super) fn bytes(&self, blocks: usize) -> usize {
        blocks * self.bytes as usize
    }

    /// Writes the records of thread blocks into zeros, one after the other.
    pub(super) fn write(
        &self,
        blocks: &[abi::Block],
        (instrs, operands, ids): (&[abi::Instr], &[abi::Operand], &[abi::Id]),
        records: &mut [u8],
    ) {
        let [instrs_at, operands_at, ids_at, _] = self.offsets();
        for (record, block) in records.chunks_exact_mut(self.bytes.max(1) as usize).zip(blocks) {
            let [of_instrs, of_operands, of_ids] = parts(block);
            let sources: [(usize, &[u8]); 4] = [
                (0, bytemuck::bytes_of(block)),
                (instrs_at, bytemuck::cast_slice(&instrs[of_instrs])),
                (operands_at, bytemuck::cast_slice(&operands[of_operands])),
                (ids_at, bytemuck::cast_slice(&ids[of_ids])),
            ];
            for (at, source) in sources {
                record[at..at + source.len()].copy_from_slice(source);
            }
        }
    }

    /// Sets the kernel parameters for records at an address.
    pub(super) fn fill(&self, address: u64, launch: &mut abi::LaunchParams) {
        launch.records = address;
        launch.record_bytes = self.bytes;
        launch.record_instrs = self.instrs;
        launch.record_operands = self.operands;
        launch.record_ids = self.ids;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(blocks: &[abi::Block], tables: (&[abi::Instr], &[abi::Operand], &[abi::Id])) -> (Vec<u8>, Layout) {
        let layout = Layout::new(blocks);
        let mut bytes = vec![0; layout.bytes(blocks.len())];
        layout.write(blocks, tables, &mut bytes);
        (bytes, layout)
    }

    fn block(first: u32, end: u32, operands: [u32; 2], ids: [u32; 2]) -> abi::Block {
        let [operands, operands_end] = operands;
        let [ids, ids_end] = ids;
        abi::Block { first, end, operands, operands_end, ids, ids_end, ..bytemuck::Zeroable::zeroed() }
    }

    #[test]
    fn record_has_first_entries_of_its_block() {
        let instrs: Vec<_> = (0..50).map(|op| abi::Instr { size: op, ..bytemuck::Zeroable::zeroed() }).collect();
        let operands: Vec<_> = (0..300).map(|index| abi::Operand { index, ..bytemuck::Zeroable::zeroed() }).collect();
        let ids: Vec<_> = (0..20).map(|number| abi::Id { number, ..bytemuck::Zeroable::zeroed() }).collect();
        let blocks = [block(0, 3, [0, 5], [0, 0]), block(3, 50, [5, 300], [0, 20])];
        let (bytes, layout) = records(&blocks, (&instrs, &operands, &ids));
        let total = 48 + 32 * 64 + 192 * 16 + 20 * 32_u32;
        assert_eq!(layout, Layout { instrs: 32, operands: 192, ids: 20, bytes: total.next_multiple_of(ALIGNMENT) });
        let second = &bytes[layout.bytes as usize..];
        assert_eq!(second.len(), layout.bytes as usize);
        assert_eq!(second[..48], *bytemuck::bytes_of(&blocks[1]));
        assert_eq!(second[48..][..32 * 64], *bytemuck::cast_slice::<_, u8>(&instrs[3..35]));
        assert_eq!(second[48 + 32 * 64..][..192 * 16], *bytemuck::cast_slice::<_, u8>(&operands[5..197]));
        assert_eq!(second[48 + 32 * 64 + 192 * 16..][..20 * 32], *bytemuck::cast_slice::<_, u8>(&ids));
        // Entries that a block does not have are zero, not those of the next one.
        assert!(bytes[48 + 3 * 64..][..29 * 64].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn records_without_blocks_are_empty() {
        let (bytes, layout) = records(&[], (&[], &[], &[]));
        assert_eq!((bytes.len(), layout.instrs), (0, 0));
    }
}
