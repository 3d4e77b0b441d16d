//! `ncclDevCommRequirements`: what a program needs of a device communicator.

use std::ffi::{c_int, c_void};

use super::{Layout, RESOURCE_UNIT};
use crate::abi::{MAGIC, Team};
use crate::entry::{Failure, Result, check_pointer};

/// Maximum number of entries of a list: a longer one has no end.
const MAX_ENTRIES: usize = 4096;

/// Maximum number of bytes of all resources: positions are 32-bit numbers of units.
const MAX_BYTES: u64 = RESOURCE_UNIT << 31;

/// Maximum alignment of a resource: that of the pages of devices.
const MAX_ALIGN: u64 = 2 << 20;

/// Sizes that are no addresses: a structure that begins with one is not that of a version without size.
const SIZES: std::ops::Range<u64> = 1..1 << 16;

/// `ncclLsaBarrierHandle` and `ncclLLA2AHandle`: the first unit of a resource, and the number of its barriers or slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceHandle {
    pub(crate) unit: u32,
    pub(crate) count: u32,
}

impl ResourceHandle {
    pub(super) fn to_bytes(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.unit.to_ne_bytes());
        bytes[4..].copy_from_slice(&self.count.to_ne_bytes());
        bytes
    }
}

/// Returns the number of bytes of barriers among ranks of a node: three words of each, and one of each rank.
pub(crate) fn lsa_barrier_bytes(count: u32, num_ranks: u32) -> u64 {
    (3 + u64::from(num_ranks)).saturating_mul(4 * u64::from(count))
}

/// A buffer that a program requires.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    /// Where the program expects its position, or 0.
    pub(crate) out: usize,
}

/// `ncclDevResourceRequirements`, the same in all versions.
#[repr(C)]
struct ListedResource {
    next: *const Self,
    bytes: usize,
    align: usize,
    out: *mut u32,
    signals: c_int,
    counters: c_int,
    out_signals: *mut u32,
    out_counters: *mut u32,
}

/// `ncclTeamRequirements`, the same in all versions.
#[repr(C)]
struct ListedTeam {
    next: *const Self,
    team: Team,
    multimem: u8,
    out: *mut u64,
}

/// Requirements, as far as they are served.
#[derive(Clone, Debug)]
pub(crate) struct Requirements {
    pub(crate) layout: Layout,
    pub(crate) version: c_int,
    pub(crate) multimem: bool,
    pub(crate) lsa_barriers: u32,
    pub(crate) hybrid_barriers: u32,
    pub(crate) resources: Vec<Resource>,
    /// Teams with multicast addresses, and where the program expects their base, or 0.
    pub(crate) multimem_teams: Vec<(Team, usize)>,
}

/// The fields of a structure, from the first that a program states: those of all versions have the same distances.
struct Stated {
    at: *const u8,
    /// Number of bytes from there on.
    len: usize,
}

impl Stated {
    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        match at + N <= self.len {
            // SAFETY: `Requirements::read` requires that the structure has this number of bytes.
            true => unsafe { self.at.add(at).cast::<[u8; N]>().read() },
            false => [0; N],
        }
    }

    fn pointer<T>(&self, at: usize) -> *const T {
        usize::from_ne_bytes(self.bytes(at)) as *const T
    }

    fn flag(&self, at: usize) -> bool {
        self.bytes::<1>(at) != [0]
    }

    fn count(&self, name: &str, at: usize) -> Result<u32> {
        let found = c_int::from_ne_bytes(self.bytes(at));
        u32::try_from(found).map_err(|_| Failure::argument(format!("reqs.{name}: expected a count, found {found}")))
    }
}

