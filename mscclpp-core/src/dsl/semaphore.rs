//! Semaphores between the thread blocks of one rank.

use super::args::BlockArg;
use super::program::Program;
use super::value::OpsValue;
use crate::plan::OpKind;

/// A counter shared by the thread blocks of one rank. Created by [`Rank::semaphore`](super::Rank::semaphore).
///
/// Its value persists from launch to launch, so a program must restore its initial value.
#[derive(Clone, Copy, Debug)]
pub struct Semaphore<'p> {
    program: &'p Program,
    rank: u32,
    id: u32,
}

/// The last recorded acquire or release; its methods refine it.
#[derive(Clone, Copy, Debug)]
pub struct SemaphoreCall<'p> {
    program: &'p Program,
    ops: OpsValue,
}

impl<'p> Semaphore<'p> {
    pub(super) fn new(program: &'p Program, rank: u32, id: u32) -> Self {
        Self { program, rank, id }
    }

    pub(super) fn rank_number(&self) -> u32 {
        self.rank
    }

    pub(super) fn number(&self) -> u32 {
        self.id
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

impl<'p> SemaphoreCall<'p> {
    pub(super) fn new(program: &'p Program, ops: OpsValue) -> Self {
        Self { program, ops }
    }

    pub(super) fn ops(&self) -> OpsValue {
        self.ops
    }

    fn program(&self) -> &'p Program {
        self.program
    }
}

dsl! {
    table METHODS; by value self; for [Semaphore<'static>];
    impl['p] Semaphore<'p> {
        /// Takes one unit on a thread block, waiting until there is one.
        ///
        /// # Ordering
        /// Acquire: what was done before the release of the unit becomes visible. The block is synchronized before and
        /// after, unless [`sync`](SemaphoreCall::sync) changes it.
        fn acquire(this, block: BlockArg) -> SemaphoreCall<'p> {
            let ops = this.program.recorder().semaphore_op(OpKind::SemaphoreAcquire, this.rank, this.id, block);
            SemaphoreCall::new(this.program, ops)
        }

        /// Returns one unit on a thread block.
        ///
        /// # Ordering
        /// Release: publishes what the block did before. The block is synchronized before and after, unless
        /// [`sync`](SemaphoreCall::sync) changes it.
        fn release(this, block: BlockArg) -> SemaphoreCall<'p> {
            let ops = this.program.recorder().semaphore_op(OpKind::SemaphoreRelease, this.rank, this.id, block);
            SemaphoreCall::new(this.program, ops)
        }
    }
}

dsl! {
    table CALL; by value self; for [SemaphoreCall<'static>];
    impl['p] SemaphoreCall<'p> {
        /// Sets where the threads of the block are synchronized around the operation.
        fn sync(this, sync: BlockSync) -> SemaphoreCall<'p> {
            this.program.recorder().edit(this.ops, |op| op.sync = sync);
            this
        }
    }
}
