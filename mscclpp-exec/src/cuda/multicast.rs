//! Multicast objects: physical memory of several devices in one address range, where a store reaches all of them and a
//! load combines their values.
//!
//! All members create an object together: one member creates it, all add their devices, then all bind their memory, and
//! only then may a kernel use its addresses. A member that cannot continue reports that, and all members do without the
//! object. That an object could not be created is a reason, not an error, because switch channels work without it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::executor::Inner;
use mscclpp_base::error::Error;
use mscclpp_base::shm::{SharedFile, own_file};
use mscclpp_cuda::capture::wait_for_users;
use mscclpp_cuda::driver::{DriverError, Handle, SharedDriver};
use mscclpp_cuda::slice::DeviceSlice;

/// Why a switch channel reads and writes its members' memories one by one.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[non_exhaustive]
pub enum MulticastUnavailable {
    /// [`Options::multicast`](super::Options::multicast) is off.
    #[error("disabled by `Options::multicast`")]
    Off,
    /// Two members on one device.
    #[error("ranks {} and {} are on the same device", ranks[0], ranks[1])]
    OneDevice {
        /// The members.
        ranks: [u32; 2],
    },
    /// Two members on different nodes.
    #[error("ranks {} and {} are on different nodes", ranks[0], ranks[1])]
    OtherNode {
        /// The members.
        ranks: [u32; 2],
    },
    /// A device without support for multicast objects, or whose process forbids them.
    #[error(
        "{device} of rank {rank} does not support multicast objects, or NCCL_NVLS_ENABLE=0 or MSCCLPP_FORCE_DISABLE_NVLS forbids them there"
    )]
    NoHardware {
        /// The member.
        rank: u32,
        /// Its device.
        device: String,
    },
    /// More groups of a device than a launch supports.
    #[error("a device is a member of more than {most} switch channel groups")]
    TooMany {
        /// Maximum number of groups.
        most: usize,
    },
    /// Members' memories that begin at different offsets of their allocations.
    #[error(
        "the memory of rank {rank} starts at byte {found} of its allocation, but that of rank {other} at byte \
         {expected}"
    )]
    OffsetMismatch {
        /// The member that differs.
        rank: u32,
        /// Offset of its memory.
        found: u64,
        /// The first member.
        other: u32,
        /// Offset of the first member's memory.
        expected: u64,
    },
    /// An allocation that is too small for whole units of physical memory.
    #[error(
        "expected an allocation of at least {expected} bytes on rank {rank}, the size of the multicast object, found \
         {found} bytes"
    )]
    SizeMismatch {
        /// The member.
        rank: u32,
        /// Bytes of its allocation.
        found: u64,
        /// Bytes of the object.
        expected: u64,
    },
    /// A member that could not take part.
    #[error("rank {rank}: {reason}")]
    Failed {
        /// The member.
        rank: u32,
        /// Error of the driver.
        reason: String,
    },
}

impl MulticastUnavailable {
    fn failed(rank: u32, error: &DriverError) -> Self {
        Self::Failed { rank, reason: error.to_string() }
    }
}

/// A multicast object of one process. When it is dropped, no device may use it any more.
pub(super) struct MulticastObject {
    /// Driver of the first member of this process.
    driver: SharedDriver,
    handle: Handle,
    bytes: u64,
    /// Devices of this process that have bound memory.
    bound: Vec<SharedDriver>,
    address: Option<u64>,
    /// Offset of the members' slices in their allocations.
    offset: u64,
}

impl MulticastObject {
    /// Returns the distance from a member's slice to the multicast address of the same bytes.
    pub(super) fn distance(&self, member: u64) -> u64 {
        self.address.map_or(0, |address| address.wrapping_add(self.offset).wrapping_sub(member))
    }
}

impl Drop for MulticastObject {
    fn drop(&mut self) {
        if self.address.is_some() && !wait_for_users(&self.driver) {
            return;
        }
        // A destructor cannot report a failure.
        if let Some(address) = self.address {
            let _ = self.driver.unmap_multicast(address, self.bytes);
        }
        for driver in &self.bound {
            let _ = driver.unbind_multicast(self.handle, self.bytes);
        }
        let _ = self.driver.release_multicast(self.handle);
    }
}

/// Memory of several ranks for which one object is requested.
pub(super) struct Request {
    pub(super) members: Vec<u32>,
    /// Bytes of every member's slice.
    pub(super) bytes: u64,
    /// The slices of the members in this process.
    pub(super) own: Vec<(u32, DeviceSlice)>,
}

/// A member's report of its memory: offset of its first byte in the allocation, and bytes of the allocation.
type Facts = Result<(u64, u64), MulticastUnavailable>;

