//! The tests of this crate's public API, in one program: each program links all of the crate.

mod dividing;
mod gains;
mod links;
mod prediction;
mod select;
mod select_everything;
