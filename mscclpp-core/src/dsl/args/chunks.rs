//! Chunks, alone and in lists.

use super::{AnyChunk, ChunkList, ChunkValues, InputList, OutputChunk, PacketChunk, PacketList};
use crate::dsl::buffer::{BufferMarker, Chunk, Input, Output, Scratch};
use crate::dsl::program::Program;
use crate::dsl::value::ChunkValue;

impl<S: BufferMarker> AnyChunk for Chunk<'_, S> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

impl PacketChunk for Chunk<'_, Scratch> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

impl OutputChunk for Chunk<'_, Output> {
    fn resolve(self, program: &Program) -> ChunkValue {
        self.value_in(program)
    }
}

macro_rules! for_chunk_lists {
    ($trait:ident, [$($generics:tt)*] $chunk:ty) => {
        impl<'p, $($generics)*> $trait for $chunk {
            fn resolve(self, program: &Program) -> ChunkValues {
                std::iter::once(self.value_in(program)).collect()
            }
        }
        impl<'p, $($generics)*> $trait for &[$chunk] {
            fn resolve(self, program: &Program) -> ChunkValues {
                self.iter().map(|chunk| chunk.value_in(program)).collect()
            }
        }
        impl<'p, $($generics)*> $trait for Vec<$chunk> {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)*> $trait for &Vec<$chunk> {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)* const N: usize> $trait for [$chunk; N] {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
        impl<'p, $($generics)* const N: usize> $trait for &[$chunk; N] {
            fn resolve(self, program: &Program) -> ChunkValues {
                $trait::resolve(self.as_slice(), program)
            }
        }
    };
}

for_chunk_lists! { ChunkList, [S: BufferMarker,] Chunk<'p, S> }
for_chunk_lists! { PacketList, [] Chunk<'p, Scratch> }
for_chunk_lists! { InputList, [] Chunk<'p, Input> }
