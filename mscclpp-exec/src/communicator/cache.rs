//! What was prepared, by request.

use std::collections::HashMap;

use crate::select::Request;

/// Most requests that are kept prepared.
const MAX_PREPARED: usize = 256;

/// Prepared requests, those used longest ago dropped first.
///
/// To prepare is a call of all ranks, so what is kept must depend on nothing but the calls so far.
pub(super) struct Cache<P> {
    entries: Vec<Entry<P>>,
    /// Where requests are among the entries.
    index: HashMap<Request, usize>,
    /// The entry that served the last call: most often it serves the next one too.
    last: usize,
    calls: u64,
}

struct Entry<P> {
    request: Request,
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
        request: &Request,
        prepare: impl FnOnce() -> Result<P, E>,
        retire: impl FnOnce(P),
    ) -> Result<&mut P, E> {
        self.calls += 1;
        if self.entries.get(self.last).is_none_or(|last| last.request != *request) {
            self.last = match self.index.get(request) {
                Some(&at) => at,
                None => {
                    let prepared = prepare()?;
                    self.insert(*request, prepared, retire)
                }
            };
        }
        let entry = &mut self.entries[self.last];
        entry.used = self.calls;
        Ok(&mut entry.prepared)
    }

    /// Returns what is prepared for a request.
    pub(super) fn find(&self, request: &Request) -> Option<&P> {
        let last = self.entries.get(self.last).filter(|last| last.request == *request);
        let found = last.or_else(|| self.index.get(request).and_then(|at| self.entries.get(*at)));
        found.map(|entry| &entry.prepared)
    }

    /// Returns how many requests are prepared.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the requests that are prepared.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.entries.iter().map(|entry| &entry.request)
    }

    /// Forgets everything, and returns what was prepared.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = P> + use<P> {
        self.index.clear();
        std::mem::take(&mut self.entries).into_iter().map(|entry| entry.prepared)
    }

    /// Adds an entry, in place of the oldest one if there are many; returns where it is.
    fn insert(&mut self, request: Request, prepared: P, retire: impl FnOnce(P)) -> usize {
        let entry = Entry { request, prepared, used: 0 };
        let at = if self.entries.len() < MAX_PREPARED {
            self.entries.push(entry);
            self.entries.len() - 1
        } else {
            let oldest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].used).unwrap_or(0);
            let replaced = std::mem::replace(&mut self.entries[oldest], entry);
            self.index.remove(&replaced.request);
            retire(replaced.prepared);
            oldest
        };
        self.index.insert(request, at);
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
