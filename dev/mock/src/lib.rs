//! A `libcuda.so.1` whose devices are simulated.
//!
//! The simulator stands behind the executor's own `Driver`. This library stands behind cudarc instead, so that tests go through the
//! executor's calls of CUDA's driver as well: which function, with which arguments, in which context. It has the functions
//! that the executor calls (`calls`), those of cudarc's own types that tests use (`cudarc_calls`), and no others; to call a new one,
//! add it here.
//!
//! A process loads it by its path before it first asks for a device; from then on `libcuda.so.1` is this.
//!
//! The executor's prebuilt kernels stand for those that the simulator has: whoever loads one gets the other.

mod calls;
mod code;
mod cudarc_calls;
mod images;
mod multicast;
mod physical;
mod state;
