//! The CUDA executor: ranks on one device or several, in one process or many, on one node or several.
//!
//! One kernel interprets a plan's operations (`kernels/executor.h`). What it reads of a plan is uploaded once; sizes and
//! buffers are in its argument, so that another size or buffer costs nothing on the device and every launch can be captured
//! in a graph. Sequence numbers, packet flags and counters live in device memory and advance there, so that graphs replay
//! correctly, also between eager launches.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | the driver found, the device opened | [`Device::new`] | once |
//! | kernels of a type loaded | [`Executor::prepare`] | once per type and device |
//! | a plan's tables uploaded | [`Executor::prepare`] | once per plan and world |
//! | sizes, scratch | [`Executor::prepare`] | once per message size |
//! | one kernel put on a stream | [`PreparedPlan::launch`] | every launch |
//!
//! Every wait is bounded: a launch whose thread blocks wait longer than [`Options::timeout`] gives up, and
//! [`PreparedPlan::synchronize`] says what each of them waited for. Results are those of the CPU executor, bit for bit.
//!
//! Of a driver is needed what [`Driver`] says, and its parts in [`calls`]: CUDA's own does it, and so may a simulator.
//!
//! Packets of both kinds ([`Packet`](crate::Packet)) look the same in memory and are always moved in pairs of 8 bytes of payload.
//! Switch channels go through multicast objects where there are any ([`SwitchPath`]), else to the members' memories one by one.

mod abi;
mod addresses;
mod buffers;
pub mod calls;
mod device;
pub mod dlpack;
mod driver;
mod executor;
mod images;
mod ipc;
pub mod jit;
mod libcuda;
mod memory;
mod multicast;
pub mod native;
mod nodes;
mod peer;
mod plan_state;
mod prepared_plan;
mod proxy;
mod report;
mod specialize;
mod stream;
mod switch;
mod tables;
mod timing;
mod unavailable;

pub use buffers::{Binding, Buffers, DeviceBuffer, DeviceSlice};
pub use device::{Device, device_count};
pub use driver::{Allocation, Driver, DriverError, Export, Handle, Mapped, Mapping, Properties, SharedDriver};
pub use executor::{Executor, Options, PrepareOptions};
pub use multicast::MulticastUnavailable;
pub use prepared_plan::PreparedPlan;
pub use specialize::{NotSpecialized, specialized_source};
pub use stream::{Event, Graph, Stream};
pub use switch::SwitchPath;
pub use timing::{LaunchTimes, time, time_launches};
pub use unavailable::CudaUnavailable;
