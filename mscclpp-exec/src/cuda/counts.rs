//! Counts of launches on devices: what ranks pass, and the report of counts that exceed what a launch has room for. Devices exchange and
//! compare them (`kernels/counts.h`).

use std::sync::atomic::Ordering::{Acquire, Release};

use mscclpp_base::dtype::DataType;
use mscclpp_base::error::{CountLimit, CountOverflow, Error, Refusal};
use mscclpp_cuda::abi;
use mscclpp_cuda::driver::{self, SharedDriver};
use mscclpp_cuda::memory::MappedMemory;
use mscclpp_cuda::slice::DeviceSlice;

/// Counts in device memory that a rank passes to a launch, and the memory for those of what it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Elements for each rank, which the launch reads.
    pub sent: DeviceSlice,
    /// Elements from each rank, which the launch writes if it moves data; none if the slice is empty. In a slice of twice as many numbers,
    /// the first elements of these parts in the output follow.
    pub received: DeviceSlice,
    /// Type of the counts: [`DataType::I64`] or [`DataType::I32`].
    pub dtype: DataType,
    /// Elements of what a count counts: 1, or those of a row.
    pub unit: u64,
}

impl DeviceCounts {
    /// Returns the parameters of a rank whose buffers have these lengths.
    pub(super) fn params(&self, rank: u32, ranks: u32, lens: [u64; 2]) -> Result<abi::CountParams, Error> {
        let width = self.dtype.size() as u64;
        let expected = u64::from(ranks) * width;
        let has_places = self.received.bytes == 2 * expected;
        let received = [self.received].into_iter().filter(|list| list.bytes > 0 && !has_places);
        match [self.sent].into_iter().chain(received).find(|list| list.bytes != expected) {
            _ if !matches!(self.dtype, DataType::I32 | DataType::I64) => {
                Err(Error::ElementType { expected: DataType::I64, found: self.dtype })
            }
            Some(list) => Err(Error::CountRow { rank, expected: ranks, found: (list.bytes / width) as usize }),
            None => Ok(abi::CountParams {
                given: self.sent.address,
                received: if self.received.bytes > 0 { self.received.address } else { 0 },
                input: lens[0],
                output: lens[1],
                width: width | if has_places { abi::COUNT_PLACES } else { 0 },
                unit: self.unit.clamp(1, i64::MAX as u64),
            }),
        }
    }
}

/// Reports of the ranks of a process, which their devices write.
pub(super) struct CountReports {
    memory: MappedMemory,
    ranks: u32,
}

impl CountReports {
    pub(super) fn new(driver: &SharedDriver, ranks: u32) -> driver::Result<Self> {
        let bytes = u64::from(ranks) * size_of::<abi::CountReport>() as u64;
        Ok(Self { memory: MappedMemory::new(driver, bytes)?, ranks })
    }

    fn at(rank: u32) -> u64 {
        u64::from(rank) * size_of::<abi::CountReport>() as u64
    }

    /// Returns the number of words of the table that devices read: the areas and the reports of the ranks.
    pub(super) fn table_len(ranks: u32) -> usize {
        2 * ranks as usize
    }

    /// Returns the device's address of each rank's report.
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        (0..self.ranks).map(|rank| self.memory.device(Self::at(rank)))
    }

    /// Returns the report of the earliest launch, and clears all. Those of one launch are equal.
    pub(super) fn take(&self) -> Option<CountOverflow> {
        let take = |rank| {
            let word = |field: usize| self.memory.double(Self::at(rank) + field as u64);
            let state = word(std::mem::offset_of!(abi::CountReport, state));
            let limit = match abi::CountLimit(state.load(Acquire)) {
                abi::CountLimit::ENTRY => CountLimit::Entry,
                abi::CountLimit::INPUT => CountLimit::Input,
                abi::CountLimit::OUTPUT => CountLimit::Output,
                _ => return None,
            };
            let value = |field| word(field).load(Acquire);
            let overflow = CountOverflow {
                rank: value(std::mem::offset_of!(abi::CountReport, rank)) as u32,
                limit,
                demand: value(std::mem::offset_of!(abi::CountReport, demand)).cast_signed(),
                room: value(std::mem::offset_of!(abi::CountReport, room)),
                peer: value(std::mem::offset_of!(abi::CountReport, peer)) as u32,
                part: value(std::mem::offset_of!(abi::CountReport, part)).cast_signed(),
            };
            let launch = value(std::mem::offset_of!(abi::CountReport, launch));
            state.store(0, Release);
            let refusal = Refusal::of_count(overflow.demand).filter(|_| limit == CountLimit::Entry);
            Some((launch, refusal.map_or(overflow, |refusal| refusal.overflow(overflow.rank))))
        };
        (0..self.ranks).filter_map(take).min_by_key(|(launch, _)| *launch).map(|(_, overflow)| overflow)
    }
}
