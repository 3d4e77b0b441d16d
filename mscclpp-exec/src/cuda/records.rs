//! Records of thread blocks: what a thread block reads first, in one place, so that all of it is in flight at once.
//!
//! A record has the thread block's [`abi::Block`] and its first instructions, operands and ids, as many as its instruction
//! cache holds. All records of a device have the same layout, which is in the kernel parameters; unused entries are zero.
//! Later instructions are read from the tables.

use mscclpp_cuda::abi;
use mscclpp_cuda::device::Device;
use mscclpp_cuda::driver;
use mscclpp_cuda::memory::DeviceMemory;

/// The records of a device's thread blocks, in device memory.
pub(super) struct Records {
    memory: DeviceMemory,
    layout: Layout,
}

/// Number of entries of each kind in a record, and its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Layout {
    instrs: u32,
    operands: u32,
    ids: u32,
    bytes: u32,
}

/// Alignment of records: sectors of memory that one request reads.
const ALIGNMENT: u32 = 128;

/// Entries of tables that a thread block's cache holds first.
fn entries<T>(table: &[T], first: u32, end: u32, most: u32) -> &[T] {
    &table[first as usize..end.min(first.saturating_add(most)).max(first) as usize]
}

fn parts<'a>(
    block: &abi::Block,
    (instrs, operands, ids): (&'a [abi::Instr], &'a [abi::Operand], &'a [abi::Id]),
) -> (&'a [abi::Instr], &'a [abi::Operand], &'a [abi::Id]) {
    (
        entries(instrs, block.first, block.end, abi::CACHED_INSTRS),
        entries(operands, block.operands, block.operands_end, abi::CACHED_OPERANDS),
        entries(ids, block.ids, block.ids_end, abi::CACHED_IDS),
    )
}

/// Returns the records of thread blocks, one after the other.
fn records(blocks: &[abi::Block], tables: (&[abi::Instr], &[abi::Operand], &[abi::Id])) -> (Vec<u8>, Layout) {
    let mut layout = Layout::default();
    for block in blocks {
        let (instrs, operands, ids) = parts(block, tables);
        layout.instrs = layout.instrs.max(instrs.len() as u32);
        layout.operands = layout.operands.max(operands.len() as u32);
        layout.ids = layout.ids.max(ids.len() as u32);
    }
    let instrs_at = size_of::<abi::Block>();
    let operands_at = instrs_at + layout.instrs as usize * size_of::<abi::Instr>();
    let ids_at = operands_at + layout.operands as usize * size_of::<abi::Operand>();
    let bytes = ids_at + layout.ids as usize * size_of::<abi::Id>();
    layout.bytes = (bytes as u32).next_multiple_of(ALIGNMENT);
    let mut records = vec![0_u8; blocks.len() * layout.bytes as usize];
    for (record, block) in records.chunks_exact_mut(layout.bytes as usize).zip(blocks) {
        let (instrs, operands, ids) = parts(block, tables);
        let sources: [(usize, &[u8]); 4] = [
            (0, bytemuck::bytes_of(block)),
            (instrs_at, bytemuck::cast_slice(instrs)),
            (operands_at, bytemuck::cast_slice(operands)),
            (ids_at, bytemuck::cast_slice(ids)),
        ];
        for (at, source) in sources {
            record[at..at + source.len()].copy_from_slice(source);
        }
    }
    (records, layout)
}

impl Records {
    pub(super) fn new(
        device: &Device,
        blocks: &[abi::Block],
        tables: (&[abi::Instr], &[abi::Operand], &[abi::Id]),
    ) -> driver::Result<Self> {
        let (bytes, layout) = records(blocks, tables);
        Ok(Self { memory: DeviceMemory::holding(device.driver(), &bytes)?, layout })
    }

    /// Sets the kernel parameters.
    pub(super) fn fill(&self, launch: &mut abi::LaunchParams) {
        launch.records = self.memory.address();
        launch.record_bytes = self.layout.bytes;
        launch.record_instrs = self.layout.instrs;
        launch.record_operands = self.layout.operands;
        launch.record_ids = self.layout.ids;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
