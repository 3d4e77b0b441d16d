//! What plans mean on the CPU: a plan's operations as flat instructions, and how a thread block gets on in them.
//!
//! One interpreter serves ranks that share a process ([`crate::cpu`]) and ranks with a process each ([`crate::process`]). It
//! knows neither who schedules thread blocks nor where memory and counters live: memory is a table of lent slices, counters
//! are behind [`Counters`].
//!
//! Where the reference system's executor is at odds with its own documents, this one follows the documents: `get` uses the
//! offsets it is given, `flush` waits, tails of any length are handled, windows end with their data, packets honour windows,
//! `min`, `max`, `prod` and `avg` mean what they say, and double scratch holds for plain data too.

mod counters;
mod data;
mod divide;
mod fifo;
mod launch;
mod pairs;
mod params;
mod port;
pub(crate) mod program;
mod remote;
pub(crate) mod report;
mod resolve;
mod state;
mod sync;

pub(crate) use counters::Counters;
pub(crate) use data::copy;
pub(crate) use fifo::Trigger;
pub(crate) use launch::{Launch, Progress, Worker};
pub(crate) use params::{Params, SLICES};
pub(crate) use program::{Block, Opcode, Operand, ResolvedPlan, Space};
pub(crate) use remote::Remote;
pub(crate) use resolve::resolve;
pub(crate) use state::AgentState;
