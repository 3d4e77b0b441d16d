//! Measures calls that have no plan: gather, scatter, all-to-all with parts of any lengths, and barrier.

mod device;
mod host;
mod shape;

pub(super) use self::shape::PlanlessCall;
use self::shape::Shape;
use super::report::Measured;
use crate::args::{Backend, BenchArgs};
use crate::error::{Error, Result};

/// Measures every size, and reports each on rank 0; returns the number of wrong elements.
///
/// # Errors
/// Those of [`super::bench`]; [`Error::Usage`] for options of calls that have a plan.
pub(super) fn bench(args: &BenchArgs, call: PlanlessCall) -> Result<u64> {
    let name = call.name();
    let refused = [
        (args.plan.is_some(), "--plan", "has no plan to choose"),
        (args.specialize, "--specialize", "has no plan to specialize"),
        (args.in_place, "--in-place", "is measured out of place"),
        (
            args.backend == Backend::Cpu && !args.virtual_ranks.is_empty(),
            "--virtual-ranks",
            "has no ranks that are tasks; use --ranks, or --backend cuda",
        ),
    ];
    if let Some((_, option, reason)) = refused.into_iter().find(|(is_given, ..)| *is_given) {
        return Err(Error::Usage(format!("{option}: {name} {reason}")));
    }
    let sizes = match call {
        PlanlessCall::Barrier => vec![0],
        _ => super::sizes(args)?,
    };
    args.backend.devices(args.gpus, args.virtual_ranks.iter().min().copied().or(args.gpus).unwrap_or(1))?;
    match args.backend {
        Backend::Cpu => host::bench(args, call, &sizes),
        Backend::Cuda => device::bench(args, call, &sizes),
    }
}

/// Returns the calls of the sizes on a rank, without those that rounding makes equal.
fn shapes(args: &BenchArgs, call: PlanlessCall, sizes: &[u64], rank: u32, ranks: u32) -> Result<Vec<Shape>> {
    args.rooted.check_root(ranks)?;
    let shape =
        |&size| Ok(Shape::new(call, size, args.rooted.call.dtype, rank, ranks, args.rooted.root)?.with_skew(args.skew));
    let mut shapes = sizes.iter().map(shape).collect::<Result<Vec<_>>>()?;
    shapes.dedup();
    Ok(shapes)
}

/// Describes a call for reports.
fn measured(shape: &Shape, registered: bool) -> Measured<'static> {
    let ranks = f64::from(shape.ranks);
    Measured {
        call: shape.call.name(),
        bytes: shape.bytes(),
        ranks: shape.ranks,
        virtually: false,
        dtype: shape.dtype,
        op: None,
        in_place: false,
        registered,
        plan: None,
        // A rank keeps its own part.
        bus_factor: (ranks - 1.0) / ranks,
    }
}
