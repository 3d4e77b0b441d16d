//! GPU collective communication, written as Rust functions and proved correct while they compile.
//!
//! Put [`collective`] on a function over a [`Program`](prelude::Program): it is evaluated while the crate compiles, turned into
//! an execution plan, checked, and embedded in the binary. What is wrong with it is a compile error on your own line. Run the
//! plan with an [`Executor`](prelude::Executor) on the CPU, or, with the feature `cuda`, with a `runtime::cuda::Executor` on a
//! CUDA device: the same bytes, the same results.
//!
//! ```
//! use mscclpp::prelude::*;
//!
//! /// Every rank puts its chunk into every other rank's output.
//! #[collective(AllGather, ranks = 2, in_place)]
//! fn simple_allgather(p: &Program) {
//!     for rank in p.ranks() {
//!         let mine = rank.output().chunk(rank.id());
//!         let channels = rank.memory_channels(p.ranks().filter(|peer| *peer != rank));
//!         channels.handshake(0).relaxed(); // every peer is ready to receive
//!         for channel in &channels {
//!             channel.put(channel.peer().output().chunk(rank.id()), mine, 0);
//!         }
//!         channels.handshake(0); // the data of all has arrived
//!     }
//! }
//!
//! # fn main() -> mscclpp::Result<()> {
//! let mut buffers = [[1, 0], [0, 2]];
//! Executor::new(2).run_in_place(simple_allgather::plan(2), &mut buffers)?;
//! assert_eq!(buffers, [[1, 2], [1, 2]]);
//! # Ok(())
//! # }
//! ```
//!
//! | crate | what it has |
//! |---|---|
//! | [`compiler`] | authoring API, plans, checks, formats |
//! | [`runtime`] | executors, data types, collective calls |
//! | [`algorithms`] | built-in algorithms and their plans |
//! | [`bootstrap`] | how the processes of a job find each other |
//!
//! | feature | what it adds |
//! |---|---|
//! | `process`, by default | ranks as processes and calls between them ([`Communicator`], [`bootstrap`]), on Linux; without it ranks run in one process, which compiles for Windows and macOS too |
//! | `cuda` | CUDA devices; with it `process` |
#![forbid(unsafe_code)]

pub use mscclpp_algorithms as algorithms;
#[cfg(feature = "process")]
pub use mscclpp_bootstrap as bootstrap;
#[cfg(feature = "process")]
pub use mscclpp_communicator::{Communicator, Group, Pending};
#[cfg(feature = "cuda")]
pub use mscclpp_communicator::{LaunchedCall, OnStream};
pub use mscclpp_core as compiler;
pub use mscclpp_exec::error::{ErrorKind, RootCause};
pub use mscclpp_macros::{collective, collectives};

#[doc(hidden)]
pub use mscclpp_core::__private;

/// Executors, data types, collective calls, selection of algorithms.
pub mod runtime {
    #[doc(inline)]
    pub use mscclpp_communicator::*;
    pub use mscclpp_exec::*;
    pub use mscclpp_select as select;

    /// Executors on CUDA devices, and custom kernels.
    #[cfg(feature = "cuda")]
    pub mod cuda {
        pub use mscclpp_exec::cuda::*;
        pub use mscclpp_select::kernels as native;
    }
}

