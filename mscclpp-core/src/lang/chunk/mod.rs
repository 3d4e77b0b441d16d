//! References to chunks and their operations.

mod data;
mod packets;
mod parts;
mod switch;
mod sync;
mod target;

use super::context::ProgramContext;
use crate::diag::Code;
use crate::dsl::registry::ChunkValue;
use crate::dsl::{AnyBuffer, Chunk, Program, Rank};
use crate::types::BufferKind;

/// Some chunks of one rank's buffer. Created by [`ProgramContext::chunk`], and by operations as the reference to their
/// result.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRef<'c> {
    context: &'c ProgramContext<'c>,
    value: ChunkValue,
}

impl PartialEq for ChunkRef<'_> {
    /// Returns whether both refer to the same chunks of the same rank.
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<'c> ChunkRef<'c> {
    pub(super) fn new(context: &'c ProgramContext<'c>, rank: u32, buffer: BufferKind, index: u32, size: u32) -> Self {
        Self { context, value: ChunkValue { rank, buffer, index, size } }
    }

    /// Returns a reference for which a diagnostic has been reported; operations on it record nothing.
    pub(super) fn poison(context: &'c ProgramContext<'c>) -> Self {
        Self { context, value: ChunkValue::POISON }
    }

    /// Returns the rank.
    pub fn rank(&self) -> usize {
        self.value.rank as usize
    }

    /// Returns the buffer; in place, the larger of input and output.
    pub fn buffer(&self) -> BufferKind {
        self.value.buffer
    }

    /// Returns the first chunk.
    pub fn index(&self) -> usize {
        self.value.index as usize
    }

    /// Returns the number of chunks.
    pub fn size(&self) -> usize {
        self.value.size as usize
    }

    fn is_poison(&self) -> bool {
        self.value.is_poison()
    }

    fn program(&self) -> &'c Program {
        self.context.program()
    }

    fn own_rank(&self) -> Rank<'c> {
        self.program().rank(self.rank())
    }

    /// Returns the value in chunks of the program.
    fn scaled(&self) -> ChunkValue {
        let scale = self.context.scale();
        ChunkValue { index: self.value.index * scale, size: self.value.size * scale, ..self.value }
    }

    fn range(&self) -> std::ops::Range<u32> {
        let scaled = self.scaled();
        scaled.index..scaled.index + scaled.size
    }

    fn plain(&self) -> Chunk<'c, AnyBuffer> {
        Chunk::new(self.program(), self.scaled())
    }

    #[track_caller]
    fn file(&self, code: Code, message: String, help: impl Into<String>) {
        self.context.file(code, message, help);
    }
}

/// Prints a text such as `input chunks 0..2 of rank 1`.
impl std::fmt::Display for ChunkRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ChunkValue { rank, buffer, index, size } = self.value;
        match size {
            1 => write!(f, "{buffer} chunk {index} of rank {rank}"),
            _ => write!(f, "{buffer} chunks {index}..{} of rank {rank}", index + size),
        }
    }
}
