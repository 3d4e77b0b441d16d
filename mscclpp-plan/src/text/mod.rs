//! Plans as text, `.plan`: written by [`print()`], read by [`parse`]; meant for reading, comparing and writing by people.
//!
//! ```
//! use mscclpp_plan::text;
//!
//! let plan = text::parse(
//!     "plan swap
//!      collective sendrecv
//!      ranks 2
//!
//!      rank 0 (input 1, output 1, scratch 0) {
//!        block 0:
//!          rlxsignal memory rank 1              ; the peer may write to my output
//!          rlxwait memory rank 1                ; I may write to the peer's output
//!          nop
//!          put memory rank 1 output[0] <- input[0]
//!          nop
//!          signal memory rank 1
//!          wait memory rank 1
//!      }
//!      rank 1 (input 1, output 1, scratch 0) {
//!        block 0:
//!          rlxsignal memory rank 0
//!          rlxwait memory rank 0
//!          nop
//!          put memory rank 0 output[0] <- input[0]
//!          nop
//!          signal memory rank 0
//!          wait memory rank 0
//!      }",
//! )?;
//! assert!(mscclpp_core::check::check(&plan).is_empty());
//! assert_eq!(text::parse(&text::print(&plan))?, plan);
//! # Ok::<(), text::TextError>(())
//! ```
//!
//! # Grammar
//!
//! A line of the text is one line of the grammar. A `;` begins a comment that extends to the end of its line. Empty
//! lines and white space between words have no meaning. `name` is a word of letters, digits and `_`, or a string in
//! quotes with the escapes `\"`, `\\` and `\u{…}`; `n` is a number in decimal.
//!
//! ```text
//! plan        = "plan" name, other header lines in any order, ranks in order
//! header      = "collective" kind | "collective" ("custom" | "test") n "->" n       chunks of input and output
//!             | "ranks" n | "ranks_per_node" n | "chunk_factor" n | "root" n
//!             | "protocol" ("Simple" | "LL") | "threads_per_block" n | "buffer_alignment" n
//!             | "min_message_size" n | "max_message_size" n                         bytes, inclusive
//!             | "in_place" | "double_scratch" | "reuse_resources" | "dividing" | "rows"
//!             | "tag" name "=" ["-"] n
//!             | "expect" "rank" n "output" range "=" ["rank" n "input" range { "+" "rank" n "input" range }]
//! rank        = "rank" n "(" "input" n "," "output" n "," "scratch" n ")" "{" {table} {block} "}"
//! table       = "channels" ("memory" | "port") [n {"," n}]                          the peer of each channel
//!             | "channels" "switch" buffer ["(" [n {"," n}] ")" {"," …}]            the members of each channel
//!             | "buffers" ["rank" n buffer ["memory"] ["port"] {"," …}]             remote buffers and their access
//!             | "semaphores" [["-"] n {"," …}]                                      first values
//! block       = "block" n ":" {uses} {operation}
//! uses        = "uses" "channels" channel-kind [(channel | "#" n) {"," …}]          the block's tables
//!             | "uses" "buffers" channel-kind [("rank" n buffer | "#" n) {"," …}]
//! operation   = op-kind [channel-kind] [reduction] ([ids] | [operands] "<-" [operands] ["via" ids]) attributes [body]
//! ids         = id {"," id}            id = channel | "#" n; of barriers and semaphores: n
//! channel     = "rank" n ["." n]       the channel to a rank: the first, or with `.k` the k-th after it; of kind switch: n
//! operands    = operand {"," operand}
//! operand     = buffer range | "rank" n buffer range | "multicast" n buffer range | ("remote" | "multicast") "#" n range
//! buffer      = "input" | "output" | "scratch"
//! range       = "[" n "]" | "[" n ".." n "]"                                        one chunk; first and end
//! attributes  = ["blocks" n] ["slice" n "/" n] ["count" n "->" n] ["sync" ("before" | "after" | "both")]
//! body        = "unit" n "chunks" n "{" {operation} "}"                             bytes and chunks of a pipeline
//! ```
//!
//! Destinations are left of `<-`, sources right of it, each in the order of `docs/plan-format.md`, which lists what each
//! kind of operation has. Defaults of the header: `ranks_per_node` is the number of ranks, `chunk_factor` 1, `root` 0,
//! `protocol Simple`, `threads_per_block` 1024, `buffer_alignment` 16 (1 for
//! `custom`), messages of any size, no flag. `plan`, `collective` and
//! `ranks` have none.
//!
//! # Tables
//!
//! Operations of a plan refer to positions in tables of their thread block, and these to positions in tables of the
//! rank. Text has names instead: `rank 1` is the first channel of the operation's kind to rank 1, `rank 1 scratch` its
//! scratch. Tables list the named entries in the order in which they are first named, sources before destinations
//! before channels. A table that differs is stated: `channels` and `buffers` lines then list all of the rank's, `uses`
//! lines all of the block's. Switch channels are always stated; tables of memory and port channels that are not precede
//! them. A position without a name, such as that of an entry that is listed twice or one outside of a table, is written
//! `#position`.
//!
//! Source locations are not part of the text, of images or of JSON; [`PlanText::with_comments`] adds them as comments.
//! [`parse_file`] uses lines of the text as the source locations of the operations that it reads.

