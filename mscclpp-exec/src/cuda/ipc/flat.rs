//! Memory of all ranks of a node in one range of addresses, that of each rank at the same distance from the one before.

use serde::{Deserialize, Serialize};

use super::register::PhysicalMemory;
use super::{IpcGroup, decode, encode};
use mscclpp_base::error::Error;
use mscclpp_base::shm::{Sent, SharedFile, own_file};
use mscclpp_cuda::capture::wait_for_users;
use mscclpp_cuda::driver::{Export, SharedDriver, Source};
use mscclpp_cuda::slice::DeviceSlice;

/// Unit of distances: kernels receive them as multiples of it.
const UNIT: u64 = 1 << 32;

/// A range of addresses, where memory of all ranks is mapped.
pub(in crate::cuda) struct FlatRange {
    driver: SharedDriver,
    base: u64,
    bytes: u64,
    pub(in crate::cuda) stride: u64,
    /// Offset of the ranks' slices in their allocations.
    offset: u64,
    /// What is mapped: addresses and numbers of bytes.
    mapped: Vec<(u64, u64)>,
}

impl FlatRange {
    /// Returns the address of the first rank's slice.
    pub(in crate::cuda) fn address(&self) -> u64 {
        self.base + self.offset
    }
}

impl Drop for FlatRange {
    fn drop(&mut self) {
        if !wait_for_users(&self.driver) {
            return;
        }
        // A destructor cannot report a failure.
        for (address, bytes) in &self.mapped {
            let _ = self.driver.unmap_from(*address, *bytes);
        }
        let _ = self.driver.free_range(self.base, self.bytes);
    }
}

/// A rank's description of the allocation that contains its slice.
#[derive(Serialize, Deserialize)]
struct Described {
    base: u64,
    bytes: u64,
    /// Offset of the slice.
    offset: u64,
    /// Whether ranks of other processes receive it as a file.
    is_file: bool,
}

impl IpcGroup {
    /// Maps slices of physical memory of all ranks, which are on one host, in one range of addresses; a call of all ranks.
    ///
    /// # Errors
    /// [`Error::NotShareable`] on all ranks if one of them cannot; further calls are possible. Those of a call of all ranks.
    pub(in crate::cuda) fn map_flat(&self, memory: DeviceSlice) -> Result<FlatRange, Error> {
        self.check()?;
        // The memory exists until all ranks have mapped it.
        let (mine, _kept, files) = match self.describe(memory) {
            Ok((mine, kept, file)) => (Ok(mine), Some(kept), Vec::from_iter(file)),
            Err(reason) => (Err(reason), None, Vec::new()),
        };
        let text = format!("mapping of {} bytes in one range of addresses", memory.bytes);
        let received: Vec<(Result<Described, String>, Vec<SharedFile>)> = self.gather(&text, &encode(&mine)?, files)?;
        let (mut described, mut others) = (Vec::with_capacity(received.len()), Vec::with_capacity(received.len()));
        for (rank, (of_rank, files)) in (0_u32..).zip(received) {
            described.push(of_rank.map_err(|reason| Error::NotShareable { rank, reason })?);
            others.push(files);
        }
        // All ranks know the offsets and hosts of all, and so decide alike.
        let offset = described[0].offset;
        for (rank, of_rank) in (0_u32..).zip(&described) {
            let found = of_rank.offset;
            if found != offset {
                let reason = format!("its memory starts at byte {found} of its allocation, that of rank 0 at {offset}");
                return Err(Error::NotShareable { rank, reason });
            }
            if self.hosts[rank as usize] != self.hosts[0] {
                return Err(Error::NotShareable { rank, reason: "it is on another host than rank 0".into() });
            }
        }
        let mapped = self.map_all(&described, others);
        let ended = encode(&mapped.as_ref().map(|_| ()).map_err(ToString::to_string))?;
        let ended =
            self.session()?.exchange_all(&format!("end of {text}"), Sent { bytes: ended, ..Sent::default() })?;
        for (rank, sent) in (0_u32..).zip(ended).filter(|(rank, _)| *rank != self.rank) {
            let ended: Result<(), String> = decode(rank, sent.bytes)?;
            ended.map_err(|reason| Error::NotShareable { rank, reason })?;
        }
        mapped
    }

    /// Returns a description of the allocation that contains a slice, what keeps it, and its file for other processes.
    fn describe(&self, memory: DeviceSlice) -> Result<(Described, PhysicalMemory, Option<SharedFile>), String> {
        let driver = self.device.driver();
        let found = driver.allocation(memory.address).map_err(|error| error.to_string())?;
        let offset = memory.address - found.base;
        if offset + memory.bytes > found.bytes {
            let room = found.bytes - offset;
            return Err(format!("its {} bytes of memory are more than the {room} of one allocation", memory.bytes));
        }
        let kept = PhysicalMemory::at(driver, found.base).map_err(|error| error.to_string())?;
        let kept = kept.ok_or("its memory was not created by cuMemCreate, which memory of ncclMemAlloc is")?;
        let own = self.members[self.rank as usize].process;
        let file = match self.members.iter().all(|member| member.process == own) {
            true => None,
            false => match driver.export(found.base).map_err(|error| error.to_string())? {
                Export::File(file) => Some(std::sync::Arc::new(file)),
                Export::Ipc(_) | Export::Fabric(_) => return Err("its memory cannot be exported as a file".into()),
            },
        };
        let described = Described { base: found.base, bytes: found.bytes, offset, is_file: file.is_some() };
        Ok((described, kept, file))
    }

    /// Reserves a range, and maps the memory of each rank in it.
    fn map_all(&self, described: &[Described], files: Vec<Vec<SharedFile>>) -> Result<FlatRange, Error> {
        let (driver, own) = (self.device.driver(), self.members[self.rank as usize].process);
        let refused = |reason: String| Error::NotShareable { rank: self.rank, reason };
        let of_driver = |error: crate::cuda::DriverError| refused(error.to_string());
        let longest = described.iter().map(|of_rank| of_rank.bytes).max().unwrap_or(1);
        let lengths = longest.checked_next_multiple_of(UNIT);
        let lengths = lengths.and_then(|stride| Some((stride, stride.checked_mul(described.len() as u64)?)));
        let (stride, bytes) =
            lengths.ok_or_else(|| refused(format!("no address space for {longest} bytes of each rank")))?;
        let base = driver.reserve(bytes).map_err(of_driver)?;
        let (driver, offset) = (driver.clone(), described[0].offset);
        let mut range = FlatRange { driver, base, bytes, stride, offset, mapped: Vec::with_capacity(described.len()) };
        for ((rank, of_rank), files) in (0_u32..).zip(described).zip(files) {
            let source = match self.members[rank as usize].process == own {
                true => Source::Own(of_rank.base),
                false => {
                    let file = files.into_iter().next().filter(|_| of_rank.is_file);
                    let file = file.ok_or_else(|| refused(format!("rank {rank} sent no file of its memory")))?;
                    Source::Exported(Export::File(own_file(file)?))
                }
            };
            let address = base + u64::from(rank) * stride;
            range.driver.map_into(address, source, of_rank.bytes).map_err(of_driver)?;
            range.mapped.push((address, of_rank.bytes));
        }
        Ok(range)
    }
}
