//! Tuning: measures which algorithm is fastest on this machine, and stores the result.
//!
//! [`measure`] times one call under a caller's conditions. A [`Tuner`] does that for every candidate and size and
//! creates a [`TuningTable`] of the fastest, a human-readable file. A registry with a [tuning
//! table](mscclpp_select::Registry::set_table) follows it; nothing is ever measured unless requested.
//!
//! ```no_run
//! use mscclpp_core::collective::CollectiveKind;
//! use mscclpp_communicator::Communicator;
//! use mscclpp_exec::Error;
//! use mscclpp_communicator::tune::Tuner;
//!
//! # fn main() -> Result<(), Error> {
//! let tuner = Tuner {
//!     collectives: vec![CollectiveKind::AllReduce],
//!     in_place: vec![false],
//!     max_bytes: 2 << 10,
//!     iterations: Some(3),
//!     ..Tuner::default()
//! };
//! std::thread::scope(|scope| {
//!     for comm in Communicator::local(2)? {
//!         let tuner = &tuner;
//!         scope.spawn(move || {
//!             let table = tuner.run(&comm, |_| ()).expect("all ranks call it");
//!             assert_eq!(table.entries.len(), 2, "1 KiB and 2 KiB");
//!             // `table.save("two.toml")` keeps it. Calls of these sizes follow it from now on:
//!             comm.configure(|registry| registry.set_table(Some(table))).expect("all ranks call it");
//!         });
//!     }
//!     Ok(())
//! })
//! # }
//! ```

#[cfg(feature = "cuda")]
mod devices;
#[cfg(feature = "process")]
mod measure;
mod measure_executor;
mod options;
#[cfg(feature = "process")]
mod tuner;

#[cfg(feature = "cuda")]
pub use devices::check_launch;
#[cfg(feature = "process")]
pub use measure::{MeasuredCall, measure, measure_call};
pub use measure_executor::measure_executor;
pub use mscclpp_select::tuning::{
    CandidateTime, Difference, MachineInfo, TABLE_VARIABLE, TableError, TuningEntry, TuningTable,
};
pub use options::{MIN_TIMED_CALLS, MeasureOptions, Measurement};
#[cfg(feature = "process")]
pub use tuner::Tuner;
