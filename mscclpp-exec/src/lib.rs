//! Executors, memory and default algorithms.
#![deny(unsafe_code)]

pub mod adversary;
pub mod algorithms;
pub mod bootstrap;
pub mod comm;
pub mod cpu;
pub mod dtype;
pub mod error;
mod file;
pub mod group;
mod interpret;
mod layout;
#[allow(unsafe_code, reason = "memory that workers share is reached through raw pointers")]
mod memory;
pub mod message;
pub mod numeric;
pub mod select;
pub mod verify;

pub use dtype::{DataType, Element};
pub use error::Error;
pub use message::{Message, Packet};
pub use numeric::Accumulate;
