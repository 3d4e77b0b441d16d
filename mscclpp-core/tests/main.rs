//! The tests of this crate's public API, in one program: each program links all of the crate.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read pages and variables")]

mod bad_programs;
mod errors_page;
mod filetests;
mod lang;
mod plan_format_page;
mod plan_text_page;
mod recording;
