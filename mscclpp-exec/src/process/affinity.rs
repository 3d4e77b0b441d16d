//! Processors on which a rank may run, and whether they suffice for all ranks that share them.

use rustix::thread::{CpuSet, sched_getaffinity};
use sha2::{Digest, Sha256};

/// Processors that a rank may use.
pub(super) struct CpuAffinity {
    /// Equal for processes that share a running kernel and a name of the host, also where `MSCCLPP_HOST_ID` makes them several nodes.
    machine: [u8; 32],
    bits: Vec<u8>,
}

impl CpuAffinity {
    /// Returns the processors of the calling thread; empty if the system does not report them.
    pub(super) fn current() -> Self {
        let mut bits = vec![0; CpuSet::MAX_CPU.div_ceil(8)];
        if let Ok(set) = sched_getaffinity(None) {
            for cpu in (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)) {
                bits[cpu / 8] |= 1 << (cpu % 8);
            }
        }
        // Two machines may have one of both in common: copies of a virtual machine, or hosts without names.
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let machine = Sha256::new().chain_update(boot).chain_update(rustix::system::uname().nodename().to_bytes());
        Self { machine: machine.finalize().into(), bits }
    }

    /// Returns what other ranks need of it.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.machine[..], &self.bits].concat()
    }

    /// Creates the affinity that another rank has sent; missing bits are not in the set.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let (machine, bits) = bytes.split_first_chunk().unwrap_or((&[0; _], &[]));
        Self { machine: *machine, bits: bits.to_vec() }
    }

    /// Returns whether this rank shares its processors with more ranks than they can run at once. Only ranks that may
    /// run nowhere else count: ranks with other processors to choose from leave these ones in the long run.
    pub(super) fn is_oversubscribed(&self, all: &[Self]) -> bool {
        // At most as many as the process's quota allows.
        let current = self.count().min(std::thread::available_parallelism().map_or(1, usize::from)).max(1);
        all.iter().filter(|other| other.is_subset_of(self)).count() > current
    }

    fn count(&self) -> usize {
        self.bits.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    fn is_subset_of(&self, other: &Self) -> bool {
        self.machine == other.machine
            && self.bits.iter().enumerate().all(|(at, byte)| byte & !other.bits.get(at).copied().unwrap_or(0) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn affinity(bits: u8) -> CpuAffinity {
        CpuAffinity { machine: [1; _], bits: vec![bits] }
    }

    #[test]
    fn ranks_on_separate_processors_are_not_oversubscribed() {
        let all = [affinity(0b01), affinity(0b10)];
        assert!(all.iter().all(|affinity| !affinity.is_oversubscribed(&all)));
    }

    #[test]
    fn ranks_on_one_processor_are_oversubscribed() {
        let all = [affinity(0b01), affinity(0b10), affinity(0b01)];
        assert_eq!(all.each_ref().map(|affinity| affinity.is_oversubscribed(&all)), [true, false, true]);
    }

    #[test]
    fn ranks_of_other_machines_do_not_count() {
        let mut all = [affinity(1), affinity(1)];
        all[1].machine = [2; _];
        assert!(!all[0].is_oversubscribed(&all));
        let all = [CpuAffinity::current(), CpuAffinity::from_bytes(&CpuAffinity::current().to_bytes())];
        assert!(all[0].is_subset_of(&all[1]));
    }

    #[test]
    fn unknown_processors_count_as_one() {
        let all = [affinity(0), affinity(0)];
        assert!(all[0].is_oversubscribed(&all));
        assert!(!CpuAffinity::current().is_oversubscribed(&[CpuAffinity::current()]));
    }
}
