//! Memory that several workers use at once: with `shm`, and buffers as slices in `process`, all `unsafe` code of the
//! CPU executor.
//!
//! A plan decides which agents read and write which memory, and when; it may be wrong. So the rule here does not depend
//! on the plan: **while memory is lent to workers, it is accessed in atomic units only**, and a plan with a race gets
//! one value or the other, never undefined behavior.
//!
//! * The unit of an address is fixed by the address alone: its 8-byte word, if that word is entirely in the lent slice,
//!   else the byte. Units therefore never overlap partially. A write of a part of a word is a compare-and-exchange of
//!   the word, so that neighbors in one word never lose each other's bytes.
//! * Units are accessed with relaxed atomics, or, eight words at a time on x86-64, by an `asm!` block of vector moves.
//!   A block of assembly may do what some Rust code could do in its place; this one has the effect of eight relaxed
//!   atomic accesses, because vector moves there never tear an aligned word. It exists because relaxed atomics are not
//!   vectorized.
//! * Order between units comes from the plan's own signals, semaphores and barriers, which are atomics with acquire and
//!   release elsewhere. A packet is one unit, data next to its flag, so it needs no order.
//! * Slices that are lent for reading only are never written, so plain reads suffice for them.
//!
//! [`Table`] makes lending safe: slices can be accessed through it only during [`Table::lend`], whatever the workers
//! do.

mod fused;
mod limit;
mod rows;
mod span;
mod table;
mod unit;

pub use fused::{copy_lines, copy_shifted_lines, fuse};
pub use limit::{check_available, no_memory, out_of_memory};
pub use rows::{ProductOperands, SumOperands, add_rows, scale_rows};
pub use span::{Lines, ShiftedLines, Span};
pub use table::{Lent, LentSlices, Loan, Table};
