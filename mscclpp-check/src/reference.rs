//! Plans that the reference executor rejects or executes incorrectly, independently of its limits.
//!
//! 1. It divides by the numbers of input and output chunks.
//! 2. It always adds, rejects a switch reduction that is not fused with a broadcast, and swaps the chunks of a `get`.
//! 3. In a pipeline, packet operations ignore the window, and members of a thread-block group write into each other's
//!    slices.
//! 4. With double scratch it moves only packets to the other half of another rank's scratch, by the size of its own
//!    scratch.
//! 5. Its launches have no barrier: each rank starts and ends independently, the end of a kernel flushes only what that
//!    kernel wrote, and ranks do not synchronize when the message size changes ([`launch_boundaries`]).
//!
//! All but the last are properties of single operations, so each operation is checked separately. A plan without any of
//! these may still be affected by a defect that no plan can avoid there: its `flush` does not wait.

use super::access::accesses;
use super::place::{LocatedOp, each};
use super::{LaunchBoundaries, MAX_FINDINGS, launch_boundaries, may_wrap_scratch};
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics, Site};
use mscclpp_plan::raw::{BufferRef, OpKind, PlanTree};
use mscclpp_plan::types::{BufferKind, ReduceOp};

/// Returns all findings.
pub fn faults(plan: &PlanTree) -> Diagnostics {
    let mut found = Diagnostics::default();
    let mut file = |site: Site, message: String, help: &str| {
        if found.len() < MAX_FINDINGS {
            found.push(Diagnostic::new(Code::NotInReference, site, message).help(help));
        }
    };
    for (number, rank) in plan.ranks.iter().enumerate() {
        for (buffer, chunks) in [(BufferKind::Input, rank.input_chunks), (BufferKind::Output, rank.output_chunks)] {
            if chunks == 0 {
                let message =
                    format!("rank {number} has no {buffer} chunks, but the reference executor divides by their number");
                let help = "give every rank at least one input and output chunk";
                file(Site::Path(format!("rank {number}")), message, help);
            }
        }
        let (own, other) = (rank.scratch_chunks, plan.ranks[0].scratch_chunks);
        if plan.double_scratch && own != other {
            let message = format!(
                "rank {number} has {own} scratch chunks and rank 0 has {other}, but the reference executor computes \
                 the second half of another rank's scratch from the size of its own"
            );
            file(Site::Path(format!("rank {number}")), message, "give all ranks equal numbers of scratch chunks");
        }
    }
    each(plan.into(), &mut |at| {
        if let Some((message, help)) = fault(plan, &at) {
            file(at.site(plan), format!("{} ({}) {message}", at.display_name(plan), at.agent()), help);
        }
    });
    found
}

/// Returns what is wrong with an operation, and the help.
fn fault(plan: &PlanTree, at: &LocatedOp) -> Option<(String, &'static str)> {
    let op = at.op;
    if let Some(reduce) = op.reduce.filter(|reduce| *reduce != ReduceOp::Sum) {
        let message = format!("reduces with {reduce}, but the reference executor always adds");
        return Some((message, "run the plan with this runtime, or reduce with sum"));
    }
    if let Some((message, help)) = op.kind.not_in_reference() {
        return Some((message.to_owned(), help));
    }
    if op.kind == OpKind::Get && op.srcs.iter().zip(&op.dsts).any(|(src, dst)| src.index != dst.index) {
        let message =
            "gets a chunk into another chunk index, but the reference executor swaps the two indices".to_owned();
        return Some((message, "get into the chunk with the same index, or let the peer put"));
    }
    let mut packets = false;
    let mut far = false;
    accesses(plan, at, &mut |effect| {
        packets |= effect.packets;
        let own = matches!(effect.range.buffer, BufferRef::Local(_));
        far |= !effect.packets && effect.buffer == BufferKind::Scratch && !own;
    });
    if plan.double_scratch && far {
        let message = "accesses plain data in another rank's scratch, whose second half the reference executor does \
            not use"
            .to_owned();
        return Some((message, "use packets, or remove `double_scratch`"));
    }
    at.inside?;
    if op.body.is_some() {
        return Some(("is inside another pipeline".to_owned(), "place one pipeline after the other"));
    }
    if packets {
        let message = "accesses packets in a pipeline, but the reference executor ignores the windows of packet \
            operations"
            .to_owned();
        return Some((message, "move it out of the pipeline"));
    }
    let slice = op.slice.filter(|slice| slice.count > 1)?;
    let message = format!(
        "processes slice {} of {} in a pipeline, but the windows of the reference executor exceed the slices",
        slice.index, slice.count
    );
    Some((message, "give every thread block its own chunks"))
}

