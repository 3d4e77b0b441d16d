//! Whether a launch did what its collective promises: a naive oracle in double precision.
//!
//! A send-receive promises that every rank gets the input of the rank a fixed distance before it. The distance is the
//! plan's: 1 on one node, more where a plan sends to the same position of the next node.
//!
//! ```no_run
//! # fn main() -> Result<(), mscclpp_exec::Error> {
//! # let plan: mscclpp_core::plan::Plan = unimplemented!();
//! use mscclpp_exec::{Message, cpu::World, verify::Verifier};
//!
//! let mut run = World::new(8).prepare(&plan, Message::of::<f32>(1001))?;
//! let mut buffers = run.buffers()?;
//! let verifier = Verifier::new(&run, 42);
//! verifier.fill(&mut buffers);
//! run.launch_buffers(&mut buffers)?;
//! assert!(verifier.check(&buffers).is_correct());
//! # Ok(())
//! # }
//! ```

mod compare;
mod expected;
mod pattern;
mod value;

pub use compare::{Mismatch, Report, Verifier};
pub use pattern::Pattern;
