//! Scratch that is shorter than the message: windows of a loop that share the same bytes in turn.
//!
//! With `reuse_resources`, launches of all sizes share a pool of scratch, and for longer messages the windows of loops
//! wrap: iteration i uses window i mod w. That is correct only if the plan never lets an iteration overtake the
//! iteration w before it. The proof:
//!
//! 1. With the given number of windows, no two accesses to scratch race, no agent waits forever, and outputs hold the
//!    required values.
//! 2. The same holds with more windows: an iteration that happens after the one w before it happens after all earlier
//!    ones, and the clock of a thread block only grows. So few windows are tried, however many there are.
//! 3. The same holds with more iterations. The execution proves what it shows ([`every`](super::race::every)), and
//!    iterations i and j that share a window are multiples of w apart. Remove w iterations between them as often as
//!    they are further apart, and all others before and after them: they are images of the first iteration and the one
//!    w after it.
//!
//! The function rejects plans whose loops differ in span or unit, and operands that overlap without being equal,
//! because the overlap of their windows depends on the size.

use std::collections::BTreeSet;

use super::access::accesses;
use super::model::{Model, Size};
use super::pairing::Pairs;
use super::place::each;
use super::run::run;
use super::shape;
use mscclpp_plan::raw::PlanTree;
use mscclpp_plan::types::BufferKind;

/// Maximum number of windows that are tried.
const MAX_WINDOWS: u64 = 16;

/// Maximum number of chunks of a loop; a loop over more is not tried.
const MAX_CHUNKS: u32 = 64;

/// Returns whether a plan is correct if its plain scratch, all of it used in loops, holds only the given number of
/// windows per operand.
///
/// # Cost
/// That of a check, with some forty iterations of every loop.
pub fn may_wrap_scratch(plan: &PlanTree, windows: u64) -> bool {
    if windows == 0 || !shape::check(plan.into()).is_empty() {
        return false;
    }
    let (mut loops, mut groups, mut places) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    each(plan.into(), &mut |at| {
        if let Some(body) = &at.op.body {
            loops.insert((body.unit, body.num_chunks));
        }
        groups.extend(at.op.slice.map(|slice| slice.count));
        accesses(plan, &at, &mut |effect| {
            if effect.buffer == BufferKind::Scratch && !effect.packets {
                places.insert((effect.owner, u64::from(effect.range.index)));
            }
        });
    });
    let (Some(&(unit, span)), 1) = (loops.first(), loops.len()) else { return false };
    let mut neighbors = places.iter().zip(places.iter().skip(1));
    if span > MAX_CHUNKS || neighbors.any(|(one, other)| one.0 == other.0 && other.1 - one.1 < span.into()) {
        return false;
    }
    let windows = windows.min(MAX_WINDOWS);
    // Long enough that every window is used again, and an integer number of bytes per chunk.
    let trips = (2 * windows + 1).next_multiple_of(span.into());
    let chunk_bytes = trips.saturating_mul(unit) / u64::from(span);
    let Some(size) = Size::wrapped(plan, chunk_bytes, windows, &groups) else { return false };
    run(std::iter::once(Model::of(plan.into(), &Pairs::of(plan), size))).is_empty()
}

#[cfg(test)]
mod tests {
    use super::may_wrap_scratch;
    use crate::testing::plan;
    use mscclpp_plan::raw::PlanTree;

    /// Block 0 copies windows in, block 1 copies them out, and block 0 is at most `ahead` windows ahead; without limit
    /// if 0.
    fn pipeline(ahead: i64) -> PlanTree {
        let (acquire, release) = if ahead > 0 { ("sem_acquire#1; nop;", "; nop; sem_release#1") } else { ("", "") };
        let into = format!("loop 64x1 {{ {acquire} copy i0 > s0; nop; sem_release#0 }}");
        let out = format!("loop 64x1 {{ sem_acquire#0; nop; copy s0 > o0{release} }}");
        let mut plan = plan(&[&[&into, &out], &[""]]);
        plan.ranks[0].semaphores[1] = ahead;
        plan
    }

    #[test]
    fn windows_wrap_if_the_writer_waits_for_the_reader() {
        for windows in [1, 2, 3, 16, 17, u64::MAX] {
            assert!(!may_wrap_scratch(&pipeline(0), windows), "{windows}");
            for ahead in [1, 2, 3] {
                assert_eq!(may_wrap_scratch(&pipeline(ahead), windows), windows >= ahead as u64, "{windows} {ahead}");
            }
        }
        assert!(!may_wrap_scratch(&pipeline(1), 0));
    }

    #[test]
    fn other_loops_and_ranges_are_rejected() {
        let wraps = |ops: &str| may_wrap_scratch(&plan(&[&[ops], &[""]]), 1);
        assert!(wraps("loop 64x2 { copy i0+2 > s0+2; copy s0+2 > o0+2 }"));
        assert!(wraps("loop 64x2 { copy i0+2 > s0+2; copy s0+2 > o0+2; nop; copy i2+2 > s2+2; copy s2+2 > o2+2 }"));
        assert!(!wraps("loop 64x2 { copy i0+2 > s0+2; copy s0+2 > o0+2; nop; copy i2+2 > s1+2; copy s1+2 > o2+2 }"));
        assert!(!wraps("loop 64x1 { copy i0 > s0; copy s0 > o0 }; loop 32x1 { copy i0 > s0; copy s0 > o0 }"));
        assert!(!wraps("copy i0 > o0"));
        assert!(!wraps("loop 64x1 { copy i0 > s9 }"));
    }
}
