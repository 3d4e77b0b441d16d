//! What was prepared, by request.

use std::collections::HashMap;

use super::forced::Variant;
use mscclpp_select::Request;

/// Most requests that are kept prepared.
const MAX_PREPARED: usize = 256;

/// Prepared requests, those used longest ago dropped first.
///
/// To prepare is a call of all ranks, so what is kept must depend on nothing but the calls so far.
pub(super) struct Cache<P> {
    entries: Vec<Entry<P>>,
    /// Where requests are among the entries.
    index: HashMap<Key, usize>,
    /// The entry that served the last call: most often it serves the next one too.
    last: usize,
    calls: u64,
}

/// A request, and its variant.
pub(super) type Key = (Variant, Request);

struct Entry<P> {
    key: Key,
    prepared: P,
    /// When it was last used, in calls.
    used: u64,
}

impl<P> Default for Cache<P> {
    fn default() -> Self {
        Self { entries: Vec::new(), index: HashMap::new(), last: 0, calls: 0 }
    }
}

impl<P> Cache<P> {
    /// Returns what was prepared for a request, or what `prepare` makes now; `retire` takes what this replaces.
    pub(super) fn get<E>(
        &mut self,
        key: &Key,
        prepare: impl FnOnce() -> Result<P, E>,
        retire: impl FnOnce(P),
    ) -> Result<&mut P, E> {
        self.calls += 1;
        if self.entries.get(self.last).is_none_or(|last| last.key != *key) {
            self.last = match self.index.get(key) {
                Some(&at) => at,
                None => {
                    let prepared = prepare()?;
                    self.insert(*key, prepared, retire)
                }
            };
        }
        let entry = &mut self.entries[self.last];
        entry.used = self.calls;
        Ok(&mut entry.prepared)
    }

    /// Returns what is prepared for a request.
    pub(super) fn find(&self, key: &Key) -> Option<&P> {
        let last = self.entries.get(self.last).filter(|last| last.key == *key);
        let found = last.or_else(|| self.index.get(key).and_then(|at| self.entries.get(*at)));
        found.map(|entry| &entry.prepared)
    }

    /// Returns how many requests are prepared.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the requests that are prepared.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.entries.iter().map(|entry| &entry.key.1)
    }

    /// Forgets everything, and returns what was prepared.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.index.clear();
        std::mem::take(&mut self.entries).into_iter().map(|entry| entry.prepared)
    }

    /// Adds an entry, in place of the oldest one if there are many; returns where it is.
    fn insert(&mut self, key: Key, prepared: P, retire: impl FnOnce(P)) -> usize {
        let entry = Entry { key, prepared, used: 0 };
        let at = if self.entries.len() < MAX_PREPARED {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let oldest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].used).unwrap_or(0);
            let replaced = std::mem::replace(&mut self.entries[oldest], entry);
            self.index.remove(&replaced.key);
            retire(replaced.prepared);
            oldest
        };
        self.index.insert(key, at);
        at
    }
}

#[cfg(feature = "cuda")]
impl<P> Cache<P> {
    /// Returns all that is prepared.
    pub(super) fn prepared(&self) -> impl Iterator<Item = &P> {
        self.entries.iter().map(|entry| &entry.prepared)
    }

    /// Returns all that is prepared, mutably.
    pub(super) fn prepared_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.entries.iter_mut().map(|entry| &mut entry.prepared)
    }
}
