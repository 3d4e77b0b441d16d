//! Executors, memory and default algorithms.
#![deny(unsafe_code)]

pub mod adversary;
pub mod algorithms;
pub mod bootstrap;
pub mod comm;
pub mod cpu;
#[allow(unsafe_code, reason = "device memory and the driver are reached through raw handles")]
pub mod cuda;
pub mod dtype;
pub mod dump;
pub mod error;
pub mod file;
pub mod group;
mod interpret;
mod layout;
#[allow(unsafe_code, reason = "memory that workers share is reached through raw pointers")]
mod memory;
pub mod message;
pub mod numeric;
#[allow(unsafe_code, reason = "buffers that peers reach are slices between launches")]
pub mod process;
pub mod select;
#[allow(unsafe_code, reason = "memory that processes share is mapped and reached through raw pointers")]
mod shm;
pub mod tune;
pub mod verify;

pub use dtype::{DataType, Element};
pub use error::Error;
pub use memory::available_memory;
pub use message::{Message, Packet};
pub use numeric::Accumulate;
