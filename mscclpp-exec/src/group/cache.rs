//! What was prepared, by request.

use std::collections::HashMap;
use std::sync::Arc;

use crate::process::Executable;
use crate::select::{Algorithm, Request};

/// Most requests that are kept prepared.
const KEPT: usize = 256;

/// How a request is served.
pub(super) enum Serving {
    /// A plan, bound to the message.
    Plan(Box<Executable>),
    /// A function.
    Native,
}

/// A prepared request.
pub(super) struct Prepared {
    pub(super) algorithm: Arc<Algorithm>,
    pub(super) serving: Serving,
    /// When it was last used, in calls.
    used: u64,
}

/// Prepared requests, those used longest ago dropped first.
///
/// To prepare is a call of all ranks, so what is kept must depend on nothing but the calls so far.
#[derive(Default)]
pub(super) struct Cache {
    prepared: HashMap<Request, Prepared>,
    calls: u64,
}

impl Cache {
    /// What was prepared for a request, or what `prepare` makes now.
    pub(super) fn get<E>(
        &mut self,
        request: &Request,
        prepare: impl FnOnce() -> Result<(Arc<Algorithm>, Serving), E>,
    ) -> Result<&mut Prepared, E> {
        self.calls += 1;
        if !self.prepared.contains_key(request) {
            let (algorithm, serving) = prepare()?;
            self.make_room();
            self.prepared.insert(*request, Prepared { algorithm, serving, used: 0 });
        }
        let calls = self.calls;
        match self.prepared.get_mut(request) {
            Some(prepared) => {
                prepared.used = calls;
                Ok(prepared)
            }
            None => unreachable!("it was inserted"),
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.prepared.clear();
    }

    fn make_room(&mut self) {
        if self.prepared.len() < KEPT {
            return;
        }
        // Calls are counted, so there is one oldest, whatever order the map has.
        let oldest = self.prepared.iter().min_by_key(|(_, prepared)| prepared.used).map(|(request, _)| *request);
        if let Some(oldest) = oldest {
            self.prepared.remove(&oldest);
        }
    }
}
