//! Collectives for people who do not want to know about plans.
//!
//! A [`Group`] is one rank's handle: it selects an algorithm for every call, prepares its plan once, and launches it.
//!
//! ```
//! use mscclpp_core::types::ReduceOp;
//! use mscclpp_exec::group::Group;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Three ranks in this process, each on a thread.
//! std::thread::scope(|scope| {
//!     for mut group in Group::local(3)? {
//!         scope.spawn(move || {
//!             let mut x = [1.0_f32, group.rank() as f32];
//!             group.all_reduce(&mut x, ReduceOp::Sum).expect("all ranks call it");
//!             assert_eq!(x, [3.0, 3.0]);
//!         });
//!     }
//!     Ok::<_, mscclpp_exec::group::Error>(())
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! | method | what a rank brings | what it gets |
//! |---|---|---|
//! | [`all_reduce`](Group::all_reduce) | n elements | the reduction of all |
//! | [`all_gather`](Group::all_gather) | n elements | everybody's, in the order of ranks |
//! | [`reduce_scatter`](Group::reduce_scatter) | a part for each rank | the reduction of its parts |
//! | [`all_to_all`](Group::all_to_all) | a part for each rank | everybody's part for it |
//! | [`all_to_all_v`](Group::all_to_all_v) | parts of any lengths | everybody's part for it |
//! | [`broadcast`](Group::broadcast) | n elements on the root | the root's |
//! | [`reduce`](Group::reduce) | n elements | on the root, the reduction of all |
//! | [`send_recv`](Group::send_recv) | n elements | those of the rank before it |

mod cache;
mod calls;
mod error;
mod exchange;
mod handle;

pub use error::Error;
pub use exchange::AllToAllVOutput;
pub use handle::Group;
