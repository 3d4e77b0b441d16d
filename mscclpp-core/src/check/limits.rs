//! What the reference system's executor can hold.

use super::MOST_FINDINGS;
use super::place::{Placed, each};
use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::{Op, OpKind, PlanTree};
use crate::vocab::ReduceOp;

/// Operations of a thread block; a pipeline and each operation in it count one.
const OPS_PER_BLOCK: usize = 64;
/// Channels of one kind, and remote buffers of one kind, of a thread block.
const TABLE_ENTRIES: usize = 16;
/// Channels of an operation.
const CHANNELS_PER_OP: usize = 8;
/// References on one side of an operation.
const REFERENCES_PER_SIDE: usize = 10;
/// Semaphores of an operation.
const SEMAPHORES_PER_OP: usize = 16;
/// Barriers of a rank.
const BARRIERS: u32 = 16;

/// What keeps a plan from running on the reference system's executor, with numbers. Binds only when exporting for it: our
/// own format and executors have none of these limits.
///
/// Meant for plans that [`check`](super::check) accepts; others give findings or not, but never a panic.
pub fn reference_limits(plan: &PlanTree) -> Diagnostics {
    let mut found = Diagnostics::default();
    let mut file = |site: Site, message: String, help: &str| {
        if found.len() < MOST_FINDINGS {
            found.push(Diagnostic::new(Code::ReferenceLimit, site, message).help(help));
        }
    };
    if plan.min_message_size > i32::MAX as u64 {
        let message = format!(
            "the smallest message is {} bytes; the reference executor reads this number in 31 bits",
            plan.min_message_size
        );
        file(Site::None, message, "start the range at 2^31 - 1 bytes or less");
    }
    for (rank, tables) in plan.ranks.iter().enumerate() {
        for (number, block) in tables.blocks.iter().enumerate() {
            let site = || Site::Path(format!("rank {rank} / thread block {number}"));
            let ops: usize = block.ops.iter().map(size).sum();
            if ops > OPS_PER_BLOCK {
                let message =
                    format!("the thread block has {ops} operations, the reference executor holds {OPS_PER_BLOCK}");
                file(site(), message, "spread the work over more thread blocks");
            }
            for (kind, list) in &block.channels {
                if list.len() > TABLE_ENTRIES {
                    let count = list.len();
                    let message = format!(
                        "the thread block uses {count} {kind} channels, the reference executor holds {TABLE_ENTRIES}"
                    );
                    file(site(), message, "spread the channels over more thread blocks");
                }
            }
            for (kind, list) in &block.remote_buffers {
                if list.len() > TABLE_ENTRIES {
                    let count = list.len();
                    let message = format!(
                        "the thread block uses {count} remote buffers over {kind} channels, the reference executor holds \
                         {TABLE_ENTRIES}"
                    );
                    file(site(), message, "spread the peers over more thread blocks");
                }
            }
        }
    }
    each(plan, &mut |at| {
        if let Some((message, help)) = operation(&at) {
            file(at.site(plan), format!("{} ({}) {message}", at.called(plan), at.agent()), help);
        }
    });
    found
}

fn size(op: &Op) -> usize {
    1 + op.body.as_ref().map_or(0, |body| body.ops.len())
}

