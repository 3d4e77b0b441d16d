//! Collective calls for programs that do not build plans themselves.
//!
//! A [`Communicator`] is one rank's handle: it selects an algorithm for every call, prepares its plan once, and launches it.
//!
//! ```
//! use mscclpp_core::types::ReduceOp;
//! use mscclpp_exec::{Communicator, Error};
//!
//! # fn main() -> Result<(), Error> {
//! // Three ranks in this process, each on a thread.
//! std::thread::scope(|scope| {
//!     for comm in Communicator::local(3)? {
//!         scope.spawn(move || {
//!             let (input, mut output) = ([1.0_f32, comm.rank() as f32], [0.0; 2]);
//!             comm.all_reduce(&input, &mut output, ReduceOp::Sum).expect("all ranks call it");
//!             assert_eq!(output, [3.0, 3.0]);
//!         });
//!     }
//!     Ok(())
//! })
//! # }
//! ```
//!
//! | method | input of a rank | output of a rank |
//! |---|---|---|
//! | [`all_reduce`](Communicator::all_reduce) | n elements | the reduction over all ranks |
//! | [`all_gather`](Communicator::all_gather) | n elements | the inputs of all ranks, in the order of ranks |
//! | [`reduce_scatter`](Communicator::reduce_scatter) | a part for each rank | the reduction of its parts |
//! | [`all_to_all`](Communicator::all_to_all) | a part for each rank | the parts of all ranks for it |
//! | [`all_to_all_v`](Communicator::all_to_all_v) | parts of any lengths | the parts of all ranks for it |
//! | [`broadcast`](Communicator::broadcast) | n elements on the root | the root's |
//! | [`reduce`](Communicator::reduce) | n elements | on the root, the reduction over all ranks |
//! | [`send_recv`](Communicator::send_recv) | n elements | those of the previous rank |
//!
//! The plain name takes input and output, `_in_place` one buffer. Memory is any slice: arrays, vectors, and registered buffers
//! of [`alloc`](Communicator::alloc), which are used without copies. A call blocks; [`start`](Communicator::start) makes calls
//! on a thread and returns a [`Pending`] to wait for or to poll as a future.

mod cache;
mod calls;
mod exchange;
mod handle;
mod pending;

pub use exchange::AllToAllVOutput;
pub use handle::Communicator;
pub use pending::Pending;
