//! Rule 2: packets and plain data use separate scratch.
//!
//! A packet carries a flag beside its data and takes twice the bytes: packet chunk k of scratch has the bytes of the
//! plain chunks 2k and 2k + 1. The rule proves that
//!
//! 1. a plan with packets has protocol `LL`, which reserves memory for them (M0219);
//! 2. no byte of a rank's scratch holds plain data in one operation and a packet in another (M0220);
//! 3. with double scratch, plain data stays in the scratch of the rank that processes it: only packets and a rank's
//!    local operands move to the other half in every second launch, on all executors (M0221).
//!
//! The rule checks the operands of every operation only, so it is sound for every schedule and message size: chunks are
//! equally long, hence bytes that differ by the chunk numbers differ by address.
//!
//! It rejects more than it must. Bytes that hold plain data first and packets much later are rejected as well, since
//! the plain data may have left any value in a packet's flag; so are members of a thread-block group that are separate
//! only within a chunk. Our CPU executor keeps packets in separate memory and moves every operand to the other half, so
//! it executes plans that this rule rejects; executors that follow the reference executor do not.

use super::MAX_FINDINGS;
use super::access::{Access, accesses};
use super::place::{LocatedOp, each};
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::raw::{BufferRef, Operand, PlanTree};
use mscclpp_plan::types::{BufferKind, Protocol};

pub(super) fn check(view: View) -> Diagnostics {
    let plan = view.plan;
    let mut found = Diagnostics::default();
    if plan.ranks.iter().all(|rank| rank.scratch_chunks == 0) {
        return found;
    }
    let mut first_packets = None;
    let mut plain: Vec<Vec<ScratchUse>> = Vec::new();
    plain.resize_with(plan.ranks.len(), Vec::new);
    each(view, &mut |at| {
        let mut afar = None;
        accesses(plan, &at, &mut |effect| {
            if effect.packets {
                first_packets.get_or_insert((at, effect.range));
            } else if effect.buffer == BufferKind::Scratch {
                plain[effect.owner as usize].push(ScratchUse::plain(at, effect));
                if !matches!(effect.range.buffer, BufferRef::Local(_)) {
                    afar.get_or_insert(effect);
                }
            }
        });
        if let Some(effect) = afar.filter(|_| plan.double_scratch && found.len() < MAX_FINDINGS) {
            found.push(single_buffered(plan, &at, &effect));
        }
    });
    let Some((first, operand)) = first_packets else { return found };
    if plan.protocol != Protocol::LL {
        found.push(packets_need_ll(plan, &first, &operand));
    }
    let plain: Vec<_> = plain.into_iter().map(disjoint).collect();
    if plain.iter().all(Vec::is_empty) {
        return found;
    }
    each(view, &mut |at| {
        accesses(plan, &at, &mut |effect| {
            if effect.buffer == BufferKind::Scratch && effect.packets && found.len() < MAX_FINDINGS {
                let pieces = &plain[effect.owner as usize];
                let (start, end) = (2 * u64::from(effect.range.index), 2 * end(&effect));
                let next = pieces.partition_point(|piece| piece.end <= start);
                if let Some(piece) = pieces.get(next).filter(|piece| piece.start < end) {
                    found.push(shared(plan, piece, &at, &effect));
                }
            }
        });
    });
    found
}

/// Plain chunks of a rank's scratch that an operation uses.
struct ScratchUse<'p> {
    start: u64,
    end: u64,
    at: LocatedOp<'p>,
    effect: Access,
}

impl<'p> ScratchUse<'p> {
    fn plain(at: LocatedOp<'p>, effect: Access) -> Self {
        Self { start: u64::from(effect.range.index), end: end(&effect), at, effect }
    }
}

fn end(effect: &Access) -> u64 {
    u64::from(effect.range.index) + u64::from(effect.range.size)
}

/// Returns the same chunks in ascending order and each once, with the first operation that uses them.
fn disjoint(mut uses: Vec<ScratchUse>) -> Vec<ScratchUse> {
    // Stable, so that of equal ones the first is kept.
    uses.sort_by_key(|piece| piece.start);
    let mut covered = 0;
    uses.retain_mut(|piece| {
        piece.start = piece.start.max(covered);
        covered = covered.max(piece.end);
        piece.start < piece.end
    });
    uses
}

fn packets_need_ll(plan: &PlanTree, at: &LocatedOp, operand: &Operand) -> Diagnostic {
    let message = format!(
        "{} ({}) accesses packets, but the protocol is {}, under which scratch is half the size that packets need",
        at.display_name(plan),
        at.agent(),
        plan.protocol.name()
    );
    Diagnostic::new(Code::PacketsNeedLl, at.operand_site(plan, operand), message).help("set `protocol = LL`")
}

fn shared(plan: &PlanTree, plain: &ScratchUse, packets: &LocatedOp, effect: &Access) -> Diagnostic {
    let (first, last) = (u64::from(effect.range.index), end(effect));
    let (from, to) = (u64::from(plain.effect.range.index), end(&plain.effect));
    let does = |effect: &Access, what: &str| match effect.write {
        true => format!("writes {what} to"),
        false => format!("reads {what} from"),
    };
    let message = format!(
        "{} ({}) {} scratch {} of rank {}, and {} ({}) {} {}, which occupy the bytes of plain {}",
        plain.at.display_name(plan),
        plain.at.agent(),
        does(&plain.effect, "plain data"),
        chunks(from, to),
        effect.owner,
        packets.display_name(plan),
        packets.agent(),
        does(effect, "packets"),
        chunks(first, last),
        chunks(2 * first, 2 * last),
    );
    let help = if from < last && first < to {
        "write a chunk that holds packets with `put_packets` or `copy_packets`, and read it with `unpack_packets` \
         or `reduce_packets`"
    } else {
        "allocate the scratch for plain data before the scratch for packets"
    };
    let site = plain.at.operand_site(plan, &plain.effect.range);
    Diagnostic::new(Code::MixedScratch, site, message)
        .note(format!("{} accesses packets", packets.display_name(plan)), packets.operand_site(plan, &effect.range))
        .help(help)
}

