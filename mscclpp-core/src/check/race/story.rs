//! What to say about two accesses that nothing orders.

use super::super::effect::Effect;
use super::memory::Access;
use crate::diag::{Code, Diagnostic};
use crate::plan::PlanTree;
use crate::vocab::BufferKind;

/// The finding about two colliding accesses at a chunk, given whether the earlier one is known to be over.
pub(super) fn tell(
    plan: &PlanTree,
    blocks: usize,
    old: &Access,
    new: &Access,
    (effect, buffer, chunk): (&Effect, BufferKind, u128),
    over: bool,
) -> Diagnostic {
    let does = |access: &Access| if access.write { "writes" } else { "reads" };
    let packets = if effect.packets { "the packets of " } else { "" };
    let (name, other) = (new.at.called(plan), old.at.called(plan));
    let message = format!(
        "{name} ({}) {} {packets}{buffer} chunk {chunk} of rank {}, and {other} ({}) {} it, with nothing to order the two",
        new.at.agent(),
        does(new),
        effect.owner,
        old.at.agent(),
        does(old),
    );
    let by_port = |access: &Access| access.agent as usize >= blocks;
    let help = if over {
        "a relaxed signal says that something is over but makes nothing visible; use a normal signal and wait"
    } else if by_port(old) && !by_port(new) && old.at.rank == new.at.rank {
        "a port reads its source later; flush the channel or wait for the receiver's signal first"
    } else if old.agent == new.agent {
        "put a block sync between them: `rank.barrier([block])`, or a sync on the signal or wait in between"
    } else if old.at.rank == new.at.rank {
        "let the thread blocks meet in a barrier, or hand over with a semaphore"
    } else {
        "signal behind the one and wait in front of the other, each with a block sync on the side of the data"
    };
    let what = format!("{other} {}", does(old));
    Diagnostic::new(Code::Race, new.at.site(plan), message).also(what, old.at.site(plan)).help(help)
}
