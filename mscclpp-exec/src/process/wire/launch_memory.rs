//! Memory of a launch of which an engine gets regions.

use std::ops::Range;
use std::sync::{Arc, Weak};

use crate::process::buffer::Shared;
use crate::process::plan_memory::PlanMemory;
use mscclpp_base::shm::Region;

/// Memory that the current launch uses. It may be dropped after the launch.
#[derive(Default)]
pub(super) struct LaunchMemory {
    /// Allocations of the caller, and the addresses of the slice that was lent to the launch.
    buffers: Vec<(Weak<Shared>, Range<usize>)>,
    plan: Vec<Weak<PlanMemory>>,
}

impl LaunchMemory {
    /// Sets the memory of a launch.
    pub(super) fn set<'a>(
        &mut self,
        buffers: impl Iterator<Item = (Weak<Shared>, Range<*const u8>)>,
        plan: impl Iterator<Item = &'a Arc<PlanMemory>>,
    ) {
        self.buffers.clear();
        self.buffers.extend(buffers.map(|(buffer, lent)| (buffer, lent.start.addr()..lent.end.addr())));
        self.plan.clear();
        self.plan.extend(plan.map(Arc::downgrade));
    }

    /// Returns bytes as a region, if one slice or allocation has them all.
    pub(super) fn region(&self, addresses: &Range<usize>) -> Option<Region> {
        // Other bytes of an allocation may be lent too, without being in pages of their own.
        let is_lent = |lent: &Range<usize>| lent.start <= addresses.start && addresses.end <= lent.end;
        let buffers = self.buffers.iter().filter(|(_, lent)| is_lent(lent));
        let in_buffers = buffers.filter_map(|(buffer, _)| buffer.upgrade()?.region(addresses)).next();
        in_buffers.or_else(|| self.plan.iter().filter_map(|memory| memory.upgrade()?.region(addresses)).next())
    }
}