/// Everything that a file with collectives needs. [`Executor`](prelude::Executor) is that of the CPU, which runs all ranks of a plan
/// in this process; those of processes and devices are in [`runtime`].
pub mod prelude {
    #[cfg(feature = "process")]
    pub use mscclpp_communicator::Communicator;
    pub use mscclpp_core::collective::{Collective, CollectiveKind};
    pub use mscclpp_core::diag::Diagnostics;
    pub use mscclpp_core::dsl::{
        AnyBuffer, Buffer, Channels, Chunk, Input, MemoryChannel, Output, PortChannel, Program, Rank, Scratch,
        Semaphore, SwitchChannel, ThreadBlockGroup,
    };
    pub use mscclpp_core::plan::{LoadPlan, Plan};
    pub use mscclpp_core::spec::AlgoSpec;
    pub use mscclpp_core::types::{BlockSync, BufferKind, Protocol, ReduceOp, Replication};
    pub use mscclpp_exec::cpu::Executor;
    pub use mscclpp_exec::file::SavePlan;
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
    /// A plan or a collective call that failed, or ranks that did not join.
    #[error(transparent)]
    Runtime(#[from] mscclpp_exec::Error),
    /// An algorithm that could not be made from plans or files.
    #[error(transparent)]
    Load(#[from] mscclpp_select::LoadError),
    /// An algorithm that a registry does not take.
    #[error(transparent)]
    Registry(#[from] mscclpp_select::RegistryError),
}

impl Error {
    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Program(_) | Self::Image(_) => ErrorKind::InvalidPlan,
            Self::Runtime(error) => error.kind(),
            Self::Load(_) | Self::Registry(_) => ErrorKind::InvalidInput,
        }
    }

    /// Returns the rank that reports the error, where the error names it.
    pub fn rank(&self) -> Option<u32> {
        self.runtime().and_then(runtime::Error::rank)
    }

    /// Returns the operation that failed: of a plan, `rank 3 / thread block 0 / operation 5 (put)`, of a call, its name.
    pub fn operation(&self) -> Option<String> {
        self.runtime().and_then(runtime::Error::operation)
    }

    /// Returns the rank that the failure began with, and why; none if no other rank caused the error.
    pub fn root_cause(&self) -> Option<RootCause> {
        self.runtime().and_then(runtime::Error::root_cause)
    }

    /// Returns the ranks that the communicator has lost by this failure, ascending; for [`Communicator::shrink`].
    pub fn lost(&self) -> Vec<u32> {
        self.runtime().map(runtime::Error::lost).unwrap_or_default()
    }

    fn runtime(&self) -> Option<&runtime::Error> {
        match self {
            Self::Runtime(error) => Some(error),
            _ => None,
        }
    }
}

#[cfg(feature = "process")]
impl From<mscclpp_bootstrap::Error> for Error {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<mscclpp_communicator::tune::TableError> for Error {
    fn from(error: mscclpp_communicator::tune::TableError) -> Self {
        Self::Runtime(error.into())
    }
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program(findings) => std::fmt::Debug::fmt(findings, f),
            Self::Runtime(error) => std::fmt::Display::fmt(&error.diagnostic(), f),
            other => std::fmt::Display::fmt(other, f),
        }
    }
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The examples of the pages, which have to compile.
#[cfg(all(doctest, feature = "process"))]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/learn/first-collective.md")]
    struct FirstCollective;
    #[doc = include_str!("../../docs/learn/handshakes.md")]
    struct Handshakes;
    #[doc = include_str!("../../docs/learn/packets.md")]
    struct Packets;
    #[doc = include_str!("../../docs/learn/pipelines.md")]
    struct Pipelines;
    #[doc = include_str!("../../docs/learn/hierarchies.md")]
    struct Hierarchies;
    #[doc = include_str!("../../docs/learn/debugging.md")]
    struct Debugging;
    #[doc = include_str!("../../docs/learn/calls.md")]
    struct Calls;
    #[doc = include_str!("../../docs/execution.md")]
    struct Execution;
    #[doc = include_str!("../../docs/plan-format.md")]
    struct PlanFormats;
    #[cfg(feature = "cuda")]
    #[doc = include_str!("../../docs/cuda.md")]
    struct Cuda;
}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn error_from_main_is_printed_as_finding() {
        let ranks = || mscclpp_exec::Error::RankCountMismatch { plan: "ring".into(), expected: 8, found: 4 };
        let finding = ranks().diagnostic().to_string();
        assert!(finding.contains("plan `ring` is for 8 ranks"), "{finding}");
        assert_eq!(format!("{:?}", Error::from(ranks())), finding);
        assert_eq!(format!("{:?}", ranks()), ranks().to_string());
        // The program prints `Error: ` before it.
        let findings = <mscclpp_core::plan::Plan as mscclpp_core::plan::LoadPlan>::load(b"{}").expect_err("no plan");
        let text = format!("{:?}", Error::from(findings));
        assert!(!text.starts_with("error") && text.contains("missing-key"), "{text}");
    }
}
