//! Executors: run the plans of [`mscclpp_core`].
//!
//! Ranks of one process run a plan like this:
//!
//! ```
//! use mscclpp_algorithms as algorithms;
//! use mscclpp_exec::cpu::Executor;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pairs = algorithms::find("allreduce_all_pairs").expect("it is in the library");
//! let plan = pairs.plan(pairs.spec(3, 3), &[])?;
//! let mut buffers = [[1; 5], [20; 5], [300; 5]];
//! Executor::new(3).run_in_place(&plan, &mut buffers)?;
//! assert_eq!(buffers, [[321; 5]; 3]);
//! # Ok(())
//! # }
//! ```
//!
//! | item | what it has |
//! |---|---|
//! | [`cpu`] | all ranks of a plan in one process |
//! | `process` | a process for each rank |
//! | `cuda` | CUDA devices |
//! | [`Message`], [`DataType`], [`AccumType`] | message sizes, element types, reductions |
//! | [`verify`] | verification of results |
//! | [`mod@file`], [`error`] | files that are replaced atomically; errors of all executors |
//!
//! `mscclpp-select` chooses plans, `mscclpp-communicator` makes collective calls, `mscclpp-validate` proves what runs here.
//!
//! Ranks as processes, and what builds on them (CUDA), need Linux and the feature `process`,
//! which is on by default. Everything else compiles for Windows and macOS too.
#![deny(unsafe_code)]

pub mod cpu;
#[cfg(feature = "cuda")]
#[allow(unsafe_code, reason = "device memory and the driver are reached through raw handles")]
pub mod cuda;
#[cfg(feature = "process")]
#[allow(unsafe_code, reason = "buffers that peers reach are slices between launches")]
pub mod process;
pub mod verify;

#[doc(hidden)]
pub use mscclpp_base::__half;
pub use mscclpp_base::interpret::RowNorm;
#[doc(hidden)]
pub use mscclpp_base::logging;
#[cfg(feature = "process")]
#[doc(hidden)]
pub use mscclpp_base::shm::ProcessMark as __ProcessMark;
pub use mscclpp_base::system::{AvailableMemory, ControlGroup, ExceededLimit, SystemLimit, available_memory};
pub use mscclpp_base::timeline;
pub use mscclpp_base::{
    AccumType, DataType, E4m3, E4m3B15, E5m2, Element, ElementName, ElementType, Error, Message, PacketType,
    ParseDataTypeError, error, file, with_type,
};
#[cfg(feature = "process")]
pub use mscclpp_transport::{UcxReport, try_ucx};