impl Requirements {
    /// Reads requirements of a program that was compiled for a version.
    ///
    /// # Errors
    /// NCCL's: an invalid usage for a structure that was not initialized or is of an unknown version, an invalid argument for
    /// invalid values, and for those that need a network of devices.
    ///
    /// # Safety
    /// The pointer must be null, or valid for reads of the version's structure, and so must those in it.
    pub(crate) unsafe fn read(at: *const c_void, runtime: c_int) -> Result<Self> {
        check_pointer("reqs", at.cast::<u64>())?;
        // SAFETY: guaranteed by the caller: every version has at least these words.
        let (first, second) = unsafe { (at.cast::<u64>().read(), at.cast::<u64>().add(1).read()) };
        let (layout, version, stated) = match second as u32 == MAGIC {
            true => {
                let version = (second >> 32) as c_int;
                let size = first as usize;
                if !(72..1 << 16).contains(&size) {
                    return Err(Failure::usage(format!("reqs.size: expected 72 bytes or more, found {size}")));
                }
                // SAFETY: the structure has this number of bytes.
                (Layout::of(version)?, version, Stated { at: unsafe { at.cast::<u8>().add(16) }, len: size - 16 })
            }
            false if SIZES.contains(&first) => {
                let text = format!(
                    "reqs: expected the magic number {MAGIC:#x}, found {:#x}; initialize it with NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER",
                    second as u32
                );
                return Err(Failure::usage(text));
            }
            // Before 2.29 there is neither a size nor a magic number.
            false => (Layout::V228, 22_809, Stated { at: at.cast(), len: 56 }),
        };
        let signals = stated.count("ginSignalCount", 48)? + stated.count("ginCounterCount", 52)?;
        let barriers = stated.count("barrierCount", 20)?;
        let lsa_barriers = stated.count("lsaBarrierCount", 24)?;
        for (name, at) in [("railGinBarrierCount", 28), ("lsaLLA2ABlockCount", 32), ("lsaLLA2ASlotCount", 36)] {
            stated.count(name, at)?;
        }
        let connection = c_int::from_ne_bytes(stated.bytes(56));
        let world = stated.count("worldGinBarrierCount", 72)?;
        if stated.flag(40) || connection != 0 || signals > 0 || world > 0 {
            return Err(no_network("reqs"));
        }
        if stated.bytes::<4>(92) != [0; 4] || stated.count("cftBarrierCount", 96)? > 0 {
            return Err(Failure::argument("reqs.cftCaps: expected none, as this library has no logical endpoints"));
        }
        // The device code is that of the library's version, whatever that of the program.
        let (layout, version) = match layout == Layout::V231 && stated.flag(88) {
            true => (Layout::of(runtime)?, runtime),
            false => (layout, version),
        };
        // SAFETY: guaranteed by the caller.
        let (resources, multimem_teams) =
            unsafe { (list_resources(stated.pointer(0))?, list_teams(stated.pointer(8))?) };
        let has_hybrid = matches!(layout, Layout::V230 | Layout::V231);
        Ok(Self {
            layout,
            version,
            multimem: stated.flag(16),
            // Before there was a barrier of its own, that of all ranks used the first ones of those of a node.
            lsa_barriers: if has_hybrid { lsa_barriers } else { lsa_barriers.max(barriers) },
            hybrid_barriers: if has_hybrid { barriers } else { 0 },
            resources,
            multimem_teams,
        })
    }
}

fn no_network(what: &str) -> Failure {
    Failure::argument(format!(
        "{what}: GIN is required, but this library connects devices of different nodes by no network"
    ))
}

/// Returns the first entries of a list, and an error unless it ends.
///
/// # Safety
/// The pointers must be null, unaligned or valid for reads.
unsafe fn list<T, U>(
    name: &str,
    mut at: *const T,
    next: impl Fn(&T) -> *const T,
    read: impl Fn(&T) -> Result<U>,
) -> Result<Vec<U>> {
    let mut all = Vec::new();
    while !at.is_null() {
        check_pointer(name, at)?;
        if all.len() == MAX_ENTRIES {
            return Err(Failure::argument(format!(
                "{name}: expected at most {MAX_ENTRIES} entries, found more, or no end"
            )));
        }
        // SAFETY: guaranteed by the caller.
        let entry = unsafe { &*at };
        all.push(read(entry)?);
        at = next(entry);
    }
    Ok(all)
}

/// # Safety
/// As for [`list`].
unsafe fn list_resources(first: *const ListedResource) -> Result<Vec<Resource>> {
    const NAME: &str = "reqs.resourceRequirementsList";
    let read = |entry: &ListedResource| {
        if entry.signals != 0 || entry.counters != 0 {
            return Err(no_network(NAME));
        }
        let (bytes, align) = (entry.bytes as u64, (entry.align as u64).max(RESOURCE_UNIT));
        if !align.is_power_of_two() || align > MAX_ALIGN || bytes > MAX_BYTES {
            let text = format!(
                "{NAME}: expected at most {MAX_BYTES} bytes, aligned to a power of 2 up to {MAX_ALIGN}, found {bytes} and {align}"
            );
            return Err(Failure::argument(text));
        }
        if !entry.out.is_null() {
            check_pointer("outBufferHandle", entry.out)?;
        }
        Ok(Resource { bytes, align, out: entry.out as usize })
    };
    // SAFETY: guaranteed by the caller.
    unsafe { list(NAME, first, |entry| entry.next, read) }
}