fn single_buffered(plan: &PlanTree, at: &LocatedOp, effect: &Access) -> Diagnostic {
    let message = format!(
        "{} ({}) {} scratch {} of rank {}, but only packets alternate between the two halves of another rank's scratch",
        at.display_name(plan),
        at.agent(),
        if effect.write { "writes plain data to" } else { "reads plain data from" },
        chunks(effect.range.index.into(), end(effect)),
        effect.owner,
    );
    Diagnostic::new(Code::PlainDoubleScratch, at.operand_site(plan, &effect.range), message)
        .help("use packets; or remove `double_scratch` and signal after the scratch has been read")
}

/// Returns a text such as "chunk 2" or "chunks 2..4".
fn chunks(start: u64, end: u64) -> String {
    match end - start {
        1 => format!("chunk {start}"),
        _ => format!("chunks {start}..{end}"),
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::plan;
    use mscclpp_plan::diag::{Code, Diagnostics};
    use mscclpp_plan::raw::PlanTree;
    use mscclpp_plan::types::Protocol;

    fn check(plan: &PlanTree) -> Diagnostics {
        super::check(plan.into())
    }

    fn packets(ops: &str) -> PlanTree {
        plan(&[&[ops], &[""]])
    }

    #[track_caller]
    fn finding(plan: &PlanTree) -> (Code, String) {
        let found = check(plan);
        assert_eq!(found.len(), 1, "{found}");
        let finding = found.iter().next().unwrap();
        (finding.code, finding.message.clone())
    }

    #[test]
    fn packets_require_protocol_ll() {
        for ops in ["cpkt i0 > s0", "upkt s0 > i0", "ppkt.p#0 s0 > r0:0", "repkt i0 s1 > i0", "gstorepkt.w s0 > w0:0"] {
            let mut plan = packets(ops);
            assert_eq!(check(&plan), Default::default(), "{ops}");
            plan.protocol = Protocol::Simple;
            let (code, message) = finding(&plan);
            assert_eq!(code, Code::PacketsNeedLl);
            assert!(
                message.ends_with("the protocol is Simple, under which scratch is half the size that packets need")
            );
        }
        let mut plain = packets("copy i0 > s0; put.m i0 > r0:0");
        plain.protocol = Protocol::Simple;
        assert_eq!(check(&plain), Default::default());
    }

    #[test]
    fn a_packet_chunk_takes_two_plain_chunks() {
        for (ops, clash) in [
            ("copy i0 > s0; cpkt i0 > s1", false),
            ("copy i0 > s1; cpkt i0 > s1", false),
            ("copy i0 > s2; cpkt i0 > s1", true),
            ("copy i0 > s3; cpkt i0 > s1", true),
            ("copy i0 > s4; cpkt i0 > s1", false),
            ("copy s0+4 > i0+4; copy s1 > o0; cpkt i0 > s1", true),
            ("copy s6+2 > i0+2; cpkt i0+2 > s1+2; copy s0+2 > i0+2", false),
            ("cpkt i0 > s0; copy s1 > o0", true),
            ("repkt s4 s2 > i0", true),
            ("repkt s4 s3 > i0", false),
        ] {
            let found = check(&packets(ops));
            assert_eq!(!found.is_empty(), clash, "{ops}: {found}");
            assert!(found.iter().all(|finding| finding.code == Code::MixedScratch));
        }
        let (_, message) = finding(&packets("cpkt i0 > s0; copy s1 > o0"));
        assert_eq!(
            message,
            "`copy` (rank 0, thread block 0) reads plain data from scratch chunk 1 of rank 0, and `cpkt` (rank 0, thread \
             block 0) writes packets to chunk 0, which occupy the bytes of plain chunks 0..2"
        );
    }

    #[test]
    fn scratch_of_different_ranks_is_separate() {
        assert_eq!(check(&packets("ppkt.m i0 > r0:0; copy i0 > s0")), Default::default());
        assert_eq!(finding(&packets("ppkt.m i0 > r0:0; gstore.w i0 > w0:1")).0, Code::MixedScratch);
    }

    #[test]
    fn plain_remote_data_is_rejected_with_double_scratch() {
        for (ops, fine) in [
            ("ppkt.m i0 > r0:0; copy i0 > s4", true),
            ("put.m i0 > r1:0", true),
            ("put.m i0 > r0:0", false),
            ("put.p#0 i0 > r0:0", false),
            ("get.m#0 r0:0 > i0", false),
            ("rres.m i0 r1:0 > i0 r0:0", false),
            ("gstore.w i0 > w0:0", false),
            ("gstorepkt.w s0 > w0:0", true),
        ] {
            let mut plan = packets(ops);
            assert_eq!(check(&plan), Default::default(), "{ops}");
            plan.double_scratch = true;
            let found = check(&plan);
            assert_eq!(found.is_empty(), fine, "{ops}: {found}");
            assert!(found.iter().all(|finding| finding.code == Code::PlainDoubleScratch));
        }
    }

    #[test]
    fn huge_chunk_numbers_do_not_overflow() {
        let mut plan = packets("copy i0 > s0; cpkt i0 > s0");
        let op = &mut plan.ranks[0].blocks[0].ops[1];
        (op.dsts[0].index, op.dsts[0].size) = (u32::MAX, u32::MAX);
        assert_eq!(check(&plan), Default::default());
    }
}
