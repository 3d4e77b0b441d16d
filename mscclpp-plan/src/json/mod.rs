//! Plan files: the JSON format of MSCCL++. Reading reports every mistake; writing produces what MSCCL++'s own tools
//! write.
//!
//! `docs/plan-format.md` describes the format, and the few additional keys of this library.

mod chunking;
mod context;
mod expectations;
mod lexer;
mod names;
mod ops;
mod read;
mod tables;
mod value;
mod write;

#[cfg(test)]
mod tests;

use super::PlanTree;
use crate::collective::CollectiveKind;
use crate::diag::{Code, Diagnostic, Diagnostics, Site};

/// Options of reading a plan file.
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

/// The layout of a plan file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// One value per line, indented by two spaces.
    #[default]
    Pretty,
    /// No white space.
    Compact,
}

/// Reads a plan file. Returns its tree and the warnings.
///
/// The tree has what the file states, right or wrong: `Plan::load` calls the checker, which checks
/// whether numbers refer to existing entries and whether the plan satisfies the postcondition of its collective. Time
/// and memory are linear in the length of the text.
///
/// # Errors
/// Text that is not JSON; keys that are missing, duplicate, or (in strict mode) unknown; values of the wrong type, out
/// of range, or inconsistent with another one. All errors of a file are reported at once, at most 64, each with the
/// path of its value.
pub fn read(text: &str, options: ReadOptions) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    read::read(without_mark(text), options)
}

/// Reads a plan file from bytes, as [`read`] does.
///
/// # Errors
/// The errors of [`read`], and bytes that are not UTF-8.
pub fn read_bytes(bytes: &[u8], options: ReadOptions) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let message = format!("byte {at} is {:#04x}, expected UTF-8", bytes.get(at).copied().unwrap_or(0));
        Diagnostic::new(Code::NotJson, Site::None, message)
    })?;
    read(text, options)
}

/// Writes a plan file.
///
/// Reading it gives the tree again. Keys of this library appear only if the tree has values for which MSCCL++ has no
/// key; `for_reference` returns a tree without such values.
pub fn write(plan: &PlanTree, style: Style) -> String {
    write::write(plan, style)
}

/// Returns the chunk factor that a reader derives from rank 0's counts of input and output chunks.
pub fn chunk_factor(kind: CollectiveKind, counts: (u32, u32), ranks: u32) -> u32 {
    chunking::factor(kind, counts, ranks)
}

/// Returns the text after a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}
