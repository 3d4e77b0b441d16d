//! Switch channels: multicast over a group of ranks.

use super::args::{AnyChunk, BlockArg, ChunkRange, PacketChunk, RankArg};
use super::program::Program;
use super::value::{OpsValue, SwitchValue};

/// One buffer of every member rank, with one address. Created by [`Program::switch_channel`].
#[derive(Clone, Copy, Debug)]
pub struct SwitchChannel<'p> {
    program: &'p Program,
    value: SwitchValue,
}

/// A switch channel, bound to one of its members.
#[derive(Clone, Copy, Debug)]
pub struct SwitchMember<'p> {
    program: &'p Program,
    value: SwitchValue,
}

/// The last recorded switch reduction; its methods refine it.
#[derive(Clone, Copy, Debug)]
pub struct SwitchReduction<'p> {
    program: &'p Program,
    ops: OpsValue,
}

macro_rules! handle {
    ($name:ident, $field:ident: $ty:ty) => {
        impl<'p> $name<'p> {
            pub(crate) fn new(program: &'p Program, $field: $ty) -> Self {
                Self { program, $field }
            }

            pub(crate) fn $field(&self) -> $ty {
                self.$field
            }

            fn program(&self) -> &'p Program {
                self.program
            }
        }
    };
}

handle! { SwitchChannel, value: SwitchValue }
handle! { SwitchMember, value: SwitchValue }
handle! { SwitchReduction, ops: OpsValue }

/// A trait without implementations: it produces the error for a switch channel that is not bound to a rank.
#[diagnostic::on_unimplemented(
    message = "a switch channel is used through one of its ranks",
    label = "expected a call of `at(rank)`",
    note = "write `channel.at(rank).reduce(dst, range, block)`"
)]
pub trait NamesItsRank {}

impl<'p> SwitchChannel<'p> {
    /// Cannot be called: prevents rustc from resolving `reduce` on a channel to the one of iterators, and reports what
    /// is missing.
    #[doc(hidden)]
    pub fn reduce<D>(self, _: D, _: impl ChunkRange, _: impl BlockArg) -> SwitchReduction<'p>
    where
        (Self, D): NamesItsRank,
    {
        SwitchReduction::new(self.program, OpsValue { first: 0, count: 0 })
    }
}

dsl! {
    table CHANNEL; by value self; for [SwitchChannel<'static>];
    impl['p] SwitchChannel<'p> {
        /// Binds the channel to the member `rank`.
        ///
        /// # Errors
        /// Reports M0015 if the rank is not a member.
        fn at(this, rank: RankArg) -> SwitchMember<'p> {
            SwitchMember::new(this.program, this.program.recorder().switch_at(this.value, rank))
        }
    }
}

dsl! {
    table AT; by value self; for [SwitchMember<'static>];
    impl['p] SwitchMember<'p> {
        /// Reduces the members' chunks at `range` of the channel's buffer into `dst` of this rank.
        ///
        /// # Ordering
        /// None: signal and wait with every member before (their data is ready) and after (all have
        /// finished).
        fn reduce(this, dst: AnyChunk, range: ChunkRange, block: BlockArg) -> SwitchReduction<'p> {
            SwitchReduction::new(this.program, this.program.recorder().switch_reduce(this.value, dst, range, block))
        }

        /// Stores `src` of this rank at `range` of the channel's buffer on every member.
        fn broadcast(this, range: ChunkRange, src: AnyChunk, block: BlockArg) {
            this.program.recorder().switch_broadcast(this.value, range, src, block);
        }

        /// Stores the packets in `src`, the rank's own scratch, at `range` of every member's scratch, waiting for them.
        fn broadcast_packets(this, range: ChunkRange, src: PacketChunk, block: BlockArg) {
            this.program.recorder().switch_broadcast_packets(this.value, range, src, block);
        }
    }
}

dsl! {
    table REDUCTION; by value self; for [SwitchReduction<'static>];
    impl['p] SwitchReduction<'p> {
        /// Sets the reduction; `Sum` unless set.
        fn op(this, op: ReduceOp) -> SwitchReduction<'p> {
            this.program.recorder().edit(this.ops, |recorded| recorded.reduce = Some(op));
            this
        }
    }
}
