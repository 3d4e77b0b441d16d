//! Programs that must not compile with their messages, programs that must compile, and tests of what no single crate sees: the book,
//! the listing of public items, the structure of the workspace. One program: each program links all of the facade.

mod api;
mod book;
mod contributing;
mod coverage;
mod crates;
mod cycles;
mod failures;
mod language;
mod packages;
mod pictures;
#[allow(clippy::needless_borrows_for_generic_args, deprecated, unreachable_pub, reason = "as users write them")]
mod programs;
mod spellings;
mod system;
mod ui;