/// The scratch that launches of all sizes share in the reference executor, in bytes per rank, both halves of double
/// scratch together.
const POOL: u64 = 64 << 20;

/// Returns warnings about plans that are correct only up to some message size, or only with launch barriers.
pub fn warnings(plan: &PlanTree) -> Vec<Diagnostic> {
    let mut found = pool_warnings(plan);
    found.extend(boundary_warnings(plan));
    found
}

/// Returns warnings about launch barriers on which the plan relies, and which the reference executor does not have.
fn boundary_warnings(plan: &PlanTree) -> Vec<Diagnostic> {
    let LaunchBoundaries {
        can_start_without_barrier, can_end_without_barrier, sizes_may_follow_in_fixed_halves, ..
    } = launch_boundaries(plan);
    let warning = |message: &str, help: &str| Diagnostic::new(Code::NotInReference, Site::None, message).help(help);
    let mut found = Vec::new();
    if !can_end_without_barrier {
        found.push(warning(
            "a rank's launch may end before writes of other ranks to its output are visible to its caller: they are \
             ordered only by relaxed signals or waits, and the reference executor has no launch barrier, so the end \
             of a kernel publishes only the writes of that kernel",
            "signal after the last write to another rank's buffer and wait for that signal, neither of them relaxed",
        ));
    }
    if !can_start_without_barrier {
        found.push(warning(
            "a launch may start before writes of the previous launch to scratch are visible: they are ordered only \
             by relaxed signals or waits, and the reference executor has no launch barrier",
            "end the launch with a signal and a wait that are not relaxed",
        ));
    } else if !sizes_may_follow_in_fixed_halves {
        found.push(warning(
            "a launch after one of another message size may access scratch that a slower rank still uses: the plan \
             orders launches per chunk, chunks of another size have other offsets, and the reference executor does \
             not synchronize the ranks when the size changes",
            "synchronize the ranks between launches of different sizes, or start each launch with a signal and a \
             wait between all ranks",
        ));
    }
    found
}

