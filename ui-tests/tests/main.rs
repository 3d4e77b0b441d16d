//! Programs that must not compile with their messages, and tests of what no single crate sees: the book, the listing of public
//! items, the structure of the workspace. One program: each program links all of the facade.

mod api;
mod book;
mod coverage;
mod crates;
mod cycles;
mod failures;
mod language;
mod packages;
mod spellings;
mod system;
mod ui;
