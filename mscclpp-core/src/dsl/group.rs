//! Thread-block groups.

use std::rc::Rc;

use super::value::GroupValue;

/// Several thread blocks that split each operation given to them: block `k` of `g` does part `k` of every chunk.
///
/// Made by [`Program::thread_block_group`](super::Program::thread_block_group); passed by reference as the last argument of an operation.
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

/// Groups need no program; this stands in for one in `dsl!`.
struct NoProgram;

impl NoProgram {
    fn mark(&self) {}
}

dsl! {
    table METHODS; by ref self; for [ThreadBlockGroup];
    impl[] ThreadBlockGroup {
        /// The number of thread blocks.
        fn len(this) -> usize {
            this.blocks.len()
        }

        /// Whether the group has no thread blocks: only after a diagnostic.
        fn is_empty(this) -> bool {
            this.blocks.is_empty()
        }
    }
}
