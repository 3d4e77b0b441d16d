//! What uses the connections to other nodes: a plan, or channels of user-supplied kernels.

use mscclpp_core::plan::Plan;

use crate::cuda::nodes::ends::Ends;
use mscclpp_base::error::Error;
use mscclpp_base::error::channel::ChannelError;

/// Number in messages of channels of kernels, in place of the hash of a plan.
const CHANNELS: u64 = 0x6368_616e;

/// Addresses that the device signals when it begins a launch and when it has finished its part.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Markers {
    pub(in crate::cuda) begin: u64,
    pub(in crate::cuda) end: u64,
}

/// What uses a rank's connections.
pub(in crate::cuda) enum Traffic {
    /// Launches of a plan, whose data arrives before they end.
    Plan { plan: Plan, markers: Markers, ends: Ends },
    /// Kernels of users, whose launches are unknown: messages are received at any time.
    Channels { rank: u32 },
}

impl Traffic {
    /// Returns the number under which other ranks address it.
    pub(super) fn key(&self) -> u64 {
        match self {
            Self::Plan { plan, .. } => plan.hash() as u64,
            Self::Channels { .. } => CHANNELS,
        }
    }

    /// Returns the launch that the device is in from the beginning; 0 if it is in none.
    pub(super) fn first_launch(&self) -> u64 {
        u64::from(matches!(self, Self::Channels { .. }))
    }

    /// Returns the text of a launch.
    pub(super) fn call(&self, launch: u64) -> String {
        match self {
            Self::Plan { plan, .. } => format!("launch {launch} of plan `{}`", plan.name()),
            Self::Channels { .. } => "port channels of user-supplied kernels".into(),
        }
    }

    /// Returns the error of a request that no channel of the device allows.
    pub(super) fn invalid_request(&self, reason: String) -> Error {
        match self {
            Self::Plan { .. } => Error::Internal(reason),
            Self::Channels { rank } => {
                Error::KernelChannel(Box::new(ChannelError::InvalidRequest { rank: *rank, reason }))
            }
        }
    }
}
