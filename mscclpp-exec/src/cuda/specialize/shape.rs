//! Thread blocks with the same operations on different chunks and channels have one shape, and share their code.

use std::collections::BTreeMap;

use mscclpp_core::plan::raw::OpKind;

use super::super::tables;
use super::NotSpecialized;
use super::write::{MAX_OPERANDS, is_supported};
use mscclpp_base::interpret::program::{Operand, ResolvedPlan, Space};
use mscclpp_cuda::abi;

/// One operation, as far as it is equal in all blocks of a shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    pub(super) opcode: abi::Opcode,
    /// Whether it goes through a switch that cannot perform the reduction, and through one that can.
    pub(super) switched: [bool; 2],
    pub(super) flags: u8,
    pub(super) reduce: abi::Reduction,
    pub(super) srcs: u32,
    pub(super) dsts: u32,
    pub(super) ids: u32,
    /// First operand and id, relative to the block's.
    pub(super) operand: u32,
    pub(super) id: u32,
    pub(super) slice: Slice,
    pub(super) count: u32,
    pub(super) body: u32,
    pub(super) unit: u64,
    pub(super) size: u32,
    /// Whether sources are packets: in a reduction all but one, at a position that differs between ranks.
    pub(super) packet_srcs: bool,
    /// Whether each destination is packets.
    pub(super) packet_dsts: Vec<bool>,
}

/// The slice of its operands that an operation processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slice {
    All,
    /// The block's slice, which may be all.
    Own,
    /// Slice and number of slices.
    Of(u32, u32),
}

/// All blocks, in their order, and their shapes.
pub(super) struct Shapes {
    pub(super) shapes: Vec<Vec<Op>>,
    /// By block: its shape.
    pub(super) blocks: Vec<u32>,
}

impl Shapes {
    /// Finds the shapes of a device's blocks. `switched`: operations that go through switches, as [`Op::switched`].
    ///
    /// # Errors
    /// [`NotSpecialized::TooLarge`] if there are more operations in all shapes than `most`,
    /// [`NotSpecialized::TooWide`], [`NotSpecialized::Unsupported`].
    pub(super) fn new(
        program: &ResolvedPlan,
        agents: &[abi::Block],
        switched: &[Vec<bool>; 2],
        most: usize,
    ) -> Result<Self, NotSpecialized> {
        let mut known: BTreeMap<Vec<Op>, u32> = BTreeMap::new();
        let mut blocks = Vec::with_capacity(agents.len());
        let mut operations = 0;
        for agent in agents {
            let ops = ops_of(program, agent, switched);
            if let Some(&Op { srcs, dsts, .. }) = ops.iter().find(|op| op.srcs.max(op.dsts) > MAX_OPERANDS) {
                return Err(NotSpecialized::TooWide { sources: srcs, destinations: dsts, most: MAX_OPERANDS });
            }
            if let Some(op) = ops.iter().find(|op| !is_supported(op.opcode)) {
                return Err(NotSpecialized::Unsupported { operation: op.kind.name() });
            }
            let (next, count) = (known.len() as u32, ops.len());
            let shape = *known.entry(ops).or_insert(next);
            operations += if shape == next { count } else { 0 };
            blocks.push(shape);
            if operations > most {
                let (shapes, seen, blocks) = (known.len(), blocks.len(), agents.len());
                return Err(NotSpecialized::TooLarge { operations, shapes, seen, blocks, most });
            }
        }
        let mut shapes = vec![Vec::new(); known.len()];
        for (ops, shape) in known {
            shapes[shape as usize] = ops;
        }
        Ok(Self { shapes, blocks })
    }

    /// Returns whether an operation combines, normalizes or counts elements, whose type its code depends on.
    pub(super) fn depend_on_type(&self) -> bool {
        use abi::Opcode as Is;
        let is_typed = |op: &Op| {
            // One source that is stored to many destinations is no combination; a copy through a switch may be.
            let combines = op.switched.contains(&true) || op.opcode == Is::REDUCE && op.srcs > 1;
            combines || matches!(op.opcode, Is::SWITCH | Is::ROW_NORM | Is::EXCHANGE_COUNTS | Is::COPY_COUNTED)
        };
        self.shapes.iter().flatten().any(is_typed)
    }
}

fn ops_of(program: &ResolvedPlan, agent: &abi::Block, switched: &[Vec<bool>; 2]) -> Vec<Op> {
    let block = agent.first as usize..agent.end as usize;
    let instrs = &program.instrs[block.clone()];
    let own = (agent.slice_index, agent.slice_of);
    // If all slices are the same, the slice is a property of the block, not of the shape.
    let all_own = instrs.iter().all(|instr| instr.slice.1 <= 1 || instr.slice == own);
    let ops = instrs.iter().zip(block).map(|(instr, at)| {
        let is_counted = instr.counted.is_some();
        let abi::Instr { opcode, flags, reduce, operands, srcs, dsts, ids, count, body, unit, size, .. } =
            tables::lower(program, instr);
        let packets = |operand: &Operand| operand.space == Space::Packets;
        Op {
            kind: instr.kind,
            opcode,
            switched: [switched[0][at], switched[1][at]],
            flags,
            reduce,
            srcs,
            dsts,
            ids,
            operand: operands - agent.operands,
            id: instr.first_id - agent.ids,
            slice: match instr.slice {
                // So that blocks with and without slices share a shape.
                (_, 0 | 1) if own.1 <= 1 => Slice::Own,
                (_, 0 | 1) => Slice::All,
                _ if all_own => Slice::Own,
                (index, of) => Slice::Of(index, of),
            },
            // A count is that of a rank, and read from the instruction.
            // That of a reduction says which sources are packets.
            count: if is_counted || opcode == abi::Opcode::REDUCE { 0 } else { count },
            body: if is_counted { 0 } else { body },
            unit,
            size,
            packet_srcs: program.srcs(instr).iter().any(packets),
            packet_dsts: program.dsts(instr).iter().map(packets).collect(),
        }
    });
    ops.collect()
}
