//! Thread blocks with the same operations on different chunks and channels have one shape, and share their code.

use std::collections::BTreeMap;

use mscclpp_core::plan::raw::OpKind;

use super::super::abi;
use super::super::tables;
use super::NotSpecialized;
use super::write::{MAX_OPERANDS, is_supported};
use mscclpp_base::interpret::program::{Operand, ResolvedPlan, Space};

/// One operation, as far as it is equal in all blocks of a shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Op {
    pub(super) kind: OpKind,
    pub(super) opcode: abi::Opcode,
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
    /// Whether each source, and each destination, is packets.
    pub(super) packet_srcs: Vec<bool>,
    pub(super) packet_dsts: Vec<bool>,
}

/// The slice of its operands that an operation processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slice {
    All,
    /// The block's slice, of this number of slices.
    Own(u32),
    /// Slice and number of slices.
    Of(u32, u32),
}

/// Values that distinguish a block from others of its shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) instr: u32,
    pub(super) operand: u32,
    pub(super) id: u32,
    pub(super) fifo: u32,
    pub(super) slice: u32,
    pub(super) shape: usize,
}

/// All blocks, in their order, and their shapes.
pub(super) struct Shapes {
    pub(super) shapes: Vec<Vec<Op>>,
    pub(super) blocks: Vec<Block>,
}

impl Shapes {
    /// Finds the shapes of a device's blocks. `switched`: operations that go through switches.
    ///
    /// # Errors
    /// [`NotSpecialized::TooLarge`] if there are more operations in all shapes than `most`,
    /// [`NotSpecialized::TooWide`], [`NotSpecialized::Unsupported`].
    pub(super) fn new(
        program: &ResolvedPlan,
        agents: &[abi::Block],
        switched: &[bool],
        most: usize,
    ) -> Result<Self, NotSpecialized> {
        let mut known: BTreeMap<Vec<Op>, usize> = BTreeMap::new();
        let mut blocks = Vec::with_capacity(agents.len());
        let mut operations = 0;
        for agent in agents {
            let (mut block, ops) = of_block(program, agent, switched);
            if let Some(&Op { srcs, dsts, .. }) = ops.iter().find(|op| op.srcs.max(op.dsts) > MAX_OPERANDS) {
                return Err(NotSpecialized::TooWide { sources: srcs, destinations: dsts, most: MAX_OPERANDS });
            }
            if let Some(op) = ops.iter().find(|op| !is_supported(op.opcode)) {
                return Err(NotSpecialized::Unsupported { operation: op.kind.name() });
            }
            block.shape = match known.get(&ops) {
                Some(&shape) => shape,
                None => {
                    operations += ops.len();
                    let shape = known.len();
                    known.insert(ops, shape);
                    shape
                }
            };
            blocks.push(block);
            if operations > most {
                let (shapes, seen, blocks) = (known.len(), blocks.len(), agents.len());
                return Err(NotSpecialized::TooLarge { operations, shapes, seen, blocks, most });
            }
        }
        let mut shapes = vec![Vec::new(); known.len()];
        for (ops, shape) in known {
            shapes[shape] = ops;
        }
        Ok(Self { shapes, blocks })
    }
}

fn of_block(program: &ResolvedPlan, agent: &abi::Block, switched: &[bool]) -> (Block, Vec<Op>) {
    let instrs = &program.instrs[agent.first as usize..agent.end as usize];
    // If all slices have the same index, the index is a property of the block, not of the shape.
    let mut own = instrs.iter().filter(|instr| instr.slice.1 > 1).map(|instr| instr.slice.0);
    let slice = own.next();
    let all_own = own.all(|index| Some(index) == slice);
    let block = Block {
        instr: agent.first,
        operand: agent.operands,
        id: agent.ids,
        fifo: agent.fifo,
        slice: slice.unwrap_or(0),
        shape: 0,
    };
    let ops = instrs.iter().zip(&switched[agent.first as usize..]).map(|(instr, &switched)| {
        let abi::Instr { opcode, flags, reduce, operands, srcs, dsts, ids, count, body, unit, size, .. } =
            tables::lower(program, instr);
        let packets = |operand: &Operand| operand.space == Space::Packets;
        Op {
            kind: instr.kind,
            opcode: if switched { tables::switch_opcode(opcode) } else { opcode },
            flags,
            reduce,
            srcs,
            dsts,
            ids,
            operand: operands - block.operand,
            id: instr.first_id - block.id,
            slice: match instr.slice {
                (_, 0 | 1) => Slice::All,
                (_, of) if all_own => Slice::Own(of),
                (index, of) => Slice::Of(index, of),
            },
            count,
            body,
            unit,
            size,
            packet_srcs: program.srcs(instr)[(instr.srcs - srcs) as usize..].iter().map(packets).collect(),
            packet_dsts: program.dsts(instr).iter().map(packets).collect(),
        }
    });
    (block, ops.collect())
}
