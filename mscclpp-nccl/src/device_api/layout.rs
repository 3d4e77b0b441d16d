//! `ncclDevComm`: what kernels know of their communicator.

use std::ffi::{c_int, c_void};

use super::requirements::ResourceHandle;
use crate::abi::{HEADER, MAGIC};
use crate::entry::{Failure, Result};

/// The structures of NCCL's versions that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// 2.28.7 to 2.29.3, in which requirements have no version before 2.29.
    V228,
    /// 2.29.5 to 2.29.7.
    V229,
    /// 2.30.
    V230,
    /// 2.31 and 2.32.
    V231,
}

impl Layout {
    /// Returns the layout of a version.
    ///
    /// # Errors
    /// An invalid usage, as of NCCL, for a version whose structures are not known.
    pub(crate) fn of(version: c_int) -> Result<Self> {
        match version {
            22_902..=22_904 => Ok(Self::V228),
            22_905..=22_999 => Ok(Self::V229),
            23_000..=23_099 => Ok(Self::V230),
            23_100..=HEADER => Ok(Self::V231),
            _ => Err(Failure::usage(format!(
                "version: the program was compiled for NCCL {}, whose device interface this library does not know; expected 2.28.7 to \
                 2.32.3",
                crate::forward::dotted(version)
            ))),
        }
    }

    /// Returns the number of bytes of a device communicator.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::V228 => 200,
            Self::V229 => 224,
            Self::V230 => 240,
            Self::V231 => 248,
        }
    }

    /// Returns whether it begins with a magic number and the version.
    fn has_version(self) -> bool {
        matches!(self, Self::V230 | Self::V231)
    }
}

/// Offset of the handle of the resource window where there is a version.
const VERSIONED_RESOURCE_WINDOW: usize = 40;

/// Offset of the same where there is none.
const RESOURCE_WINDOW: usize = 32;

/// A device communicator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DeviceComm {
    pub(crate) version: c_int,
    pub(crate) rank: u32,
    pub(crate) num_ranks: u32,
    /// Number of this rank in its node, and the ranks there.
    pub(crate) local: (u32, u32),
    /// Device address of the first table of windows.
    pub(crate) window_table: u64,
    /// Handle of the resource window, or 0.
    pub(crate) resource_window: u64,
    /// Where rank 0's resource window is mapped.
    pub(crate) flat_base: u64,
    /// In units of 4 GiB.
    pub(crate) stride: u32,
    /// In units of 4 KiB.
    pub(crate) multicast_offset: u32,
    /// Where the multicast addresses of windows are counted from, or 0.
    pub(crate) multicast_base: u64,
    pub(crate) lsa_barrier: ResourceHandle,
    /// The barrier among ranks of a node that is part of one of all ranks.
    pub(crate) hybrid_barrier: ResourceHandle,
}

impl DeviceComm {
    /// Returns the bytes of a version's structure. Fields of a network of devices are zero: there is none.
    pub(crate) fn to_bytes(self, layout: Layout) -> Vec<u8> {
        let mut bytes = vec![0; layout.bytes()];
        let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        let (local, size) = self.local;
        // From the first rank on, all layouts are alike up to the resource window.
        let begin = if layout.has_version() { 8 } else { 0 };
        let numbers = [self.rank, self.num_ranks, reciprocal(self.num_ranks), local, size, reciprocal(size)];
        for (at, number) in (begin..).step_by(4).zip(numbers) {
            set(at, &number.to_ne_bytes());
        }
        set(begin + 24, &self.window_table.to_ne_bytes());
        set(begin + 32, &self.resource_window.to_ne_bytes());
        // Offsets of the inlined base and stride, the multicast base, and both barriers.
        let (base, stride, multicast, barrier, hybrid) = match layout {
            Layout::V228 | Layout::V229 => (48, 64, 112, 120, None),
            Layout::V230 => (56, 72, 120, 128, Some(216)),
            Layout::V231 => (48, 56, 72, 80, Some(176)),
        };
        set(base, &self.flat_base.to_ne_bytes());
        set(stride, &self.stride.to_ne_bytes());
        set(stride + 4, &self.multicast_offset.to_ne_bytes());
        set(multicast, &self.multicast_base.to_ne_bytes());
        set(barrier, &self.lsa_barrier.to_bytes());
        if let Some(at) = hybrid {
            set(at, &self.hybrid_barrier.to_bytes());
        }
        match layout {
            // Before 2.30 the resource window is inlined as a whole.
            Layout::V228 | Layout::V229 => {
                set(56, &local.to_ne_bytes());
                set(60, &self.rank.to_ne_bytes());
            }
            Layout::V230 => {}
            Layout::V231 => {
                // Strides of a network that connects no ranks, and identifiers of endpoints that there are not.
                for at in [156, 160] {
                    set(at, &1_u32.to_ne_bytes());
                }
                set(200, &reciprocal(1).to_ne_bytes());
                set(220, &reciprocal(1).to_ne_bytes());
                set(224, &[0xff; 8]);
            }
        }
        if layout.has_version() {
            set(0, &MAGIC.to_ne_bytes());
            set(4, &self.version.to_ne_bytes());
        }
        bytes
    }
}

