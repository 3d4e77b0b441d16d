//! Whether calls are made in place, for programs whose ranks do not know of one another how they call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Communicator;
use mscclpp_base::error::Error;
use mscclpp_select::Request;

/// Maximum number of requests whose form is kept. All ranks forget the same ones.
const MAX_FORMS: usize = 4096;

/// Requests, and whether calls of them are made in place, as the ranks have agreed before the first one.
#[derive(Default)]
pub(super) struct Forms(Mutex<HashMap<Request, bool>>);

impl Forms {
    fn lock(&self) -> MutexGuard<'_, HashMap<Request, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the form of calls on which the ranks need not agree, or have; `in_place`: that of this rank.
    pub(super) fn find(&self, request: &Request, num_ranks: u32, in_place: bool) -> Option<bool> {
        if request.bytes == 0 || num_ranks == 1 { Some(in_place) } else { self.lock().get(request).copied() }
    }

    pub(super) fn insert(&self, request: Request, form: bool) {
        let mut forms = self.lock();
        if forms.len() >= MAX_FORMS {
            forms.clear();
        }
        forms.insert(request, form);
    }
}

impl Communicator {
    /// Returns whether calls of `request` are made in place: whether the first one was on all ranks. `in_place`: whether the call of
    /// this rank is; if the answer is another one, the rank has to copy. Whether `request` is in place does not matter.
    ///
    /// The first call of a request is one of all ranks, which waits for them. Later ones answer at once.
    ///
    /// # Errors
    /// See [`Communicator`].
    #[track_caller]
    #[doc(hidden)]
    pub fn agree_in_place(&self, request: &Request, in_place: bool) -> Result<bool, Error> {
        let request = Request { in_place: false, ..*request };
        if let Some(form) = self.inner.forms.find(&request, self.num_ranks(), in_place) {
            return Ok(form);
        }
        self.wait_for_started();
        let text = format!("agreement about {request}");
        let form = self.executor()?.control(&text, |bootstrap| bootstrap.agree(in_place))?;
        self.inner.forms.insert(request, form);
        Ok(form)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mscclpp_base::DataType;
    use mscclpp_core::collective::CollectiveKind::{AllGather, AllToAll};

    /// Of the first call of a request all ranks decide, also where they differ; later ones, of any rank, follow.
    #[test]
    fn first_call_decides_for_all_ranks() {
        let comms = Communicator::local(3).expect("a group");
        std::thread::scope(|scope| {
            for comm in &comms {
                scope.spawn(move || {
                    let form = |kind, bytes, in_place| {
                        comm.agree_in_place(&comm.request_of(kind, DataType::U8, bytes), in_place).expect("agreed")
                    };
                    assert!(form(AllGather, 96, true), "on all ranks");
                    assert!(!form(AllToAll, 96, comm.rank() != 1), "not on rank 1");
                    assert!(form(AllGather, 96, false) && !form(AllToAll, 96, true), "kept");
                    assert_eq!(form(AllGather, 0, comm.rank() == 1), comm.rank() == 1, "nothing to agree about");
                });
            }
        });
    }
}
