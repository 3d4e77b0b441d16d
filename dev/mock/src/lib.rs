//! A `libcuda.so.1` whose devices are simulated.
//!
//! The simulator implements the executor's own `Driver`. This library implements the functions that cudarc calls
//! instead, so that tests cover the executor's calls of CUDA's driver as well: which function, with which arguments, in
//! which context. It has the functions that the executor, `dev/cudart` and PyTorch need, and no others; a call of a new
//! function requires adding the function here.
//!
//! A process loads it by its path before its first use of a device; from then on it is the process' `libcuda.so.1`.
//!
//! The executor's prebuilt kernels represent those of the simulator: loading one loads its counterpart. It has the functions of
//! NVRTC as well, which compile other sources for the simulator.

mod calls;
mod captures;
mod code;
mod images;
mod multicast;
mod pageable;
mod physical;
mod pointers;
mod pools;
mod ranges;
mod state;
mod streams;
