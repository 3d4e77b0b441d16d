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

mod addresses;
mod buffers;
pub mod channels;
mod connected;
mod counts;
mod executor;
mod experts;
mod flat_mapping;
mod ipc;
mod last_launch;
mod multicast;
mod nodes;
mod packet_areas;
mod peer_regions;
mod peer_window;
mod plan_state;
mod prepared_plan;
mod proxy;
mod ranges;
mod records;
mod report;
mod rows;
mod specialize;
mod staged;
mod switch;
mod tables;
mod timeline;
mod timing;
mod verify;

/// Device code compiled at run time, with a cache.
pub mod jit {
    pub use mscclpp_cuda::device::{Function, Module};
    pub use mscclpp_cuda::jit::*;
}

#[cfg(feature = "images")]
#[doc(hidden)]
pub use mscclpp_cuda::ahead_of_time;

pub use buffers::{Binding, Buffers};
pub use counts::DeviceCounts;
#[doc(hidden)]
pub use executor::WeakExecutor;
pub use executor::{Executor, Options, PrepareOptions};
#[doc(hidden)]
pub use experts::{ExpertRows, Payload, PayloadForm, RowsAtExperts, Travel};
pub use flat_mapping::FlatMapping;
pub use ipc::PeerPath;
pub use mscclpp_base::error::unavailable::CudaUnavailable;
pub use mscclpp_base::kernel_tier::KernelTier;
#[doc(hidden)]
pub use mscclpp_cuda::{
    abi,
    capture::{SetUp, refuse_in_capture},
    counter::{Counter, DeferredWait, DeferredWork},
    lend::Registration,
    registered::Dropped,
    vector::bytes_of,
    watch::CHECK_INTERVAL,
};
pub use mscclpp_cuda::{
    buffer::DeviceBuffer,
    device::{
        Device, current_device, device_count,
        stream::{Event, Graph, Stream},
    },
    dlpack,
    driver::{
        Allocation, CaptureMode, Driver, DriverError, Entered, Export, Fabric, Handle, Mapped, Mapping, Peer,
        Properties, SharedDriver, Source, calls,
    },
    lend::{DeviceMut, DeviceRef, Lent},
    registered::{NotRegistered, Registered, RegisteredView, RegisteredViewMut},
    slice::DeviceSlice,
    vector::{DeviceVec, DeviceView, DeviceViewMut},
};
pub use multicast::MulticastUnavailable;
pub use peer_regions::PeerRegions;
pub use peer_window::PeerWindow;
pub use prepared_plan::PreparedPlan;
#[doc(hidden)]
pub use rows::LentRows;
pub use rows::{DeviceRowNorm, RowOperands};
#[doc(hidden)]
pub use specialize::{Compile, best_tier, sources_of_ranks};
pub use specialize::{NotSpecialized, specialized_source};
#[doc(hidden)]
pub use staged::{Access, LentCounts, LentParams, Staged, StagedPart, lent_slices, part_slices};
pub use switch::SwitchPath;
#[doc(hidden)]
pub use timeline::Recorder;
pub use timing::{LaunchTimes, time, time_launches};
