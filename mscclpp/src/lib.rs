//! Facade: `use mscclpp::prelude::*`.
#![forbid(unsafe_code)]

/// What a program needs.
pub mod prelude {
    pub use mscclpp_core::collective::{Collective, CollectiveKind};
    pub use mscclpp_core::dsl::{
        Buffer, Chunk, Input, MemoryChannel, Output, PortChannel, Program, Rank, Scratch, Semaphore, SwitchChannel,
        ThreadBlockGroup,
    };
    pub use mscclpp_core::spec::AlgoSpec;
    pub use mscclpp_core::vocab::{BufferKind, Protocol, ReduceOp, Replication, Sync};
}
