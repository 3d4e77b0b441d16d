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
/// Type of buffer: scratch, where packets can live.
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

// Derived impls would ask for `S: Clone`.
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

    /// The value, or poison and a diagnostic if the chunk belongs to another program.
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
        /// The number of chunks.
        fn len(this) -> usize {
            this.value.len as usize
        }

        /// Whether the buffer has no chunks.
        fn is_empty(this) -> bool {
            this.value.len == 0
        }

        /// The chunk at an index (`0`), or the chunks of a range (`0..2`, `2..`, `..`) as one.
        ///
        /// # Errors
        /// Files M0004 when the range leaves the buffer, M0005 when it is reversed, M0006 when it is empty.
        fn chunk(this, range: ChunkRange) -> Chunk<'p, S> {
            Chunk::new(this.program, this.program.recorder().chunk(this.value, range))
        }
    }
}

dsl! {
    table CHUNK; by value self; for [Chunk<'static, AnyBuffer>];
    impl['p, S] Chunk<'p, S> {
        /// The first chunk's index in its buffer (scratch: in all of the rank's scratch).
        fn index(this) -> usize {
            this.value.index as usize
        }

        /// The number of chunks.
        fn len(this) -> usize {
            this.value.size as usize
        }

        /// Whether the chunk is empty: never, since empty ranges are refused.
        fn is_empty(this) -> bool {
            this.value.size == 0
        }

        /// The same chunk as one of any buffer, so that chunks of different buffers go into one list.
        fn to_any(this) -> Chunk<'p, AnyBuffer> {
            Chunk::new(this.program, this.value)
        }
    }
}

impl BufferValue {
    /// A buffer that operations ignore.
    pub(crate) fn poison(buffer: BufferKind) -> Self {
        Self { rank: super::value::POISON, buffer, start: 0, len: 0 }
    }
}
