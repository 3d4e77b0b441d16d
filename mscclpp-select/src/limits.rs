//! Limits of launches on devices.

use std::fmt;

use super::choice::Config;

/// What the launches of calls on devices may take of a device, so that kernels of other streams find room beside them.
///
/// ```
/// use mscclpp_select::{LaunchLimits, Registry};
///
/// let mut registry = Registry::builtin();
/// // Half of a multiprocessor at most, on 16 of them.
/// registry.set_launch_limits(LaunchLimits { max_blocks: Some(16), max_threads: Some(512) });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct LaunchLimits {
    /// Maximum number of thread blocks of a rank; none for the usual number. An algorithm that needs more has as few as it can.
    pub max_blocks: Option<u32>,
    /// Maximum number of CUDA threads of a thread block; none for the usual number. Blocks have whole warps of 32 threads,
    /// and at least one.
    pub max_threads: Option<u32>,
}

impl LaunchLimits {
    /// Number of threads of a warp.
    const WARP: u32 = 32;

    /// Returns a configuration within the limits, if a plan has a thread block for each of its blocks.
    pub(super) fn apply(&self, config: &Config) -> Config {
        let within = |found: Option<u32>, limit: Option<u32>| match (found, limit) {
            (Some(found), Some(limit)) => Some(found.min(limit)),
            _ => found,
        };
        Config {
            blocks: within(config.blocks, self.max_blocks.map(|limit| limit.max(1))),
            threads: within(
                config.threads,
                self.max_threads.map(|limit| limit.max(Self::WARP) / Self::WARP * Self::WARP),
            ),
        }
    }

    /// Returns the number of blocks with which a plan has fewer thread blocks than now, if it has more than the limit.
    pub(super) fn fewer_blocks(&self, blocks: u32, num_thread_blocks: u32) -> Option<u32> {
        let limit = self.max_blocks.filter(|limit| num_thread_blocks > *limit && blocks > 1)?;
        let by_share = limit / num_thread_blocks.div_ceil(blocks);
        Some(by_share.clamp(1, blocks - 1))
    }
}

impl fmt::Display for LaunchLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.max_blocks, self.max_threads) {
            (None, None) => f.write_str("no limits"),
            (Some(blocks), None) => write!(f, "{blocks} blocks"),
            (None, Some(threads)) => write!(f, "{threads} threads"),
            (Some(blocks), Some(threads)) => write!(f, "{blocks} blocks of {threads} threads"),
        }
    }
}
