//! Communicators: what a program that takes part in a job holds.

mod communicator;

pub use communicator::Communicator;
