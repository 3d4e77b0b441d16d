//! Lists of numbers and references.

use std::ops::Range;

use super::super::layout::*;
use super::Table;
use crate::plan::{Place, Ref};
use crate::vocab::BufferKind;

/// A list of numbers of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    words: Words<'a>,
    start: usize,
    range: Range<usize>,
}

impl<'a> Numbers<'a> {
    pub(super) fn new(words: Words<'a>, table: Table, first: usize, len: usize) -> Self {
        Self { words, start: table.start, range: table.range(first, len) }
    }

    /// The number at a position, in constant time; `None` behind the end.
    #[inline]
    pub fn get(&self, at: u32) -> Option<u32> {
        let at = self.range.start.saturating_add(at as usize);
        (at < self.range.end).then(|| self.words.get(self.start + at) as u32)
    }

    /// Whether there is none (left).
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl Iterator for Numbers<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.range.next().map(|at| self.words.get(self.start + at) as u32)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<u32> {
        self.range.nth(n).map(|at| self.words.get(self.start + at) as u32)
    }
}

impl ExactSizeIterator for Numbers<'_> {}

/// A list of references of an image, also an iterator over them.
#[derive(Clone, Debug)]
pub struct RefList<'a> {
    words: Words<'a>,
    start: usize,
    range: Range<usize>,
}

impl<'a> RefList<'a> {
    pub(super) fn new(words: Words<'a>, table: Table, first: usize, len: usize) -> Self {
        Self { words, start: table.start, range: table.range(first, len) }
    }

    /// The reference at a position, in constant time; `None` behind the end.
    #[inline]
    pub fn get(&self, at: u32) -> Option<Ref> {
        let at = self.range.start.saturating_add(at as usize);
        (at < self.range.end).then(|| self.at(at))
    }

    /// Whether there is none (left).
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    #[inline]
    fn at(&self, at: usize) -> Ref {
        let at = self.start + at * REF;
        let place = self.words.get(at);
        Ref {
            place: match place.checked_sub(PLACE_REMOTE) {
                None => Place::Local(BufferKind::ALL[place as usize]),
                Some(number) if number & 1 == 0 => Place::Remote((number >> 1) as u32),
                Some(number) => Place::Switch((number >> 1) as u32),
            },
            index: self.words.get(at + 1) as u32,
            size: self.words.get(at + 2) as u32,
        }
    }
}

impl Iterator for RefList<'_> {
    type Item = Ref;

    #[inline]
    fn next(&mut self) -> Option<Ref> {
        self.range.next().map(|at| self.at(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<Ref> {
        self.range.nth(n).map(|at| self.at(at))
    }
}

impl ExactSizeIterator for RefList<'_> {}