/// # Safety
/// As for [`list`].
unsafe fn list_teams(first: *const ListedTeam) -> Result<Vec<(Team, usize)>> {
    let read = |entry: &ListedTeam| {
        if !entry.out.is_null() {
            check_pointer("outMultimemHandle", entry.out)?;
        }
        Ok((entry.multimem != 0).then_some((entry.team, entry.out as usize)))
    };
    // SAFETY: guaranteed by the caller.
    let all = unsafe { list("reqs.teamRequirementsList", first, |entry| entry.next, read) }?;
    Ok(all.into_iter().flatten().collect())
}

/// Writes a requirement of a buffer, whose position is to be written to `position`.
///
/// # Errors
/// An invalid argument for a null or unaligned pointer, and for more bytes than resources can have.
///
/// # Safety
/// A pointer that is neither must be valid for writes of `ncclDevResourceRequirements`.
pub(crate) unsafe fn write_requirement(out: *mut c_void, bytes: u64, align: usize, position: *mut u32) -> Result<()> {
    if bytes > MAX_BYTES {
        return Err(Failure::argument(format!("expected a resource of at most {MAX_BYTES} bytes, found {bytes}")));
    }
    let requirement = ListedResource {
        next: std::ptr::null(),
        bytes: bytes as usize,
        align,
        out: position,
        signals: 0,
        counters: 0,
        out_signals: std::ptr::null_mut(),
        out_counters: std::ptr::null_mut(),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { crate::entry::write("outReq", out.cast::<ListedResource>(), requirement) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Code;

    /// Requirements of a version: 2.29.2 to 2.32 have sizes from 72 to 120.
    fn versioned(size: usize, version: u32) -> Vec<u32> {
        let mut words = vec![0; size / 4];
        (words[0], words[2], words[3]) = (size as u32, MAGIC, version);
        words
    }

    /// Returns the requirements of words, which are moved to an address that is a multiple of 8.
    fn read(words: &[u32]) -> Result<Requirements> {
        let pairs = words.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 32);
        let aligned: Vec<u64> = pairs.collect();
        // SAFETY: as many bytes as the structure states.
        unsafe { Requirements::read(aligned.as_ptr().cast(), 23_007) }
    }

    #[test]
    fn requirements_of_all_versions_have_their_barriers() {
        for (size, version, layout) in [
            (72, 22_902, Layout::V228),
            (88, 22_907, Layout::V229),
            (96, 23_007, Layout::V230),
            (120, 23_102, Layout::V231),
            (120, 23_203, Layout::V231),
        ] {
            let mut words = versioned(size, version);
            (words[9], words[10]) = (5, 3);
            let found = read(&words).expect("requirements");
            assert_eq!((found.layout, found.version), (layout, version as c_int));
            let expected = if version >= 23_000 { (3, 5) } else { (5, 0) };
            assert_eq!((found.lsa_barriers, found.hybrid_barriers), expected);
        }
        let mut old = vec![0; 14];
        (old[4], old[6]) = (1, 7);
        let found = read(&old).expect("requirements without a version");
        assert_eq!((found.layout, found.lsa_barriers, found.multimem), (Layout::V228, 7, true));
    }

    #[test]
    fn requirements_that_are_not_served_are_codes() {
        let code = |words: &[u32]| read(words).expect_err("not served").code;
        let with = |at: usize, value: u32| {
            let mut words = versioned(96, 23_007);
            words[at] = value;
            code(&words)
        };
        // The magic number, the version, the size.
        assert_eq!([with(2, 7), with(3, 99_999), with(0, 20)], [Code::InvalidUsage; 3]);
        // Counts below 0; signals, a connection, a forced one, barriers of the network.
        assert_eq!([9, 10, 11, 12, 13].map(|at| with(at, u32::MAX)), [Code::InvalidArgument; 5]);
        assert_eq!([16, 17, 18, 14, 22].map(|at| with(at, 1)), [Code::InvalidArgument; 5]);
        // A list at an address that is not aligned.
        assert_eq!(with(4, 0x1_0001), Code::InvalidArgument);
    }

    #[test]
    fn list_without_an_end_is_an_invalid_argument() {
        let mut entry = ListedResource {
            next: std::ptr::null(),
            bytes: 16,
            align: 0,
            out: std::ptr::null_mut(),
            signals: 0,
            counters: 0,
            out_signals: std::ptr::null_mut(),
            out_counters: std::ptr::null_mut(),
        };
        let at = &raw mut entry;
        // SAFETY: the entry is its own successor, and exists.
        let found = unsafe {
            (*at).next = at;
            list_resources(at)
        };
        assert_eq!(found.expect_err("no end").code, Code::InvalidArgument);
    }
}