/// Returns warnings about plans that are correct for messages up to some size only: with `reuse_resources` scratch is a
/// pool, whose windows the iterations of loops share in turn for longer messages, whether or not the plan permits it.
fn pool_warnings(plan: &PlanTree) -> Vec<Diagnostic> {
    let chunks = plan.ranks.iter().map(|rank| rank.scratch_chunks).max().unwrap_or(0);
    if !plan.reuse_resources || chunks == 0 {
        return Vec::new();
    }
    let half = if plan.double_scratch { POOL / 2 } else { POOL };
    let room = half.div_ceil(chunks.into()).next_multiple_of(u64::from(plan.buffer_alignment.max(1)));
    let message_chunks = plan.ranks.iter().map(|rank| rank.input_chunks.max(rank.output_chunks)).max().unwrap_or(1);
    let largest = room.saturating_mul(message_chunks.into());
    if plan.max_message_size <= largest {
        return Vec::new();
    }
    let (mut unit, mut outside) = (None, None);
    each(plan.into(), &mut |at| {
        unit = unit.or_else(|| at.op.body.as_ref().map(|body| body.unit));
        accesses(plan, &at, &mut |effect| {
            if effect.buffer == BufferKind::Scratch && at.inside.is_none() {
                outside.get_or_insert_with(|| (at.site(plan), format!("{} ({})", at.display_name(plan), at.agent())));
            }
        });
    });
    let begin =
        format!("messages of more than {largest} bytes do not fit into the scratch pool of the reference executor");
    let (site, message) = match (outside, unit) {
        (Some((site, operation)), _) => (site, format!("{begin}, and {operation} uses scratch outside of a pipeline")),
        (None, Some(unit)) if unit == 0 || !room.is_multiple_of(unit) => (
            Site::None,
            format!("{begin}: windows of {unit} bytes do not divide the {room} bytes of each chunk of the pool"),
        ),
        (None, Some(unit)) if !may_wrap_scratch(plan, room / unit) => {
            let windows = room / unit;
            (
                Site::None,
                format!(
                    "{begin}: an iteration may overtake the iteration {windows} windows before it, which uses the \
                     same scratch"
                ),
            )
        }
        _ => return Vec::new(),
    };
    let help = format!("set `message_size` to at most {largest} bytes, or remove `reuse_resources`");
    vec![Diagnostic::new(Code::NotInReference, site, message).help(help)]
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::testing::plan;
    use mscclpp_plan::raw::PlanTree;

    /// Returns a plan with a scratch pool and these blocks on rank 0.
    fn pooled(blocks: &[&str], semaphore: i64) -> PlanTree {
        let mut plan = plan(&[blocks, &[""]]);
        plan.reuse_resources = true;
        plan.max_message_size = u64::MAX;
        if let Some(value) = plan.ranks[0].semaphores.get_mut(1) {
            *value = semaphore;
        }
        plan
    }

    fn only(plan: &PlanTree) -> String {
        let found = warnings(plan);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].to_string()
    }

    #[test]
    fn pipelines_that_may_overtake_their_windows_are_reported_with_the_size() {
        let free = ["loop 64x1 { copy i0 > s0; nop; sem_release#0 }", "loop 64x1 { sem_acquire#0; nop; copy s0 > o0 }"];
        let plan = pooled(&free, 0);
        let text = only(&plan);
        let room = (64_u64 << 20).div_ceil(plan.ranks[0].scratch_chunks.into()).next_multiple_of(16);
        assert!(text.contains(&format!("may overtake the iteration {} windows before it", room / 64)), "{text}");
        let largest = room * u64::from(plan.ranks[0].input_chunks.max(plan.ranks[0].output_chunks));
        assert!(text.contains(&format!("messages of more than {largest} bytes do not fit")), "{text}");
        let beyond = PlanTree { max_message_size: largest + 1, ..plan.clone() };
        assert_eq!(warnings(&beyond).len(), 1);
        assert!(warnings(&PlanTree { max_message_size: largest, ..plan.clone() }).is_empty());
        assert!(warnings(&PlanTree { reuse_resources: false, ..plan.clone() }).is_empty());
        let half = PlanTree { double_scratch: true, ..plan };
        assert!(only(&half).contains(&format!("may overtake the iteration {} windows", room / 128)));

        // A plan that waits for its windows is correct for every size.
        let waiting = [
            "loop 64x1 { sem_acquire#1; nop; copy i0 > s0; nop; sem_release#0 }",
            "loop 64x1 { sem_acquire#0; nop; copy s0 > o0; nop; sem_release#1 }",
        ];
        assert!(warnings(&pooled(&waiting, 2)).is_empty());
    }

    #[test]
    fn scratch_that_does_not_wrap_is_reported_with_its_operation() {
        let text = only(&pooled(&["copy i0 > s0; nop; copy s0 > o0"], 0));
        assert!(text.contains("(copy)") && text.contains("uses scratch outside of a pipeline"), "{text}");
        let text = only(&pooled(&["loop 48x1 { copy i0 > s0; copy s0 > o0 }"], 0));
        assert!(text.contains("windows of 48 bytes do not divide the "), "{text}");
        assert!(warnings(&pooled(&["copy i0 > o0"], 0)).is_empty());
    }

    #[test]
    fn plan_that_needs_launch_barrier_is_warned_of() {
        let both = |ops: &str| plan(&[&[ops], &[ops]]);
        let open = "rlxsignal.m#0; rlxwait.m#0; nop";
        let put = |close: &str| both(&format!("{open}; put.m i0 > r2:0; {close}"));
        assert!(warnings(&put("nop; signal.m#0; wait.m#0")).is_empty());
        let text = only(&put("nop; rlxsignal.m#0; rlxwait.m#0"));
        assert!(text.contains("may end before") && text.contains("neither of them relaxed"), "{text}");
        // There, double scratch separates launches of any sizes; one copy of scratch does not.
        let one_shot = PlanTree { double_scratch: true, ..both("ppkt.m i0 > r0:0; repkt i0 s0 > o0") };
        assert!(warnings(&one_shot).is_empty());
        let per_chunk = both(
            "ppkt.m i0 > r0:0; ppkt.m i1 > r0:1; upkt s0 > o0; ppkt.m i2 > r0:2; upkt s1 > o1; ppkt.m i3 > r0:3; \
             upkt s2 > o2; upkt s3 > o3",
        );
        assert!(
            warnings(&per_chunk)
                .iter()
                .any(|found| found.message.contains("message size") || found.message.contains("scratch"))
        );
    }
}
