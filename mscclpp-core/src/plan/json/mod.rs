//! Plan files: the JSON of MSCCL++, read with every mistake named and written as its own tools write it.
//!
//! `docs/plan-format.md` describes the format, and the few keys that are ours.

mod chunking;
mod context;
mod expectations;
mod lexer;
mod names;
mod ops;
mod own_rank;
mod read;
mod scan;
mod tables;
mod value;
mod write;

#[cfg(test)]
mod tests;

use super::PlanTree;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};

/// How forgiving a reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadOptions {
    /// Whether keys that the format does not have are errors. They are warnings otherwise.
    pub strict: bool,
}

impl ReadOptions {
    /// Returns these options with unknown keys as errors or as warnings.
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }
}

/// How a plan file is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// One value on a line, indented by two spaces.
    #[default]
    Pretty,
    /// No space at all.
    Compact,
}

/// Reads a plan file; also gives the warnings.
///
/// The tree says what the file says, right or wrong: whether numbers point at something, and whether the plan does
/// what its collective promises, is for the checker, which [`Plan::load`](super::Plan::load) asks. Time and memory are
/// linear in the length of the text.
///
/// # Errors
/// Text that is not JSON; keys that are missing, double, or (when strict) unknown; values of the wrong type, out of range,
/// or contradicting another one. All of a file's problems at once, at most 64, each with the path of its value.
pub fn read(text: &str, options: ReadOptions) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    read::read(without_mark(text), options, read::Part::Whole)
}

/// [`read`] for bytes.
///
/// # Errors
/// As [`read`], and bytes that are not UTF-8.
pub fn read_bytes(bytes: &[u8], options: ReadOptions) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("byte {at} is {:#04x}, expected UTF-8", bytes.get(at).copied().unwrap_or(0));
        Diagnostic::new(Code::NotJson, Site::None, message)
    })?;
    read(text, options)
}

/// Reads what one rank needs of a plan file, at the speed of skipping the rest.
///
/// The tree has all ranks, but the others are empty, and mistakes in their parts go unnoticed. Otherwise it equals the one of
/// [`read`]; warnings are dropped.
///
/// # Errors
/// As [`read`] for the rank's own part and the plan's; a rank that the plan does not have.
pub fn read_rank(text: &str, rank: u32) -> Result<PlanTree, Diagnostics> {
    own_rank::read(without_mark(text), rank)
}

/// Writes a plan file.
///
/// Reading it gives the tree again. Keys of our own appear only where the tree holds what MSCCL++ has no key for;
/// [`for_reference`](super::export::for_reference) gives a tree without.
pub fn write(plan: &PlanTree, style: Style) -> String {
    write::write(plan, style)
}

/// The chunk factor that a reader takes a collective to have, from rank 0's counts of input and output chunks.
pub(super) fn chunk_factor(kind: CollectiveKind, counts: (u32, u32), ranks: u32) -> u32 {
    chunking::factor(kind, counts, ranks)
}

/// The text behind a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
