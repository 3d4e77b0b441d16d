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
//! | module | what it has |
//! |---|---|
//! | [`prelude`] | what a file with collectives needs |
//! | [`dsl`] | the authoring API |
//! | [`compiler`] | compiling functions at run time, checking and loading plans |
//! | [`runtime`] | executors, devices, selection of algorithms, tuning |
//! | [`algorithms`] | built-in algorithms and their plans |
//! | [`bootstrap`] | how the processes of a job find each other |
//! | [`raw`] | the crates that this one consists of, for tools: they may change in any release |
//!
//! | feature | what it adds |
//! |---|---|
//! | `process`, by default | ranks as processes and calls between them ([`Communicator`], [`bootstrap`]), on Linux; without it ranks run in one process, which compiles for Windows and macOS too |
//! | `cuda` | CUDA devices; with it `process` |
#![forbid(unsafe_code)]

#[cfg(feature = "process")]
pub use mscclpp_communicator::{Communicator, Group, Pending};
#[cfg(feature = "cuda")]
pub use mscclpp_communicator::{KernelPolicy, LaunchedCall, OnStream};
pub use mscclpp_exec::error::{ErrorKind, RootCause};
pub use mscclpp_macros::{collective, collectives};

#[doc(hidden)]
pub use mscclpp_core::__private;

/// Built-in algorithms: [`find`](algorithms::find) one by its name, or take a plan from [`all`](algorithms::all).
pub mod algorithms {
    pub use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm, REFERENCE_NAMES, all, find};
}

/// How the processes of a job find each other, where [`Communicator::from_env`] does not know their launcher.
#[cfg(feature = "process")]
pub mod bootstrap {
    pub use mscclpp_bootstrap::{Address, NodeTransport, Options, RootListener, Secret, UniqueId};
}

/// The authoring API: what the body of a collective consists of, and what its calls return.
pub mod dsl {
    pub use mscclpp_core::dsl::{
        AnyBuffer, Buffer, Channel, Channels, Chunk, Handshake, Input, Memory, MemoryChannel, Output, Port,
        PortChannel, Program, Rank, Ranks, Reduction, Scratch, Semaphore, SemaphoreCall, SwitchChannel, SwitchMember,
        SwitchReduction, SyncCall, ThreadBlockGroup,
    };
    pub use mscclpp_core::spec::AlgoSpec;
    pub use mscclpp_core::types::{BlockSync, BufferKind, Protocol, ReduceOp, Replication};
}

/// Compiling functions at run time, checking and loading plans.
pub mod compiler {
    pub use mscclpp_core::algorithm::EmbeddedAlgorithm;
    pub use mscclpp_core::check::{Checks, Level, LoadOptions};
    pub use mscclpp_core::plan::Format;
    pub use mscclpp_core::plan::text::PlanText;
    pub use mscclpp_core::{compile, compile_trace};
}

/// Executors, devices, selection of algorithms, tuning.
pub mod runtime {
    #[cfg(feature = "process")]
    pub use mscclpp_communicator::{
        AllToAllVOutput, Dispatched, ExpertShape, Route, RowElement, RowLayout, quantize_rows,
    };
    pub use mscclpp_exec::verify::{Verifier, VerifyReport};
    pub use mscclpp_exec::{AccumType, E4m3, E4m3B15, E5m2, Element, PacketType, RowNorm};

    /// All ranks of a plan in this process.
    pub mod cpu {
        pub use mscclpp_exec::cpu::{Buffers, Executor, Options, PreparedPlan, Schedule};
    }

    /// A process, or a thread, for each rank.
    #[cfg(feature = "process")]
    pub mod process {
        pub use mscclpp_exec::process::{Executor, PreparedPlan, SharedBuffer};
    }

    /// CUDA devices, and kernels of the program's own.
    #[cfg(feature = "cuda")]
    pub mod cuda {
        #[cfg(feature = "process")]
        pub use mscclpp_communicator::{DeviceExperts, PendingCombine, PendingDispatch};
        pub use mscclpp_exec::cuda::{
            Buffers, Device, DeviceBuffer, DeviceCounts, DeviceMut, DeviceRef, DeviceRowNorm, DeviceSlice, DeviceVec,
            DeviceView, DeviceViewMut, Event, Executor, Graph, KernelTier, Options, PreparedPlan, Properties,
            Registered, RowOperands, Stream,
        };

        /// Tensors of other libraries.
        pub mod dlpack {
            pub use mscclpp_exec::cuda::dlpack::{Tensor, export};
        }

        /// Channels that kernels of the program use.
        pub mod channels {
            pub use mscclpp_exec::cuda::channels::{
                ChannelOptions, Channels, DeviceBarrier, DeviceMemoryChannel, DevicePortChannel, DeviceSwitchChannel,
            };
        }

        /// Kernels that are compiled at run time.
        pub mod jit {
            pub use mscclpp_exec::cuda::jit::{Function, Module, Source};
        }

        /// Algorithms whose steps are kernels of the program, for a [`Registry`](crate::runtime::select::Registry).
        pub mod native {
            pub use mscclpp_select::kernels::{ContextKey, NativeAlgorithm, NativeError};
        }
    }

    /// Which algorithm serves a call.
    pub mod select {
        pub use mscclpp_select::{
            Algorithm, Backend, Buffers, Call, Choice, Config, DecidedBy, DescribedMachine, Explanation, Machine,
            OrderPolicy, Registry, Request,
        };

