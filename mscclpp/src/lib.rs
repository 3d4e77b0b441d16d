//! Facade: `use mscclpp::prelude::*`.
#![forbid(unsafe_code)]

pub use mscclpp_macros::{collective, collectives};

#[doc(hidden)]
pub use mscclpp_core::__private;

/// What a program needs.
pub mod prelude {
    pub use crate::{collective, collectives};
    pub use mscclpp_core::collective::{Collective, CollectiveKind};
    pub use mscclpp_core::dsl::{
        Buffer, Chunk, Input, MemoryChannel, Output, PortChannel, Program, Rank, Scratch, Semaphore, SwitchChannel,
        ThreadBlockGroup,
    };
    pub use mscclpp_core::spec::AlgoSpec;
    pub use mscclpp_core::vocab::{BufferKind, Protocol, ReduceOp, Replication, Sync};
}
