//! The CUDA executor: ranks on one device or several, in one process or many, on one node or several.
//!
//! One kernel interprets a plan's operations (`kernels/executor.h`). The tables that it reads of a plan are uploaded
//! once. Sizes and buffers are kernel parameters, so that another size or buffer needs no work on the device and every
//! launch can be captured in a graph. Sequence numbers, packet flags and counters are kept and advanced in device
//! memory, so that graphs replay correctly, also between eager launches.
//!
//! | step | done by | how often |
//! |---|---|---|
//! | load the driver, open the device | [`Device::new`] | once |
//! | load the kernels of a data type | [`Executor::prepare`] | once per type and device |
//! | upload a plan's tables | [`Executor::prepare`] | once per plan and executor |
//! | compute sizes, allocate scratch | [`Executor::prepare`] | once per message size |
//! | enqueue one kernel on a stream | [`PreparedPlan::launch`] | every launch |
//!
//! Every wait is bounded: a launch whose thread blocks wait longer than [`Options::timeout`] aborts, and
//! [`PreparedPlan::synchronize`] reports what each of them was waiting for. Results are bitwise equal to those of the
//! CPU executor, except for the payload of NaN: devices return the canonical NaN, where the CPU keeps that of an operand.
//!
//! [`Driver`] and its supertraits in [`calls`] are all that the executor requires of a driver. CUDA's driver implements
//! them; a simulator may, too.
//!
//! Packets of both kinds ([`PacketType`](mscclpp_base::PacketType)) have the same memory layout and are always moved in pairs of 8
//! bytes of payload. Switch channels go through multicast objects where these are available ([`SwitchPath`]), otherwise
//! to the members' memories one by one.

#[doc(hidden)]
pub mod abi;
mod addresses;
mod buffers;
pub mod calls;
mod capture;
pub mod channels;
mod connected;
mod counter;
mod cudarc_memory;
mod device;
pub mod dlpack;
mod driver;
mod event_pool;
mod executor;
mod flat_mapping;
mod images;
mod ipc;
pub mod jit;
mod last_launch;
mod lend;
mod libcuda;
mod memory;
mod multicast;
mod nodes;
mod packet_areas;
mod peer;
mod peer_regions;
mod peer_window;
mod plan_state;
mod prepared_plan;
mod proxy;
mod ranges;
mod records;
mod registered;
mod report;
mod specialize;
mod staged;
mod stream;
mod switch;
mod tables;
mod timeline;
mod timing;
mod uses;
mod vector;
mod verify;
mod watch;

pub use buffers::{Binding, Buffers, DeviceBuffer, DeviceSlice};
#[doc(hidden)]
pub use capture::{SetUp, refuse_in_capture};
#[doc(hidden)]
pub use counter::{Counter, DeferredWait, DeferredWork};
pub use device::{Device, current_device, device_count};
pub use driver::{
    Allocation, CaptureMode, Driver, DriverError, Entered, Export, Fabric, Handle, Mapped, Mapping, Peer, Properties,
    SharedDriver, Source,
};
#[doc(hidden)]
pub use executor::WeakExecutor;
pub use executor::{Executor, Options, PrepareOptions};
pub use flat_mapping::FlatMapping;
pub use ipc::PeerPath;
#[doc(hidden)]
pub use lend::Registration;
pub use lend::{DeviceMut, DeviceRef, Lent};
pub use mscclpp_base::error::unavailable::CudaUnavailable;
pub use multicast::MulticastUnavailable;
pub use peer_regions::PeerRegions;
pub use peer_window::PeerWindow;
pub use prepared_plan::PreparedPlan;
#[doc(hidden)]
pub use registered::Dropped;
pub use registered::{NotRegistered, Registered, RegisteredView, RegisteredViewMut};
pub use specialize::{NotSpecialized, specialized_source};
#[doc(hidden)]
pub use staged::{Access, Staged, StagedPart, lent_slices, part_slices};
pub use stream::{Event, Graph, Stream};
pub use switch::SwitchPath;
#[doc(hidden)]
pub use timeline::Recorder;
pub use timing::{LaunchTimes, time, time_launches};
#[doc(hidden)]
pub use vector::bytes_of;
pub use vector::{DeviceVec, DeviceView, DeviceViewMut};
#[doc(hidden)]
pub use watch::CHECK_INTERVAL;
