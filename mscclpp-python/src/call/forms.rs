//! Whether calls are made in place, which all ranks do alike.

use std::collections::HashMap;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::select::Request;
use mscclpp_exec::{Communicator, DataType, Error};

/// Maximum number of collectives and sizes that are kept.
const MAX_FORMS: usize = 4096;

/// Collectives and bytes of their outputs, and whether calls of them are made in place.
///
/// Each rank decides on its own where its input is. A call is made in place if the first one of its collective and size was on all ranks; a rank
/// whose input is elsewhere copies it. So only the first call of a size waits for an answer of all ranks.
#[derive(Default)]
pub(crate) struct Forms(HashMap<(CollectiveKind, usize), bool>);

impl Forms {
    /// Returns whether a call is made in place; `in_place`: whether the input of this rank is. `agree` asks all ranks.
    pub(crate) fn of(
        &mut self,
        comm: &Communicator,
        (kind, bytes): (CollectiveKind, usize),
        in_place: bool,
        agree: impl FnOnce(&Request, bool) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        if bytes == 0 || comm.num_ranks() == 1 {
            return Ok(in_place);
        }
        if let Some(form) = self.0.get(&(kind, bytes)) {
            return Ok(*form);
        }
        let form = agree(&comm.request_of(kind, DataType::U8, bytes as u64), in_place)?;
        if self.0.len() >= MAX_FORMS {
            self.0.clear();
        }
        self.0.insert((kind, bytes), form);
        Ok(form)
    }
}