/// Creates objects for requests; all ranks pass the same requests in the same order. An object is `None` if no member
/// of one is in this process.
///
/// # Errors
/// Those of a call of all ranks. A reason why an object cannot be created is none.
pub(super) fn make(
    world: &Inner,
    text: &str,
    requests: &[Request],
) -> Result<Vec<Result<Option<MulticastObject>, MulticastUnavailable>>, Error> {
    if requests.is_empty() {
        return Ok(Vec::new());
    }
    let driver = |rank: u32| world.device(rank).map(|device| device.driver().clone());
    let facts = gather(world, &format!("memory of {text}"), &facts(world, requests), Vec::new())?;
    let mut states: Vec<Result<Option<MulticastObject>, MulticastUnavailable>> = Vec::with_capacity(requests.len());
    let mut sizes = Vec::with_capacity(requests.len());
    let mut files = Vec::new();
    // Whether members on other hosts receive an object by a handle of the fabric.
    let by_fabric = |request: &Request| {
        let is_on_host = |&rank: &u32| world.group.as_ref().is_none_or(|group| group.is_on_host(rank));
        !request.members.iter().all(is_on_host)
    };
    for (number, request) in requests.iter().enumerate() {
        let of_all = || facts.iter().flat_map(|(facts, _)| facts[number].iter().cloned());
        let place = place(request, of_all().collect());
        let first = request.members[0];
        let made = match (&place, driver(first)) {
            (Ok(place), Some(driver)) => {
                let export = Exports { file: world.group.is_some(), fabric: by_fabric(request) };
                Some(create(&driver, first, request, place, export))
            }
            _ => None,
        };
        // The result of the first member decides; the others wait for it.
        let (state, size) = match made {
            Some(Ok((object, file, handle))) => {
                let size = object.bytes;
                files.extend(file.map(Arc::new));
                (Ok(Some(object)), Some(Ok((size, handle.map(Vec::from)))))
            }
            Some(Err(why)) => (Err(why.clone()), Some(Err(why))),
            None => (place.as_ref().map(|_| None).map_err(Clone::clone), None),
        };
        states.push(state);
        sizes.push((size, place.map_or(0, |place| place.offset)));
    }
    if states.iter().all(Result::is_err) && world.group.is_none() {
        return Ok(states);
    }
    let own: Vec<_> = sizes.iter().map(|(size, _)| size.clone()).collect();
    let mut made = gather(world, &format!("objects of {text}"), &own, files)?;
    for (number, request) in requests.iter().enumerate() {
        // Files arrive in the order of their objects.
        let mut size = None;
        let mut source = None;
        for (sizes, files) in &mut made {
            let Some(of_first) = &sizes[number] else { continue };
            size = Some(of_first.clone().map(|(bytes, _)| bytes));
            source = match of_first {
                Ok(_) if !files.is_empty() => Some(Source::File(files.remove(0))),
                Ok((_, Some(handle))) => handle.as_slice().try_into().ok().map(Source::Fabric),
                _ => None,
            };
        }
        let state = &mut states[number];
        match (&state, size, request.own.first()) {
            (Ok(None), Some(Err(why)), _) => *state = Err(why),
            (Ok(None), Some(Ok(bytes)), Some(&(rank, _))) => {
                let imported = source.zip(driver(rank)).map(|(source, driver)| {
                    let failed = |reason: String| MulticastUnavailable::Failed { rank, reason };
                    let handle = match source {
                        Source::File(file) => {
                            driver.import_multicast(own_file(file).map_err(|error| failed(error.to_string()))?)
                        }
                        Source::Fabric(handle) => driver.import_multicast_fabric(handle),
                    };
                    let handle = handle.map_err(|error| MulticastUnavailable::failed(rank, &error))?;
                    let offset = sizes[number].1;
                    Ok(Some(MulticastObject { driver, handle, bytes, bound: Vec::new(), address: None, offset }))
                });
                let missing =
                    || Err(MulticastUnavailable::Failed { rank, reason: "an object without a handle".into() });
                *state = imported.unwrap_or_else(missing);
            }
            _ => {}
        }
    }
    // All devices are added before any memory is bound, and all memory is bound before any member uses it.
    each(world, &mut states, requests, |object, driver, _| driver.multicast_add_device(object.handle));
    agree(world, &format!("devices of {text}"), &mut states)?;
    each(world, &mut states, requests, |object, driver, slice| {
        // Only memory that was allocated to be shared can be bound.
        driver.bind_multicast(object.handle, slice.address - object.offset, object.bytes)?;
        object.bound.push(driver.clone());
        Ok(())
    });
    agree(world, &format!("multicast of {text}"), &mut states)?;
    let mut unmapped = Vec::new();
    for (state, request) in states.iter_mut().zip(requests) {
        let Ok(Some(object)) = state else { continue };
        let devices: Vec<u32> =
            request.own.iter().filter_map(|&(rank, _)| Some(world.device(rank)?.ordinal())).collect();
        match object.driver.map_multicast(object.handle, object.bytes, &devices[1..]) {
            Ok(address) => object.address = Some(address),
            Err(error) => {
                let failed = Err(MulticastUnavailable::failed(request.own[0].0, &error));
                unmapped.push(std::mem::replace(state, failed));
            }
        }
    }
    // No member unmaps memory before the others have addresses.
    agree(world, &format!("addresses of {text}"), &mut states)?;
    drop(unmapped);
    Ok(states)
}

