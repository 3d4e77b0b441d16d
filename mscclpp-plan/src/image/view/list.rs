//! Lists of numbers and operands.

use std::ops::Range;

use super::super::layout::*;
use super::Table;
use crate::types::BufferKind;
use crate::{BufferRef, Operand};

/// A list of numbers of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    words: Words<'a>,
    /// Their words.
    at: Range<usize>,
}

impl<'a> Numbers<'a> {
    #[inline]
    pub(super) fn new(words: Words<'a>, table: Table, first: usize, len: usize) -> Self {
        let Range { start, end } = table.range(first, len);
        Self { words, at: table.start + start..table.start + end }
    }

    /// Returns the number at a position, in constant time; `None` past the end.
    #[inline]
    pub fn get(&self, position: u32) -> Option<u32> {
        let at = self.at.start.saturating_add(position as usize);
        (at < self.at.end).then(|| self.words.get(at) as u32)
    }

    /// Returns whether no number is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.at.next().map(|at| self.words.get(at) as u32)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.at.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<u32> {
        self.at.nth(n).map(|at| self.words.get(at) as u32)
    }
}

impl ExactSizeIterator for Numbers<'_> {}

/// A list of operands of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct OperandList<'a> {
    words: Words<'a>,
    /// First word of the table.
    table: usize,
    /// Their positions in the table.
    at: Range<usize>,
}

impl<'a> OperandList<'a> {
    #[inline]
    pub(super) fn new(words: Words<'a>, table: Table, first: usize, len: usize) -> Self {
        Self { words, table: table.start, at: table.range(first, len) }
    }

    /// Returns the operand at a position, in constant time; `None` past the end.
    #[inline]
    pub fn get(&self, position: u32) -> Option<Operand> {
        let at = self.at.start.saturating_add(position as usize);
        (at < self.at.end).then(|| self.read(at))
    }

    /// Returns whether no operand is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at.is_empty()
    }

    #[inline]
    fn read(&self, at: usize) -> Operand {
        let [place, index, size] = self.words.several(self.table + at * REF);
        let buffer = match place.checked_sub(PLACE_REMOTE) {
            None => BufferRef::Local(BufferKind::ALL[place as usize]),
            Some(number) if number & 1 == 0 => BufferRef::Remote((number >> 1) as u32),
            Some(number) => BufferRef::Switch((number >> 1) as u32),
        };
        Operand::new(buffer, index as u32, size as u32)
    }
}

impl Iterator for OperandList<'_> {
    type Item = Operand;

    #[inline]
    fn next(&mut self) -> Option<Operand> {
        self.at.next().map(|at| self.read(at))
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.at.size_hint()
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<Operand> {
        self.at.nth(n).map(|at| self.read(at))
    }
}

impl ExactSizeIterator for OperandList<'_> {}
