//! A table of which only some entries may be kept, under their indices.

use std::ops::{Index, IndexMut, Range};

/// A table of a resolved plan. It begins complete; [`retain`](Self::retain) drops entries that a rank does not need. The others
/// keep their indices, by which ranks refer to them in shared memory and in messages.
#[derive(Clone, Debug)]
pub struct Table<T> {
    /// Consecutive entries, and the index of the first.
    run: Vec<T>,
    first: usize,
    /// Other entries, by ascending index.
    others: Vec<(usize, T)>,
    /// Number of entries of the complete table.
    len: usize,
}

impl<T> Table<T> {
    /// Returns the number of entries of the complete table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry to a complete table.
    pub fn push(&mut self, entry: T) {
        debug_assert_eq!(self.run.len(), self.len, "entries were dropped");
        self.run.push(entry);
        self.len += 1;
    }

    /// Returns an entry, if it exists and is kept.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<&T> {
        match self.run.get(at.wrapping_sub(self.first)) {
            None => self.other(at),
            entry => entry,
        }
    }

    #[cold]
    fn other(&self, at: usize) -> Option<&T> {
        let found = self.others.binary_search_by_key(&at, |&(at, _)| at).ok()?;
        Some(&self.others[found].1)
    }

    /// Returns the kept entries with their indices.
    pub fn indexed(&self) -> impl Iterator<Item = (usize, &T)> {
        let others = self.others.iter().map(|(at, entry)| (*at, entry));
        (self.first..).zip(&self.run).chain(others)
    }

    /// Returns the kept entries: those of a complete table in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.indexed().map(|(_, entry)| entry)
    }

    /// Returns the kept entries, mutably.
    #[cfg(feature = "process")]
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.run.iter_mut().chain(self.others.iter_mut().map(|(_, entry)| entry))
    }

    /// Returns a table of the same indices.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> Table<U> {
        Table {
            run: self.run.iter().map(&f).collect(),
            first: self.first,
            others: self.others.iter().map(|(at, entry)| (*at, f(entry))).collect(),
            len: self.len,
        }
    }

    /// Returns all entries of a complete table.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.run
    }
}

#[cfg(feature = "process")]
impl<T: Copy> Table<T> {
    /// Drops the entries of a complete table that are not in `run` and not in `others`, whose indices ascend.
    pub fn retain(&mut self, run: Range<usize>, others: impl Iterator<Item = usize>) {
        let others = others.filter(|at| !run.contains(at)).map(|at| (at, self.run[at])).collect();
        let kept = self.run[run.clone()].to_vec();
        *self = Self { run: kept, first: run.start, others, len: self.len };
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(run: Vec<T>) -> Self {
        Self { len: run.len(), run, first: 0, others: Vec::new() }
    }
}

impl<T> Index<usize> for Table<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, at: usize) -> &T {
        self.get(at).expect("the rank keeps the entries that it uses")
    }
}

impl<T> IndexMut<usize> for Table<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.run[at - self.first]
    }
}

impl<T> Index<Range<usize>> for Table<T> {
    type Output = [T];

    #[inline(always)]
    fn index(&self, range: Range<usize>) -> &[T] {
        &self.run[range.start - self.first..range.end - self.first]
    }
}

impl<T> IndexMut<Range<usize>> for Table<T> {
    fn index_mut(&mut self, range: Range<usize>) -> &mut [T] {
        &mut self.run[range.start - self.first..range.end - self.first]
    }
}
