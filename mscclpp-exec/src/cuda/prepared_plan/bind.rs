//! Memory for a run, and what its switch channels make of it.

use std::sync::Arc;

use super::PreparedPlan;
use crate::cuda::buffers::{self, Binding, Buffers, DeviceSlice};
use crate::cuda::executor::Inner;
use crate::cuda::multicast::MulticastUnavailable;
use crate::cuda::plan_state::PlanState;
use crate::cuda::switch::{MulticastBuffer, Multicasts, SwitchPath};
use crate::error::Error;
use crate::interpret::Space;

/// What a binding needs to know of switch channels over input and output.
pub(in crate::cuda) struct Switches<'a> {
    windows: Vec<MulticastBuffer>,
    /// Input and output of every rank: which of its memories, and the first byte in it.
    sides: &'a [[(usize, u64); 2]],
    context: &'a Arc<PlanState>,
}

impl Switches<'_> {
    /// Whether multicast objects are wanted of a rank's memory of this number.
    pub(in crate::cuda) fn is_used(&self, memory: usize) -> bool {
        let of = |window: &MulticastBuffer| self.sides[window.members[0] as usize][window.space as usize].0;
        self.windows.iter().any(|window| window.is_open() && of(window) == memory)
    }

    /// Makes them. `slices`: the memories of all ranks, as this process reaches them.
    pub(in crate::cuda) fn bind(&self, world: &Inner, slices: &[[DeviceSlice; 2]]) -> Result<Multicasts, Error> {
        let slice = |window: &MulticastBuffer, rank: u32| {
            slices[rank as usize][self.sides[rank as usize][window.space as usize].0]
        };
        Multicasts::new(world, &self.context.groups, "buffers", &self.windows, slice)
    }

    /// The plan whose switch channels they are.
    pub(in crate::cuda) fn context(&self) -> &Arc<PlanState> {
        self.context
    }
}

impl PreparedPlan {
    /// Buffers for this run, zeroed: of all ranks of this process. In a world of several processes a call of all ranks.
    ///
    /// # Errors
    /// [`Error::Driver`] if a device does not have so much memory; [`Error::Capturing`]; in a world of several processes those of
    /// [`bind`](Self::bind).
    pub fn buffers(&self) -> Result<Buffers, Error> {
        self.world.refuse_in_capture("cannot allocate buffers")?;
        let part = |rank: u32, space: Space| -> buffers::Part {
            let area = self.params.area(rank, space);
            (area.slice as usize % 4, area.base, area.view.len)
        };
        let parts = (0..self.world.ranks).map(|rank| [part(rank, Space::Input), part(rank, Space::Output)]).collect();
        Buffers::new(&self.world, self.params.message.dtype, self.lens(), parts, &self.windows())
    }

    /// The switch channels over scratch, and how their members reach one another. Those over input and output are
    /// [`Binding::switch_paths`] and [`Buffers::switch_paths`].
    pub fn switch_paths(&self) -> Vec<SwitchPath> {
        self.context.switch_paths()
    }

    fn windows(&self) -> Switches<'_> {
        let mut windows = self.context.groups.windows([Space::Input, Space::Output]);
        for window in &mut windows {
            let side = |rank: u32| self.sides[rank as usize][window.space as usize];
            let first = window.members[0];
            if let Some(&rank) = window.members.iter().find(|&&rank| side(rank) != side(first)) {
                let (found, other, expected) = (side(rank).1, first, side(first).1);
                window.refuse(MulticastUnavailable::Places { rank, found, other, expected });
            }
        }
        Switches { windows, sides: &self.sides, context: &self.context }
    }

    /// Tells the other ranks where this one's input and output lie in the memory of its device, or, in place, its one buffer and
    /// nothing: of all ranks of this process, ascending. A call of all ranks, and all at once, not in a capture; what the
    /// ranks know of an allocation they keep for later calls, until it is freed. In a world of one process it only looks at
    /// lengths.
    ///
    /// For switch channels over input and output this makes multicast objects, if there can be some ([`Binding::switch_paths`] says
    /// so): memory of [`World::alloc`](crate::cuda::World::alloc) that begins at the same byte of its allocation on all ranks. That
    /// takes the driver milliseconds, so bind once.
    ///
    /// # Errors
    /// [`Error::BufferCount`], [`Error::BufferSize`]; [`Error::Capturing`]. In a executor of several processes also [`Error::Driver`] if
    /// it is no memory of the device, [`Error::Tensor`] if a slice is of several allocations, [`Error::NotMapped`], [`Error::Lost`]
    /// with what another rank says, [`Error::Mismatch`], [`Error::Broken`], [`Error::Busy`].
    pub fn bind(&self, ranks: impl IntoIterator<Item = [DeviceSlice; 2]>) -> Result<Binding, Error> {
        self.world.refuse_in_capture("cannot bind buffers")?;
        let own: Vec<[DeviceSlice; 2]> = ranks.into_iter().collect();
        let checked = || {
            let count = self.world.local().count();
            if own.len() != count {
                let expected = count as u32;
                return Err(Error::BufferCount { buffer: "input and output", expected, found: own.len() });
            }
            self.world.local().zip(&own).try_for_each(|((rank, _), slices)| self.check(rank, slices))
        };
        Binding::new(&self.world, self.lens(), checked().map(|()| own), &self.windows())
    }
}
