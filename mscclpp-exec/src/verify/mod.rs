//! Verifies the postcondition of a launch with a naive oracle in double precision.
//!
//! The postcondition of a send-receive is that every rank gets the input of the rank a fixed distance before it. The
//! distance is the plan's: 1 on one node, more where a plan sends to the same position of the next node.
//!
//! ```
//! use mscclpp_algorithms as algorithms;
//! use mscclpp_exec::{Message, cpu::Executor, verify::Verifier};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ring = algorithms::find("allreduce_ring").expect("it is in the library");
//! let plan = ring.plan(ring.spec(4, 4), &[])?;
//! let mut prepared = Executor::new(4).prepare(&plan, Message::of::<f32>(1001))?;
//! let mut buffers = prepared.buffers()?;
//! let verifier = Verifier::new(&prepared, 42);
//! verifier.fill(&mut buffers);
//! prepared.launch_buffers(&mut buffers)?;
//! assert!(verifier.check(&buffers).is_correct());
//! # Ok(())
//! # }
//! ```

mod compare;
mod prepared;

pub use compare::{FILL_BYTE, ROW_EPS};
pub use compare::{Mismatch, Verifier, VerifyReport};
pub use prepared::Prepared;
pub use prepared::{Bound, BoundPlan};

pub use mscclpp_base::oracle::{Pattern, PeriodicInputs};