mod lexer;
mod name;
mod names;
mod operation;
mod parse;
mod print;
mod tables;
#[cfg(test)]
mod tests;

pub use names::{BlockNames, RankNames};
pub use print::Operation;
pub use print::PlanText;

use std::fmt;

use super::{Plan, PlanTree};
use crate::diag::{Code, Diagnostic, Site};
use crate::origin::SourceLocation;

/// Maximum nesting depth of pipelines, as in images.
const MAX_DEPTH: usize = 8;

/// The first mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: expected {expected}, found {found}")]
pub struct TextError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What the format requires there.
    pub expected: String,
    /// What the text has there, at most the rest of the line.
    pub found: String,
}

impl TextError {
    /// Returns the mistake as a diagnostic that points into a file of this name.
    pub fn in_file(self, name: &str) -> Diagnostic {
        let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
        let (line, column) = (number(self.line), number(self.column));
        let place = SourceLocation { file: name.into(), line, column, ..SourceLocation::default() };
        Diagnostic { site: Site::Source(place), ..self.into() }
    }
}

impl From<TextError> for Diagnostic {
    fn from(error: TextError) -> Self {
        let message = format!("expected {}, found {}", error.expected, error.found);
        Self::new(Code::NotPlanText, Site::Path(format!("line {}, column {}", error.line, error.column)), message)
    }
}

/// Formats a plan as text.
pub fn print(plan: &PlanTree) -> String {
    PlanText::new(plan).to_string()
}

/// Reads a plan from text. Does not check the plan; `Plan::load` does.
///
/// # Cost
/// Time and memory are proportional to the length of the text, except for lookups in sorted tables.
///
/// # Errors
/// The first mistake, with its line and column.
pub fn parse(text: &str) -> Result<PlanTree, TextError> {
    parse::plan(without_mark(text), None)
}

/// Reads a plan from the text of a file of this name, with lines and columns of the file as source locations.
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_file(text: &str, name: &str) -> Result<PlanTree, TextError> {
    parse::plan(without_mark(text), Some(name))
}

/// Returns the text after a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Converts bytes to text.
///
/// # Errors
/// Bytes that are not UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str, TextError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (before, rest) = bytes.split_at(error.valid_up_to());
        let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        TextError {
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: String::from_utf8_lossy(line).chars().count() + 1,
            expected: "UTF-8".into(),
            found: format!("byte {:#04x}", rest.first().copied().unwrap_or(0)),
        }
    })
}

/// Returns whether bytes begin like a plan as text: with a comment or a letter, after white space.
pub fn is_text(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    !Plan::is_image(bytes) && first.is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b';')
}

/// Writes the plan as text.
///
/// ```
/// use mscclpp_core::{collective::CollectiveKind, compile, spec::AlgoSpec};
///
/// let spec = AlgoSpec::new("copy", CollectiveKind::Custom { input: 1, output: 1 }, 1);
/// let plan = compile(spec, |p| p.rank(0).copy(p.rank(0).output().chunk(0), p.rank(0).input().chunk(0), 0))?;
/// assert!(plan.to_string().contains("copy output[0] <- input[0]"));
/// # Ok::<(), mscclpp_core::diag::Diagnostics>(())
/// ```
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PlanText::new(&self.tree()).fmt(f)
    }
}
