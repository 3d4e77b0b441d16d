//! CUDA devices, below the executor: the driver and its calls, devices, streams, memory and who uses it, kernels that are compiled
//! at run time.
//!
//! Nothing here knows plans. [`driver::Driver`] and its supertraits in [`driver::calls`] are all that is required of a driver:
//! `libcuda` implements them, and a simulator may, too. The driver is loaded when it is first needed.
//!
//! | module | what it has |
//! |---|---|
//! | [`driver`], `libcuda` | what is required of a driver, by subject, and CUDA's |
//! | [`device`] | devices, with their streams, events, graphs and loaded modules |
//! | [`buffer`], [`vector`], [`registered`], [`dlpack`], `cudarc_memory` | memory of users, whatever its origin |
//! | [`mod@slice`], [`memory`] | ranges; memory of the library |
//! | [`lend`], [`uses`], [`unused`], [`counter`] | memory that calls borrow, and what waits for its users |
//! | [`capture`] | what a thread that captures a stream may do |
//! | [`jit`], [`images`], `ahead_of_time` | kernels that are compiled at run time, prebuilt interpreters, kernels of default plans |
//! | [`abi`] | what host and device share; `kernels/abi.h` is generated from it |

#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    clippy::len_without_is_empty,
    clippy::should_implement_trait,
    clippy::new_without_default,
    reason = "the interface is that of the crates above"
)]

pub mod abi;
#[cfg(feature = "images")]
pub mod ahead_of_time;
pub mod buffer;
pub mod capture;
mod copy;
pub mod counter;
mod cudarc_memory;
pub mod device;
pub mod dlpack;
pub mod driver;
pub mod event_pool;
mod free_counters;
pub mod images;
pub mod jit;
pub mod lend;
mod libcuda;
pub mod memory;
pub mod peer;
pub mod registered;
pub mod slice;
pub mod unused;
pub mod uses;
pub mod vector;
pub mod watch;
