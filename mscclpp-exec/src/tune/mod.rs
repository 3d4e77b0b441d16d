//! Which algorithm is fastest here: measured, written down, read again.
//!
//! [`measure`] times one call the way callers meet it. A [`Tuner`] does that for every candidate and size and makes a
//! [`Table`] of the fastest, a file that people can read. A registry that is [given](crate::select::Registry::set_table) a
//! table follows it; nothing is ever measured unless somebody asks for it.

mod machine;
mod measure;
mod record;
mod table;
mod tuner;
mod world;

pub use machine::{Difference, Machine};
pub use measure::{Measured, Measuring, measure};
pub use record::{Entry, Timed};
pub use table::{Table, TableError};
pub use tuner::Tuner;
pub use world::measure_world;

/// The variable that names a table for [`Registry::from_env`](crate::select::Registry::from_env).
pub const TABLE_VARIABLE: &str = "MSCCLPP_TUNING_TABLE";
