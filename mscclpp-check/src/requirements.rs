//! What launches of a plan need at their boundaries.

/// Where launches of a plan need no launch barrier.
///
/// A *launch barrier* is a point that no rank passes before every rank has reached it, and at which the writes of every
/// rank before it become visible to all ranks. Where a property is `false`, an executor either adds the barrier or
/// rejects the plan; `false` is always safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LaunchBoundaries {
    /// Whether a rank may start a launch as soon as its own previous launch of the plan has ended, whatever the other
    /// ranks do: the plan accesses a peer's input or output only after the peer has started the launch, and accesses
    /// scratch only after the accesses of the previous launch to it, whose writes are visible.
    pub can_start_without_barrier: bool,
    /// Whether a rank accesses a peer's input or output only after the peer has started the launch: the part of
    /// `can_start_without_barrier` that a launch barrier at the end of the previous launch cannot replace.
    pub accesses_follow_begin: bool,
    /// Whether a rank's caller may continue as soon as the rank's own thread blocks have ended: the accesses of other
    /// ranks to the rank's input and output happen before, and their writes are visible.
    pub can_end_without_barrier: bool,
    /// Whether a rank's scratch may be freed as soon as the rank's own thread blocks have ended: the accesses of other
    /// ranks to it happen before, and their writes are visible.
    pub can_free_without_barrier: bool,
    /// Whether a launch may follow one of another message size without a barrier between them, given that
    /// `can_start_without_barrier` holds for launches of equal size: every access to a rank's scratch happens after
    /// *all* accesses of the previous launch to that rank's scratch, not only after those to the same chunks. Double
    /// scratch does not help here: the begin of its second half depends on the message size.
    pub sizes_may_follow: bool,
    /// Whether `sizes_may_follow` holds for an executor whose second half of double scratch begins at the same offset
    /// for all message sizes. For a plan without double scratch, both are equal.
    pub sizes_may_follow_in_fixed_halves: bool,
    /// Whether all puts of port channels into a rank's memory have arrived when the rank's launch ends. If it is
    /// `false` although the other properties hold, later arrivals go to scratch that no operation reads.
    pub puts_arrive_in_launch: bool,
}

impl LaunchBoundaries {
    /// No launch barrier anywhere.
    pub(super) const FREE: Self = Self {
        can_start_without_barrier: true,
        accesses_follow_begin: true,
        can_end_without_barrier: true,
        can_free_without_barrier: true,
        sizes_may_follow: true,
        sizes_may_follow_in_fixed_halves: true,
        puts_arrive_in_launch: true,
    };

    /// Combines every property with that of another plan or size.
    pub(super) fn with(self, other: Self, combine: impl Fn(bool, bool) -> bool) -> Self {
        Self {
            can_start_without_barrier: combine(self.can_start_without_barrier, other.can_start_without_barrier),
            accesses_follow_begin: combine(self.accesses_follow_begin, other.accesses_follow_begin),
            can_end_without_barrier: combine(self.can_end_without_barrier, other.can_end_without_barrier),
            can_free_without_barrier: combine(self.can_free_without_barrier, other.can_free_without_barrier),
            sizes_may_follow: combine(self.sizes_may_follow, other.sizes_may_follow),
            sizes_may_follow_in_fixed_halves: combine(
                self.sizes_may_follow_in_fixed_halves,
                other.sizes_may_follow_in_fixed_halves,
            ),
            puts_arrive_in_launch: combine(self.puts_arrive_in_launch, other.puts_arrive_in_launch),
        }
    }
}
