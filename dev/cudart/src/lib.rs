//! A `libcudart.so.13`: CUDA's runtime on top of the mock driver, so that programs that use it run on simulated devices.
//!
//! It has the functions that stock PyTorch needs (macro `calls!`): memory, copies, streams, events, captures and properties are
//! passed to the driver (`libcuda.so.1`). The functions of `unsupported` return an error, and so do launches of kernels that the
//! program contains, except some of `pytorch`: their machine code does not run on simulated devices.
//!
//! An error is returned, kept as the last error of the thread, and, if it is a limit of the simulation, described on standard error.

#![allow(non_snake_case)]

mod copies;
mod devices;
mod driver;
mod error;
mod events;
mod graphs;
mod kernels;
mod memory;
mod pools;
mod properties;
mod pytorch;
mod runtime;
mod sharing;
mod streams;
mod unsupported;
mod user_objects;
