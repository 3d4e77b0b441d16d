//! Thread-block groups.

use std::rc::Rc;

use super::value::GroupValue;

/// Several thread blocks that divide each operation among them: block `k` of `g` processes part `k` of every chunk.
///
/// Created by [`Program::thread_block_group`](super::Program::thread_block_group); passed by reference as the last
/// argument of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadBlockGroup {
    blocks: GroupValue,
}

impl ThreadBlockGroup {
    pub(super) fn from_value(blocks: &GroupValue) -> Self {
        Self { blocks: Rc::clone(blocks) }
    }

    pub(super) fn value(&self) -> GroupValue {
        Rc::clone(&self.blocks)
    }

    fn program(&self) -> NoProgram {
        NoProgram
    }
}

/// Placeholder for the program in `dsl!`: groups need no program.
struct NoProgram;

impl NoProgram {
    fn mark(&self) {}
}

dsl! {
    table METHODS; by ref self; for [ThreadBlockGroup];
    impl[] ThreadBlockGroup {
        /// Returns the number of thread blocks.
        fn len(this) -> usize {
            this.blocks.len()
        }

        /// Returns whether the group has no thread blocks: only after a diagnostic.
        fn is_empty(this) -> bool {
            this.blocks.is_empty()
        }
    }
}
