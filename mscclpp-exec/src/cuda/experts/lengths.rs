//! Checks of the lengths of what is passed, before anything is enqueued.

use mscclpp_base::error::Error;
use mscclpp_base::experts::{ExpertShape, MAX_ALIGNMENT, RowLayout, SCALE_GROUP};
use mscclpp_cuda::lend::Lent;

use super::ExpertRows;
use super::travel::{Payload, PayloadForm, RowsAtExperts, Wire};

impl ExpertRows {
    /// Returns the number of tokens that a rank passes.
    ///
    /// # Errors
    /// [`Error::Length`] for lists that do not match.
    pub fn check_tokens(&self, payload: &Payload<'_>, choices: &Lent<'_>) -> Result<usize, Error> {
        const CALL: &str = "dispatch";
        let ExpertShape { hidden, top_k, .. } = self.shape;
        self.wire(payload.form())?;
        let (rows, scales, element) = match *payload {
            Payload::Rows(rows) | Payload::Quantized(rows) => (rows, None, self.dtype.size()),
            Payload::Scaled(rows, scales) => (rows, Some(scales), 1),
        };
        let found = rows.len::<u8>() / element;
        if !found.is_multiple_of(hidden) {
            return Err(self.length(CALL, "the list of tokens", format!("rows of {hidden} elements"), found));
        }
        let tokens = found / hidden;
        let lists = [
            ("the list of choices", choices.len::<i64>(), tokens * top_k),
            (
                "the list of scales",
                scales.map_or(0, Lent::len::<f32>),
                match scales {
                    Some(_) => tokens * (hidden / SCALE_GROUP),
                    None => 0,
                },
            ),
        ];
        for (what, found, expected) in lists {
            if found != expected {
                return Err(self.length(CALL, what, format!("{expected}, for {tokens} tokens"), found));
            }
        }
        Ok(tokens)
    }

    /// Returns the number of rows for which a result has room; for the rows that travel, without those that only fill up.
    ///
    /// # Errors
    /// [`Error::Length`] unless the lists have the lengths that the layout demands.
    pub fn room(&self, form: PayloadForm, results: &RowsAtExperts<'_>) -> Result<[u64; 2], Error> {
        const CALL: &str = "dispatch";
        let RowsAtExperts { layout, rows, scales, counts } = results;
        let Wire { row, scales: scales_bytes } = self.wire(form)?;
        let found = rows.len::<u8>() as u64 / row;
        let experts = self.experts_per_rank();
        if let Some(alignment) = layout.wrong_alignment() {
            return Err(self.length(CALL, "the alignment of experts", format!("1 to {MAX_ALIGNMENT} rows"), alignment));
        }
        let (demand, lists, filled) = match *layout {
            RowLayout::ByExpert { alignment } => (0, experts, experts.saturating_mul(alignment - 1) as u64),
            RowLayout::ByRank => (0, self.shape.num_experts, 0),
            // What is added to the enum is handled here.
            _ => (self.shape.slots(self.ranks) as u64, experts, 0),
        };
        if found < demand || !(rows.len::<u8>() as u64).is_multiple_of(row) {
            let expected = format!("rows of {row} bytes, at least {demand} of them");
            return Err(self.length(CALL, "the list of rows in bytes", expected, rows.len::<u8>()));
        }
        if counts.len::<i64>() != lists {
            return Err(self.length(CALL, "the list of counts", lists.to_string(), counts.len::<i64>()));
        }
        let expected = found * scales_bytes / 4;
        let found_scales = scales.as_ref().map_or(0, Lent::len::<f32>);
        if found_scales as u64 != expected {
            return Err(self.length(CALL, "the list of scales of rows", expected.to_string(), found_scales));
        }
        Ok([found, found.saturating_sub(filled)])
    }

    /// Checks the length of the rows of a combine.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn check_results(&self, rows: &Lent<'_>) -> Result<(), Error> {
        let row = (self.shape.hidden * self.dtype.size()) as u64;
        if rows.len::<u8>() as u64 != self.room.saturating_mul(row) {
            let expected = format!("{} bytes, {} rows as of the dispatch", self.room.saturating_mul(row), self.room);
            return Err(self.length("combine", "the list of rows in bytes", expected, rows.len::<u8>()));
        }
        Ok(())
    }

    /// Checks the lengths of lists of a combine.
    ///
    /// # Errors
    /// [`Error::Length`].
    pub fn check_combine(&self, weights: &Lent<'_>, output: &Lent<'_>) -> Result<(), Error> {
        const CALL: &str = "combine";
        let ExpertShape { hidden, top_k, .. } = self.shape;
        let lists = [
            ("the list of weights", weights.len::<f32>(), self.tokens * top_k),
            ("the list of results", output.len::<u8>() / self.dtype.size(), self.tokens * hidden),
        ];
        for (what, found, expected) in lists {
            if found != expected {
                let expected = format!("{expected}, for {} tokens of the dispatch", self.tokens);
                return Err(self.length(CALL, what, expected, found));
            }
        }
        Ok(())
    }
}
