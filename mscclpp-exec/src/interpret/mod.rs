//! The CPU interpreter: the operations of a plan as flat instructions, and how thread blocks make progress in them.
//!
//! One interpreter serves ranks that share a process ([`crate::cpu`]) and ranks in separate processes
//! ([`crate::process`]). It is independent of the scheduling of thread blocks and of the location of memory and
//! counters: memory is a table of lent slices, counters are accessed through [`Counters`].
//!
//! Where the reference executor contradicts its documentation, this interpreter follows the documentation: `get` uses
//! the given offsets, `flush` waits, tails of any length are handled, windows end with their data, packets respect
//! windows, `min`, `max`, `prod` and `avg` compute what their names say, and double scratch applies to plain data too.

mod counters;
mod data;
mod divide;
mod fifo;
mod launch;
mod pairs;
mod params;
mod port;
pub(crate) mod program;
mod reduce;
mod remote;
pub(crate) mod report;
mod resolve;
#[cfg(feature = "process")]
mod retain;
mod state;
mod sync;
mod table;

pub(crate) use counters::Counters;
pub(crate) use data::copy;
pub(crate) use fifo::Trigger;
pub(crate) use launch::{Launch, Progress, Worker};
pub(crate) use params::{Params, SLICES};
pub(crate) use program::{Block, Opcode, Operand, ResolvedPlan, Space};
pub(crate) use remote::Remote;
pub(crate) use resolve::resolve;
pub(crate) use state::AgentState;
