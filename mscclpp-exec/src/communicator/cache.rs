//! What was prepared, by request.

use std::collections::HashMap;
use std::sync::Arc;

use crate::metrics::CallCounters;
use crate::process::PreparedPlan;
use crate::select::{Algorithm, Request};

/// Most requests that are kept prepared.
const MAX_PREPARED: usize = 256;

/// How a request is served.
pub(super) enum Serving {
    /// A plan, bound to the message.
    Plan(Box<PreparedPlan>),
    /// A function.
    Native,
}

/// A prepared request.
pub(super) struct Prepared {
    pub(super) algorithm: Arc<Algorithm>,
    pub(super) serving: Serving,
    pub(super) counters: Arc<CallCounters>,
    /// When it was last used, in calls.
    used: u64,
}

impl Prepared {
    pub(super) fn new(algorithm: Arc<Algorithm>, serving: Serving, counters: Arc<CallCounters>) -> Self {
        Self { algorithm, serving, counters, used: 0 }
    }
}

/// Prepared requests, those used longest ago dropped first.
///
/// To prepare is a call of all ranks, so what is kept must depend on nothing but the calls so far.
#[derive(Default)]
pub(super) struct Cache {
    entries: Vec<(Request, Prepared)>,
    /// Where requests are among the entries.
    index: HashMap<Request, usize>,
    /// The entry that served the last call: most often it serves the next one too.
    last: usize,
    calls: u64,
}

impl Cache {
    /// What was prepared for a request, or what `prepare` makes now.
    pub(super) fn get<E>(
        &mut self,
        request: &Request,
        prepare: impl FnOnce() -> Result<Prepared, E>,
    ) -> Result<&mut Prepared, E> {
        self.calls += 1;
        if self.entries.get(self.last).is_none_or(|(last, _)| last != request) {
            self.last = match self.index.get(request) {
                Some(&at) => at,
                None => {
                    let prepared = prepare()?;
                    self.insert(*request, prepared)
                }
            };
        }
        let prepared = &mut self.entries[self.last].1;
        prepared.used = self.calls;
        Ok(prepared)
    }

    /// Returns how many requests are prepared.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the requests that are prepared.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.entries.iter().map(|(request, _)| request)
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.index.clear();
    }

    /// Adds an entry, in place of the oldest one if there are many; returns where it is.
    fn insert(&mut self, request: Request, prepared: Prepared) -> usize {
        let at = if self.entries.len() < MAX_PREPARED {
            self.entries.push((request, prepared));
            self.entries.len() - 1
        } else {
            let oldest = (0..self.entries.len()).min_by_key(|&at| self.entries[at].1.used).unwrap_or(0);
            self.index.remove(&self.entries[oldest].0);
            self.entries[oldest] = (request, prepared);
            oldest
        };
        self.index.insert(request, at);
        at
    }
}
