//! What all executors share: types and messages, memory that workers and processes use at once, the interpreter of plans on the CPU,
//! changes of plans before they run, and errors.
//!
//! The crate is no interface of its own: programs use `mscclpp_exec` and `mscclpp`, which re-export what is public there.
//!
//! | module | contents |
//! |---|---|
//! | [`dtype`], [`message`], [`numeric`], [`layout`] | element types, sizes of messages and chunks, reductions |
//! | [`memory`], [`shm`] | memory that workers, and processes, use at once |
//! | [`interpret`], [`passes`] | plans as instructions, and their changes after the proof |
//! | [`experts`] | rows of tokens and where they belong at experts |
//! | [`oracle`] | what a collective computes, for tests and measurements |
//! | [`error`], [`mod@file`], [`logging`], [`system`] | errors, files that are replaced atomically, where messages go, limits of the machine |
#![deny(unsafe_code)]
#![allow(
    missing_docs,
    rustdoc::private_intra_doc_links,
    clippy::len_without_is_empty,
    clippy::should_implement_trait,
    clippy::new_without_default,
    reason = "the interface is that of the crates above, which document what they re-export"
)]

pub mod dtype;
pub mod error;
pub mod experts;
pub mod file;
#[cfg_attr(not(feature = "process"), allow(dead_code, unused_imports, reason = "ranks as processes use more of it"))]
pub mod interpret;
pub mod kernel_tier;
pub mod layout;
pub mod logging;
#[cfg_attr(not(feature = "process"), allow(dead_code, unused_imports, reason = "ranks as processes use more of it"))]
#[allow(unsafe_code, reason = "memory that workers share is reached through raw pointers")]
pub mod memory;
pub mod message;
pub mod numeric;
pub mod oracle;
#[cfg(feature = "process")]
pub mod passes;
pub mod random;
#[cfg(feature = "process")]
#[allow(unsafe_code, reason = "memory that processes share is mapped and reached through raw pointers")]
pub mod shm;
pub mod system;
pub mod timeline;

pub use dtype::{DataType, E4m3, E4m3B15, E5m2, Element, ElementName, ElementType, ParseDataTypeError};
pub use error::Error;
#[doc(hidden)]
pub use half as __half;
pub use message::{Message, PacketType};
pub use numeric::AccumType;
