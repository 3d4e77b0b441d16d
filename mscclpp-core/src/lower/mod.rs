//! Lowering: from a recorded program to a plan.
//!
//! A list of passes, each a pure function over one thread block or the whole tree, each in its own file:
//!
//! 1. [`group`]: recorded operations become per-rank, per-block lists; a pipelined loop becomes one operation per block.
//! 2. [`fuse`] (if the program asks for it): neighbouring operations of a block become one. It comes first, while the
//!    authors' order is still visible and before block syncs stand between operations.
//! 3. [`data_sync`]: the sync attributes that fusion left become `nop`s.
//! 4. [`dependency`] (if asked for): `nop`s between operations of a block that touch the same memory. It comes after
//!    [`data_sync`], whose `nop`s settle most dependencies already.
//! 5. [`split`] (more than one instance): chunk ranges that cannot be interleaved as they stand become single chunks.
//! 6. [`number`]: rank-level numbers of channels and remote buffers become indexes into the thread block's tables.
//! 7. [`replicate`] (more than one instance): every block becomes one block per instance.
//!
//! Until [`number`] has run, references and channels carry rank-level numbers. The result is canonical: it holds exactly
//! what plan JSON can hold, so that writing and reading it gives an equal tree.

mod access;
mod data_sync;
mod dependency;
mod fuse;
mod group;
mod number;
mod replicate;
mod split;
#[cfg(test)]
mod testing;

use crate::diag::{Code, Diagnostic, Diagnostics, Site};
use crate::plan::PlanTree;
use crate::trace::Trace;
use crate::vocab::Replication;

/// Lowers a recorded program to a plan.
///
/// The trace must come from a recorder that found nothing wrong; one made by hand is only checked as far as indexing
/// safely demands. The plan is not checked for hazards or deadlocks here.
///
/// # Cost
/// Linear in the operations, times the instances; searches in sorted maps where dependencies are tracked.
///
/// # Errors
/// [`Code::BadSpec`] for instances without replication, [`Code::MixedSizes`] for instances whose chunk ranges cannot be
/// interleaved, [`Code::TooLarge`] for numbers beyond 32 bits, and [`Code::RankOutOfRange`] or
/// [`Code::BlockOutOfRange`] for a trace that contradicts its own tables.
pub fn lower(trace: &Trace) -> Result<PlanTree, Diagnostics> {
    let spec = &trace.spec;
    if spec.instances > 1 && spec.replication == Replication::None {
        let message = format!(
            "{} instances were asked for under `replication = none`",
            spec.instances
        );
        return Err(Diagnostic::new(Code::BadSpec, Site::None, message)
            .help("leave `replication` out, or ask for one instance")
            .into());
    }
    let mut plan = group::group(trace)?;
    if spec.fuse {
        fuse::fuse(&mut plan);
    }
    data_sync::insert(&mut plan);
    if spec.auto_sync {
        dependency::insert(&mut plan);
    }
    if spec.instances > 1 {
        split::split(&mut plan)?;
    }
    number::number(&mut plan);
    if spec.instances > 1 {
        replicate::replicate(&mut plan, spec.instances)?;
    }
    Ok(plan)
}