/// Returns the number by which kernels multiply to divide by another one: 2^32 divided by it, rounded down, of which 32 bits are
/// kept.
fn reciprocal(number: u32) -> u32 {
    let number = number.max(1);
    (u32::MAX / number).wrapping_add(u32::from(number.is_power_of_two()))
}

/// Returns the handle of the resource window of a device communicator of any version.
///
/// # Safety
/// `at` must be valid for reads of a device communicator, aligned to 8 bytes.
pub(crate) unsafe fn resource_window(at: *const c_void) -> Result<usize> {
    let at = at.cast::<u8>();
    // SAFETY: guaranteed by the caller; each structure has these bytes.
    let word = |offset: usize| unsafe { at.add(offset).cast::<u32>().read() };
    let offset = match word(0) == MAGIC {
        true => {
            Layout::of(word(4) as c_int)?;
            VERSIONED_RESOURCE_WINDOW
        }
        false => RESOURCE_WINDOW,
    };
    // SAFETY: as above; both offsets are multiples of 8.
    Ok(unsafe { at.add(offset).cast::<usize>().read() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(bytes: &[u8], at: usize) -> u64 {
        u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
    }

    #[test]
    fn device_communicators_of_all_layouts_have_their_resource_window() {
        for (version, layout) in [
            (22_903, Layout::V228),
            (22_907, Layout::V229),
            (23_007, Layout::V230),
            (23_102, Layout::V231),
            (23_203, Layout::V231),
        ] {
            assert_eq!(Layout::of(version).expect("a known version"), layout);
            let comm = DeviceComm { version, resource_window: 0x1234_5678_9ab0, num_ranks: 3, ..DeviceComm::default() };
            let bytes = comm.to_bytes(layout);
            let words: Vec<u64> = (0..bytes.len()).step_by(8).map(|at| word(&bytes, at)).collect();
            // SAFETY: as many bytes as the layout has, aligned to 8.
            let found = unsafe { resource_window(words.as_ptr().cast()) };
            assert_eq!(found.expect("a device communicator"), 0x1234_5678_9ab0);
        }
        assert!(Layout::of(22_803).is_err() && Layout::of(23_300).is_err() && Layout::of(0).is_err());
    }

    #[test]
    fn reciprocals_divide_as_kernels_do() {
        for divisor in [1, 2, 3, 5, 6, 7, 8, 12, 72, 512, 1000] {
            for number in [0, 1, divisor - 1, divisor, divisor + 1, 100 * divisor - 1, 100 * divisor, 4096] {
                // The quotient may be 1 too small, which kernels correct; 2^32 itself is 0 for 1.
                let quotient = match divisor {
                    1 => number,
                    _ => ((u64::from(number) * u64::from(reciprocal(divisor))) >> 32) as u32,
                };
                assert!(number / divisor - quotient <= 1, "{number} / {divisor}: {quotient}");
            }
        }
        assert_eq!([reciprocal(1), reciprocal(2), reciprocal(3)], [0, 1 << 31, 0x5555_5555]);
    }
}
