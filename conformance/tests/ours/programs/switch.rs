//! Fragments on switch channels.

use mscclpp_core::dsl::Program;
use mscclpp_core::types::BufferKind;

pub(crate) fn broadcast(p: &Program) {
    let mine = p.rank(0).scratch(1).chunk(0);
    p.switch_channel([0, 1], BufferKind::Input).at(0).broadcast(0, mine, 0);
}

pub(crate) fn reduce(p: &Program) {
    let mine = p.rank(0).scratch(1).chunk(0);
    p.switch_channel([0, 1], BufferKind::Input).at(0).reduce(mine, 0, 0);
}