/// What is too much about an operation, and what helps.
fn operation(at: &Placed) -> Option<(String, &'static str)> {
    let op = at.op;
    match op.kind {
        OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease if op.ids.len() > SEMAPHORES_PER_OP => {
            let message =
                format!("names {} semaphores, the reference executor holds {SEMAPHORES_PER_OP}", op.ids.len());
            return Some((message, "export splits it; or write it as several operations"));
        }
        OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease => {}
        OpKind::Barrier => {
            let id = op.ids.first().copied().unwrap_or(0);
            if id >= BARRIERS {
                let message = format!("is barrier {id} of its rank, the reference executor has {BARRIERS}");
                return Some((message, "use fewer different sets of thread blocks, or fewer instances"));
            }
        }
        OpKind::SwitchReduce => {
            let message = "stands alone, and the reference executor knows it only fused with the broadcast behind it";
            return Some((message.to_owned(), "broadcast the result where it was reduced, directly behind it"));
        }
        OpKind::Pipeline => {
            let unit = op.body.as_ref().map_or(0, |body| body.unit);
            if unit > u64::from(u32::MAX) {
                let message = format!("has a unit of {unit} bytes, the reference executor counts in 32 bits");
                return Some((message, "use a smaller unit"));
            }
        }
        _ if op.ids.len() > CHANNELS_PER_OP => {
            let message = format!("names {} channels, the reference executor holds {CHANNELS_PER_OP}", op.ids.len());
            return Some((message, "export splits it; or write it as several operations"));
        }
        _ => {}
    }
    let references = op.srcs.len().max(op.dsts.len());
    if references > REFERENCES_PER_SIDE {
        let message =
            format!("has {references} references on one side, the reference executor holds {REFERENCES_PER_SIDE}");
        return Some((message, "export splits it where it can; or write it as several operations"));
    }
    match op.reduce {
        Some(reduce) if reduce != ReduceOp::Sum => {
            let message = format!("reduces with {reduce}, and the reference executor always adds");
            Some((message, "use `sum`"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::reference_limits;
    use crate::diag::Code;
    use crate::testing::plan;
    use crate::vocab::ChannelKind;

    #[track_caller]
    fn limits(ops: &str) -> Vec<String> {
        let found = reference_limits(&plan(&[&[ops], &[""]]));
        assert!(found.iter().all(|finding| finding.code == Code::ReferenceLimit), "{found}");
        found.iter().map(|finding| finding.message.clone()).collect()
    }

    fn list(each: &str, count: usize) -> String {
        (0..count).map(|i| format!(" {each}{i}")).collect()
    }

    #[test]
    fn what_fits_is_accepted() {
        let nops = vec!["nop"; 57].join("; ");
        let ops = format!(
            "put.m{} > {}; re{} > o0; signal.m#0,1,2,3,0,1,2,3; barrier#15=2; sem_acquire#0; loop 64x1 {{ {nops} }}",
            list("i", 10),
            list("r0:", 10),
            list("s", 10)
        );
        assert_eq!(limits(&ops), [""; 0]);
    }

    #[test]
    fn every_limit_is_told_with_its_numbers() {
        for (ops, expected) in [
            (vec!["nop"; 65].join("; "), "the thread block has 65 operations, the reference executor holds 64"),
            (format!("loop 64x1 {{ {} }}", vec!["nop"; 64].join("; ")), "the thread block has 65 operations"),
            ("signal.m#0,1,2,3,4,5,6,7,8".to_owned(), "names 9 channels, the reference executor holds 8"),
            (format!("re{} > o0", list("s", 11)), "has 11 references on one side, the reference executor holds 10"),
            (
                format!("sem_acquire#{}", vec!["0"; 17].join(",")),
                "names 17 semaphores, the reference executor holds 16",
            ),
            ("barrier#16=2".to_owned(), "is barrier 16 of its rank, the reference executor has 16"),
            ("glre.w w0:0 > s0".to_owned(), "knows it only fused"),
            ("re~max i0 s0 > i0".to_owned(), "reduces with max"),
            ("loop 4294967296x1 { nop }".to_owned(), "has a unit of 4294967296 bytes"),
        ] {
            let found = limits(&ops);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
        }
    }

    #[test]
    fn tables_and_the_smallest_message_have_limits_too() {
        let mut plan = plan(&[&[""], &[""]]);
        plan.ranks[0].blocks[0].channels = vec![(ChannelKind::Memory, (0..17).collect())];
        plan.ranks[0].blocks[0].remote_buffers = vec![(ChannelKind::Port, (0..17).collect())];
        plan.min_message_size = 1 << 31;
        assert_eq!(reference_limits(&plan).len(), 3);
    }
}
