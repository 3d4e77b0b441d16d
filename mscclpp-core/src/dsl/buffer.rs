//! Buffers and chunks.

use std::marker::PhantomData;

use super::args::ChunkRange;
use super::program::Program;
use super::value::{BufferValue, ChunkValue};
use crate::types::BufferKind;

/// Type of buffer: the caller's input.
#[derive(Clone, Copy, Debug)]
pub enum Input {}
/// Type of buffer: the caller's output.
#[derive(Clone, Copy, Debug)]
pub enum Output {}
/// Type of buffer: scratch, which can hold packets.
#[derive(Clone, Copy, Debug)]
pub enum Scratch {}
/// Type of buffer: one of the three; see [`Chunk::to_any`].
#[derive(Clone, Copy, Debug)]
pub enum AnyBuffer {}

/// Implemented by [`Input`], [`Output`], [`Scratch`] and [`AnyBuffer`].
pub trait BufferMarker {}
impl BufferMarker for Input {}
impl BufferMarker for Output {}
impl BufferMarker for Scratch {}
impl BufferMarker for AnyBuffer {}

/// A buffer of one rank, or for scratch one allocation of it.
pub struct Buffer<'p, S> {
    program: &'p Program,
    value: BufferValue,
    kind: PhantomData<S>,
}

/// A range of chunks of one rank's buffer. A value: it can be kept, copied and used in any number of operations.
pub struct Chunk<'p, S> {
    program: &'p Program,
    value: ChunkValue,
    kind: PhantomData<S>,
}

// A derived impl would require `S: Clone`.
impl<S> Clone for Buffer<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Buffer<'_, S> {}
impl<S> Clone for Chunk<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Chunk<'_, S> {}

impl<S> std::fmt::Debug for Buffer<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}
impl<S> std::fmt::Debug for Chunk<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.value.fmt(f)
    }
}

impl<'p, S> Buffer<'p, S> {
    pub(super) fn new(program: &'p Program, value: BufferValue) -> Self {
        Self { program, value, kind: PhantomData }
    }

    pub(super) fn value(&self) -> BufferValue {
        self.value
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

impl<'p, S> Chunk<'p, S> {
    pub(crate) fn new(program: &'p Program, value: ChunkValue) -> Self {
        Self { program, value, kind: PhantomData }
    }

    pub(super) fn value(&self) -> ChunkValue {
        self.value
    }

    /// Returns the value, or a poison value and a diagnostic if the chunk belongs to another program.
    pub(super) fn value_in(&self, program: &Program) -> ChunkValue {
        if program.owns(self.program) {
            self.value
        } else {
            program.foreign("chunk");
            ChunkValue::POISON
        }
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

dsl! {
    table BUFFER; by value self; for [Buffer<'static, AnyBuffer>];
    impl['p, S] Buffer<'p, S> {
        /// Returns the number of chunks.
        fn len(this) -> usize {
            this.value.len as usize
        }

        /// Returns whether the buffer has no chunks.
        fn is_empty(this) -> bool {
            this.value.len == 0
        }

        /// Returns the chunk at an index (`0`), or the chunks of a range (`0..2`, `2..`, `..`) as one.
        ///
        /// # Errors
        /// Reports M0004 if the range exceeds the buffer, M0005 if it is reversed, M0006 if it is empty.
        fn chunk(this, range: ChunkRange) -> Chunk<'p, S> {
            Chunk::new(this.program, this.program.recorder().chunk(this.value, range))
        }
    }
}

dsl! {
    table CHUNK; by value self; for [Chunk<'static, AnyBuffer>];
    impl['p, S] Chunk<'p, S> {
        /// Returns the first chunk's index in its buffer (scratch: in all of the rank's scratch).
        fn index(this) -> usize {
            this.value.index as usize
        }

        /// Returns the number of chunks.
        fn len(this) -> usize {
            this.value.size as usize
        }

        /// Returns whether the chunk is empty: never, since empty ranges are rejected.
        fn is_empty(this) -> bool {
            this.value.size == 0
        }

        /// Returns the same chunk as one of any buffer, so that one list can contain chunks of different buffers.
        fn to_any(this) -> Chunk<'p, AnyBuffer> {
            Chunk::new(this.program, this.value)
        }
    }
}

impl BufferValue {
    /// Returns a buffer that operations ignore.
    pub(crate) fn poison(buffer: BufferKind) -> Self {
        Self { rank: super::value::POISON, buffer, start: 0, len: 0 }
    }
}
