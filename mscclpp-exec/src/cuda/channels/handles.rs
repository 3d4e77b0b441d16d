//! The channels as kernels see them: structs that are passed to the device, declared in `mscclpp_channels.h`.

use crate::cuda::DeviceSlice;

/// A memory channel of a kernel, `mscclpp::MemoryChannel` on the device. A plain value: the [`Channels`](super::Channels) that returned
/// it must exist as long as kernels use it. A zeroed one fills arrays; kernels must not use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct DeviceMemoryChannel {
    pub(super) remote: u64,
    pub(super) source: u64,
    pub(super) shared: u64,
    pub(super) outbound: u64,
    pub(super) counter: Counter,
    pub(super) limit: Wait,
}

/// A port channel of a kernel, `mscclpp::PortChannel` on the device. A plain value, as [`DeviceMemoryChannel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct DevicePortChannel {
    pub(super) remote: u64,
    pub(super) source: u64,
    pub(super) outbound: u64,
    pub(super) queue: u64,
    pub(super) counter: Counter,
    pub(super) limit: Wait,
}

/// The switch channel of a kernel, `mscclpp::SwitchChannel` on the device. A plain value, as [`DeviceMemoryChannel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct DeviceSwitchChannel {
    pub(super) multicast: u64,
    pub(super) members: u64,
    pub(super) num_members: u64,
}

/// A barrier of the blocks of a kernel, `mscclpp::DeviceBarrier` on the device. A plain value, as [`DeviceMemoryChannel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct DeviceBarrier {
    pub(super) arrivals: u64,
    pub(super) limit: Wait,
}

/// The signals of a peer, and the waits for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Counter {
    pub(super) inbound: u64,
    pub(super) waits: u64,
}

/// What every wait needs: where it reports, how long it may take, and of which channel it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Wait {
    pub(super) status: u64,
    pub(super) timeout_ns: u64,
    pub(super) channel: u64,
}

impl DeviceMemoryChannel {
    /// Returns this channel with other memory of the rank's device as its source: that which `put` reads and `get` writes. At first it
    /// is the shared memory. The memory must exist as long as kernels use the channel.
    #[must_use]
    pub fn with_source(self, source: DeviceSlice) -> Self {
        Self { source: source.address, ..self }
    }
}

impl DevicePortChannel {
    /// Returns this channel with other memory as its source, as [`DeviceMemoryChannel::with_source`] does.
    #[must_use]
    pub fn with_source(self, source: DeviceSlice) -> Self {
        Self { source: source.address, ..self }
    }
}
