//! GPU collective communication, written as Rust functions and proved correct while they compile.
//!
//! Put [`collective`] on a function over a [`Program`](prelude::Program): it is evaluated while the crate compiles, turned into
//! an execution plan, checked, and embedded in the binary. What is wrong with it is a compile error on your own line. Run the
//! plan with a [`World`](prelude::World) on the CPU, or, with the feature `cuda`, with an `exec::cuda::World` on a CUDA device: the same bytes,
//! the same results.
//!
//! ```
//! use mscclpp::prelude::*;
//!
//! /// Every rank puts its chunk into every other rank's output.
//! #[collective(AllGather, ranks = 2, in_place)]
//! fn simple_allgather(p: &Program) {
//!     for src in p.ranks() {
//!         let mine = src.output().chunk(src.id());
//!         for dst in p.ranks().filter(|dst| dst.id() != src.id()) {
//!             let channel = src.memory_channel(dst);
//!             channel.signal(0).relaxed(); // I am ready to receive
//!             channel.wait(0).relaxed().sync(Sync::After); // so is my peer
//!             channel.put(dst.output().chunk(src.id()), mine, 0);
//!             channel.signal(0).sync(Sync::Before); // my data is there
//!             channel.wait(0).sync(Sync::After); // and so is my peer's
//!         }
//!     }
//! }
//!
//! # fn main() -> mscclpp::Result<()> {
//! let mut buffers = [[1, 0], [0, 2]];
//! World::new(2).run_in_place(simple_allgather::plan(2), &mut buffers)?;
//! assert_eq!(buffers, [[1, 2], [1, 2]]);
//! # Ok(())
//! # }
//! ```
//!
//! | crate | what it has |
//! |---|---|
//! | [`core`] | authoring API, plans, checks, formats |
//! | [`exec`] | executors, data types, collective calls |
//! | [`algorithms`] | built-in algorithms and their plans |
//! | [`bootstrap`] | how the processes of a job find each other |
#![forbid(unsafe_code)]

pub use mscclpp_algorithms as algorithms;
pub use mscclpp_bootstrap as bootstrap;
pub use mscclpp_core as core;
pub use mscclpp_exec as exec;
pub use mscclpp_macros::{collective, collectives};

#[doc(hidden)]
pub use mscclpp_core::__private;

/// Everything that a file with collectives needs.
pub mod prelude {
    pub use mscclpp_core::collective::{Collective, CollectiveKind};
    pub use mscclpp_core::diag::Diagnostics;
    pub use mscclpp_core::dsl::{
        AnyBuffer, Buffer, Chunk, Input, MemoryChannel, Output, PortChannel, Program, Rank, Scratch, Semaphore,
        SwitchChannel, ThreadBlockGroup,
    };
    pub use mscclpp_core::plan::Plan;
    pub use mscclpp_core::spec::AlgoSpec;
    pub use mscclpp_core::vocab::{BufferKind, Protocol, ReduceOp, Replication, Sync};
    pub use mscclpp_exec::cpu::World;
    pub use mscclpp_exec::file::SavePlan;
    pub use mscclpp_exec::group::Group;
    pub use mscclpp_exec::{DataType, Message};

    pub use crate::{collective, collectives};
}

/// What can go wrong between a function and its result.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program that could not be compiled at run time, or a plan file that could not be read.
    #[error(transparent)]
    Program(#[from] mscclpp_core::diag::Diagnostics),
    /// Bytes that are not a plan.
    #[error(transparent)]
    Image(#[from] mscclpp_core::plan::image::ImageError),
    /// A plan that could not be prepared or did not finish.
    #[error(transparent)]
    Run(#[from] mscclpp_exec::Error),
    /// A collective call that failed, or ranks that did not come together.
    #[error(transparent)]
    Call(#[from] mscclpp_exec::group::Error),
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(findings) => std::fmt::Display::fmt(findings, f),
            Self::Run(error) | Self::Call(mscclpp_exec::group::Error::Run(error)) => {
                std::fmt::Display::fmt(&error.diagnostic(), f)
            }
            other => std::fmt::Display::fmt(other, f),
        }
    }
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The examples of the pages, which have to compile.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[cfg(feature = "cuda")]
    #[doc = include_str!("../../docs/cuda.md")]
    struct Cuda;
}

#[cfg(test)]
mod tests {
    use mscclpp_exec::group;

    use super::Error;

    #[test]
    fn error_from_main_is_printed_as_finding() {
        let ranks = || mscclpp_exec::Error::Ranks { plan: "ring".into(), expected: 8, found: 4 };
        let finding = ranks().diagnostic().to_string();
        assert!(finding.contains("plan `ring` is for 8 ranks"), "{finding}");
        for error in [Error::from(ranks()), Error::from(group::Error::from(ranks()))] {
            assert_eq!(format!("{error:?}"), finding);
        }
        assert_eq!(format!("{:?}", ranks()), ranks().to_string());
    }
}