/// Returns the reports of the members of this process, by request.
fn facts(world: &Inner, requests: &[Request]) -> Vec<Vec<(u32, Facts)>> {
    let fact = |&(rank, slice): &(u32, DeviceSlice)| {
        let driver = world.device(rank)?.driver();
        let found = driver.allocation(slice.address).map_err(|error| MulticastUnavailable::failed(rank, &error));
        Some((rank, found.map(|found| (slice.address - found.base, found.bytes))))
    };
    requests.iter().map(|request| request.own.iter().filter_map(fact).collect()).collect()
}

/// Offset of the members' slices, the size of the smallest allocation and the rank of that allocation.
struct SliceLayout {
    offset: u64,
    room: (u64, u32),
}

fn place(request: &Request, facts: Vec<(u32, Facts)>) -> Result<SliceLayout, MulticastUnavailable> {
    let mut place: Option<SliceLayout> = None;
    for &rank in &request.members {
        let unknown = || MulticastUnavailable::Failed { rank, reason: "it did not describe its memory".into() };
        let (_, fact) = facts.iter().find(|(of, _)| *of == rank).ok_or_else(unknown)?;
        let (found, bytes) = fact.clone()?;
        match &mut place {
            None => place = Some(SliceLayout { offset: found, room: (bytes, rank) }),
            Some(SliceLayout { offset, room }) => {
                if *offset != found {
                    let (other, expected) = (request.members[0], *offset);
                    return Err(MulticastUnavailable::OffsetMismatch { rank, found, other, expected });
                }
                *room = (*room).min((bytes, rank));
            }
        }
    }
    place.ok_or(MulticastUnavailable::Failed { rank: 0, reason: "no members".into() })
}

/// How an object is exported to the members in other processes.
#[derive(Clone, Copy)]
struct Exports {
    file: bool,
    fabric: bool,
}

/// What a member imports an object from.
enum Source {
    File(SharedFile),
    Fabric([u8; 64]),
}

/// An object, and what the members in other processes import it from.
type Created = (MulticastObject, Option<OwnedFd>, Option<[u8; 64]>);

/// Creates an object and exports it for the other processes.
fn create(
    driver: &SharedDriver,
    rank: u32,
    request: &Request,
    place: &SliceLayout,
    exports: Exports,
) -> Result<Created, MulticastUnavailable> {
    let failed = |error: DriverError| MulticastUnavailable::failed(rank, &error);
    let (devices, wanted) = (request.members.len() as u32, place.offset + request.bytes);
    let unit = driver.multicast_granularity(devices, wanted).map_err(failed)?;
    let bytes = wanted.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
    if bytes > place.room.0 {
        return Err(MulticastUnavailable::SizeMismatch { rank: place.room.1, found: place.room.0, expected: bytes });
    }
    let handle = driver.create_multicast(devices, bytes).map_err(failed)?;
    let (driver, bound, offset) = (driver.clone(), Vec::new(), place.offset);
    let object = MulticastObject { driver, handle, bytes, bound, address: None, offset };
    let file = exports.file.then(|| object.driver.export_multicast(handle)).transpose().map_err(failed)?;
    let shared = exports.fabric.then(|| object.driver.export_multicast_fabric(handle)).transpose().map_err(failed)?;
    Ok((object, file, shared))
}

/// Applies a function to each object and each member of this process.
fn each(
    world: &Inner,
    states: &mut [Result<Option<MulticastObject>, MulticastUnavailable>],
    requests: &[Request],
    act: impl Fn(&mut MulticastObject, &SharedDriver, DeviceSlice) -> Result<(), DriverError>,
) {
    for (state, request) in states.iter_mut().zip(requests) {
        for &(rank, slice) in &request.own {
            let (Ok(Some(object)), Some(device)) = (&mut *state, world.device(rank)) else { continue };
            if let Err(error) = act(object, device.driver(), slice) {
                *state = Err(MulticastUnavailable::failed(rank, &error));
            }
        }
    }
}

/// Drops every object that is missing in one process from all of them.
fn agree(
    world: &Inner,
    text: &str,
    states: &mut [Result<Option<MulticastObject>, MulticastUnavailable>],
) -> Result<(), Error> {
    let own: Vec<Option<MulticastUnavailable>> = states.iter().map(|state| state.as_ref().err().cloned()).collect();
    for (others, _) in gather(world, text, &own, Vec::new())? {
        for (state, other) in states.iter_mut().zip(others) {
            if let (Ok(_), Some(why)) = (&state, other) {
                *state = Err(why);
            }
        }
    }
    Ok(())
}

/// Returns the reports of all processes, this one included, and their files.
fn gather<T: Serialize + for<'a> Deserialize<'a>>(
    world: &Inner,
    text: &str,
    own: &T,
    files: Vec<SharedFile>,
) -> Result<Vec<(T, Vec<SharedFile>)>, Error> {
    let internal = |error: postcard::Error| Error::Internal(error.to_string());
    let bytes = postcard::to_allocvec(own).map_err(internal)?;
    match &world.group {
        Some(group) => group.gather(text, &bytes, files),
        None => Ok(vec![(postcard::from_bytes(&bytes).map_err(internal)?, Vec::new())]),
    }
}
