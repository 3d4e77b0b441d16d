//! The CPU interpreter: the operations of a plan as flat instructions, and how thread blocks make progress in them.
//!
//! One interpreter serves ranks that share a process (`mscclpp_exec::cpu`) and ranks in separate processes
//! (`mscclpp_exec::process`). It is independent of the scheduling of thread blocks and of the location of memory and
//! counters: memory is a table of lent slices, counters are accessed through [`Counters`].
//!
//! Where the reference executor contradicts its documentation, this interpreter follows the documentation: `get` uses
//! the given offsets, `flush` waits, tails of any length are handled, windows end with their data, packets respect
//! windows, `min`, `max`, `prod` and `avg` compute what their names say, and double scratch applies to plain data too.

mod counters;
mod counts;
mod data;
mod divide;
mod fifo;
mod launch;
#[cfg(feature = "process")]
mod nodes;
mod norm;
mod pairs;
mod params;
mod port;
pub mod program;
mod reduce;
mod remote;
pub mod report;
mod resolve;
#[cfg(feature = "process")]
mod retain;
mod rows;
mod state;
mod sync;
mod table;
pub mod timeline;

pub use counters::Counters;
pub use counts::{CountRow, CountRows, count_lines};
pub use data::copy;
pub use fifo::Trigger;
pub use launch::{Launch, Progress, Worker};
#[cfg(feature = "process")]
pub use nodes::{check_nodes, links, sends};
pub use norm::{ROW_SLICES, row_slice};
pub use params::{Params, SLICES};
pub use program::{Block, Opcode, Operand, ResolvedPlan, Space, Transfer};
pub use remote::Remote;
pub use resolve::resolve;
pub use rows::{RowCall, RowCalls, RowForm, RowLengths, RowNorm};
pub use state::AgentState;
