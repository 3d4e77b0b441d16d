//! `#[collective]` and `#[collectives]`.
#![forbid(unsafe_code)]
