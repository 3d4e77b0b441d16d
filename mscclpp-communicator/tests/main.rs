//! The tests of this crate's public API, in one program: each program links all of the crate. Cargo.toml lists those that need a
//! process of their own.

mod communicator;
mod dump;
mod empty_calls;
mod exchange;
mod experts;
mod interrupt;
mod late_calls;
#[path = "../../mscclpp-exec/tests/common/ranks.rs"]
mod ranks;
mod recovery;
mod row_norms;
mod transfers;
mod tune;