        /// What communicators that are created afterwards have, and the selector of the process.
        pub mod defaults {
            pub use mscclpp_select::defaults::{
                SelectorCall, SelectorError, clear_selector, register_plan, remove_plan, set_order_policy, set_selector,
            };
        }
    }

    /// Which algorithm is fastest, measured.
    pub mod tune {
        #[cfg(feature = "process")]
        pub use mscclpp_communicator::tune::Tuner;
        pub use mscclpp_communicator::tune::TuningTable;
    }
}

/// The crates that this one consists of, for tools that work on plans: operation by operation, checks, timings, dumps. Nothing here
/// is part of the interface: it may change in any release.
pub mod raw {
    pub use mscclpp_algorithms as algorithms;
    #[cfg(feature = "process")]
    pub use mscclpp_bootstrap as bootstrap;
    pub use mscclpp_communicator as communicator;
    pub use mscclpp_core as core;
    pub use mscclpp_exec as exec;
    pub use mscclpp_select as select;
}

/// Everything that a file with collectives needs. [`Executor`](prelude::Executor) is that of the CPU, which runs all ranks of a plan
/// in this process; those of processes and devices are in [`runtime`].
pub mod prelude {
    #[cfg(feature = "process")]
    pub use mscclpp_communicator::Communicator;
    pub use mscclpp_core::collective::{Collective, CollectiveKind};
    pub use mscclpp_core::diag::Diagnostics;
    pub use mscclpp_core::plan::{LoadPlan, Plan};
    pub use mscclpp_exec::cpu::Executor;
    pub use mscclpp_exec::file::SavePlan;
    pub use mscclpp_exec::{DataType, Message};

    pub use crate::dsl::{
        AlgoSpec, AnyBuffer, BlockSync, Buffer, BufferKind, Channels, Chunk, Input, MemoryChannel, Output, PortChannel,
        Program, Protocol, Rank, ReduceOp, Replication, Scratch, Semaphore, SwitchChannel, ThreadBlockGroup,
    };
    pub use crate::{collective, collectives};
}

/// What can go wrong between a function and its result.
///
/// Its text is a finding: what is wrong, where, and what to do. All ranks of a failed job have the same
/// [`root_cause`](Self::root_cause).
pub struct Error(Cause);

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum Cause {
    Program(#[from] mscclpp_core::diag::Diagnostics),
    Image(#[from] mscclpp_core::plan::image::ImageError),
    Runtime(#[from] mscclpp_exec::Error),
    Load(#[from] mscclpp_select::LoadError),
    Registry(#[from] mscclpp_select::RegistryError),
}

impl Error {
    /// Returns the class of the error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0 {
            Cause::Program(_) | Cause::Image(_) => ErrorKind::InvalidPlan,
            Cause::Runtime(error) => error.kind(),
            Cause::Load(_) | Cause::Registry(_) => ErrorKind::InvalidInput,
        }
    }

    /// Returns the rank that reports the error, where the error names it.
    pub fn rank(&self) -> Option<u32> {
        self.runtime().and_then(mscclpp_exec::Error::rank)
    }

    /// Returns the operation that failed: of a plan, `rank 3 / thread block 0 / operation 5 (put)`, of a call, its name.
    pub fn operation(&self) -> Option<String> {
        self.runtime().and_then(mscclpp_exec::Error::operation)
    }

    /// Returns the rank that the failure began with, and why; none if no other rank caused the error.
    pub fn root_cause(&self) -> Option<RootCause> {
        self.runtime().and_then(mscclpp_exec::Error::root_cause)
    }

    /// Returns the ranks that the communicator has lost by this failure, ascending; for [`Communicator::shrink`].
    pub fn lost(&self) -> Vec<u32> {
        self.runtime().map(mscclpp_exec::Error::lost).unwrap_or_default()
    }

    /// Returns what is wrong with a program or a plan file; none if something else failed.
    pub fn findings(&self) -> Option<&prelude::Diagnostics> {
        match &self.0 {
            Cause::Program(findings) => Some(findings),
            _ => None,
        }
    }

    fn runtime(&self) -> Option<&mscclpp_exec::Error> {
        match &self.0 {
            Cause::Runtime(error) => Some(error),
            _ => None,
        }
    }
}

macro_rules! from {
    ($($source:ty),+) => {
        $(impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self(error.into())
            }
        })+
    };
}

from!(
    mscclpp_core::diag::Diagnostics,
    mscclpp_core::plan::image::ImageError,
    mscclpp_exec::Error,
    mscclpp_select::LoadError,
    mscclpp_select::RegistryError
);

#[cfg(feature = "process")]
impl From<mscclpp_bootstrap::Error> for Error {
    fn from(error: mscclpp_bootstrap::Error) -> Self {
        mscclpp_exec::Error::from(error).into()
    }
}

impl From<mscclpp_communicator::tune::TableError> for Error {
    fn from(error: mscclpp_communicator::tune::TableError) -> Self {
        mscclpp_exec::Error::from(error).into()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::fmt::Debug for Error {
    /// The message, for those who return the error from `main` or unwrap it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Cause::Program(findings) => std::fmt::Debug::fmt(findings, f),
            Cause::Runtime(error) => std::fmt::Display::fmt(&error.diagnostic(), f),
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
    #[doc = include_str!("../../docs/learn/counts.md")]
    struct Counts;
    #[doc = include_str!("../../docs/learn/experts.md")]
    struct Experts;
    #[doc = include_str!("../../docs/learn/epilogues.md")]
    struct Epilogues;
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
