//! CUDA devices.

mod abi;
