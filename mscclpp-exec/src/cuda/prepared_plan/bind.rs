//! Memory for a prepared plan, and the multicast objects of its switch channels.

use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::place;

use super::PreparedPlan;
use crate::cuda::buffers;
use crate::cuda::buffers::{Binding, Buffers};
use crate::cuda::executor::Inner;
use crate::cuda::multicast::MulticastUnavailable;
use crate::cuda::plan_state::PlanState;
use crate::cuda::switch::{MulticastBuffer, Multicasts, SwitchPath};
use mscclpp_base::error::Error;
use mscclpp_base::interpret::Space;
use mscclpp_cuda::slice::DeviceSlice;

/// Switch channels over input and output, as a binding needs them.
pub(in crate::cuda) struct Switches<'a> {
    windows: Vec<MulticastBuffer>,
    /// Input and output of every rank: index of its allocation, and the first byte in it.
    sides: &'a [[(usize, u64); 2]],
    context: &'a Arc<PlanState>,
}

impl Switches<'_> {
    /// Returns whether multicast objects are requested for a rank's allocation of this number.
    pub(in crate::cuda) fn is_used(&self, memory: usize) -> bool {
        let of = |window: &MulticastBuffer| self.sides[window.members[0] as usize][window.space as usize].0;
        self.windows.iter().any(|window| window.is_possible() && of(window) == memory)
    }

    /// Creates the multicast objects. `slices`: the allocations of all ranks, at their addresses in this process.
    pub(in crate::cuda) fn bind(&self, world: &Inner, slices: &[[DeviceSlice; 2]]) -> Result<Multicasts, Error> {
        let slice = |window: &MulticastBuffer, rank: u32| {
            slices[rank as usize][self.sides[rank as usize][window.space as usize].0]
        };
        Multicasts::new(world, &self.context.groups, "buffers", &self.windows, slice)
    }

    /// Returns the plan of the switch channels.
    pub(in crate::cuda) fn context(&self) -> &Arc<PlanState> {
        self.context
    }
}

impl PreparedPlan {
    /// Allocates zeroed buffers for this plan, for all ranks of this process. In an executor of several processes it is
    /// a call of all ranks.
    ///
    /// # Errors
    /// [`Error::Driver`] if a device has too little memory; [`Error::Capturing`]; in an executor of several processes
    /// those of [`bind`](Self::bind).
    #[track_caller]
    pub fn buffers(&self) -> Result<Buffers, Error> {
        let _place = place::enter(Location::caller());
        self.world.refuse_in_capture("cannot allocate buffers")?;
        let part = |rank: u32, space: Space| -> buffers::Part {
            let area = self.params.area(rank, space);
            (area.slice as usize % 4, area.base, area.view.len)
        };
        let parts = (0..self.world.ranks).map(|rank| [part(rank, Space::Input), part(rank, Space::Output)]).collect();
        Buffers::new(&self.world, self.params.message.dtype, self.lens(), parts, &self.windows())
    }

    /// Returns the switch channels over scratch, and how their members reach one another. [`Binding::switch_paths`] and
    /// [`Buffers::switch_paths`] return those over input and output.
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
                window.reject(MulticastUnavailable::OffsetMismatch { rank, found, other, expected });
            }
        }
        Switches { windows, sides: &self.sides, context: &self.context }
    }

    /// Registers input and output of all ranks of this process, ascending; in place, the one buffer and an empty slice.
    /// All ranks call it once with all their slices, not in a capture. The ranks cache the registration of an
    /// allocation for later calls, until it is freed. In an executor of one process it only checks lengths.
    ///
    /// For switch channels over input and output this creates multicast objects where possible
    /// ([`Binding::switch_paths`] reports it): for memory of [`Executor::alloc`](crate::cuda::Executor::alloc) that
    /// begins at the same offset of its allocation on all ranks. That takes the driver milliseconds, so bind once.
    ///
    /// # Errors
    /// [`Error::BufferCount`], [`Error::BufferSize`]; [`Error::Capturing`]. In an executor of several processes also
    /// [`Error::Driver`] if a slice is no memory of the device, [`Error::Tensor`] if a slice spans several allocations,
    /// [`Error::MapFailed`], [`Error::Bootstrap`] with what another rank reports, [`Error::Busy`].
    #[track_caller]
    pub fn bind(&self, ranks: impl IntoIterator<Item = [DeviceSlice; 2]>) -> Result<Binding, Error> {
        let _place = place::enter(Location::caller());
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
        Binding::new(
            &self.world,
            (!self.program().is_packed()).then(|| self.lens()),
            checked().map(|()| own),
            &self.windows(),
        )
    }
}
