//! Programs of the reference's test suite that are not useful to users: fragments that exercise one operation, and
//! whole algorithms that are kept in the reference's form although the library's own form is better.

pub(crate) mod blocks;
pub(crate) mod collectives;
pub(crate) mod executor;
pub(crate) mod groups;
pub(crate) mod local;
pub(crate) mod packets;
pub(crate) mod relaxed;
pub(crate) mod send_recv;
pub(crate) mod switch;
pub(crate) mod sync;
pub(crate) mod transfers;
