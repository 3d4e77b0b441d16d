//! Measures calls that have no plan: gather, scatter, all-to-all with parts of any lengths, and barrier.

mod device;
mod host;
mod shape;

pub(super) use self::shape::PlanlessCall;
use self::shape::Shape;
use super::report::Measured;
use crate::args::{Backend, BenchArgs};
use crate::error::{Error, Result};

/// Calls a function with the Rust type of a data type.
macro_rules! with_type {
    ($dtype:expr, $call:ident($($argument:expr),*)) => {{
        use mscclpp_exec::{DataType, E4m3, E4m3B15, E5m2};
        match $dtype {
            DataType::I8 => $call::<i8>($($argument),*),
            DataType::U8 => $call::<u8>($($argument),*),
            DataType::I32 => $call::<i32>($($argument),*),
            DataType::U32 => $call::<u32>($($argument),*),
            DataType::I64 => $call::<i64>($($argument),*),
            DataType::U64 => $call::<u64>($($argument),*),
            DataType::F16 => $call::<half::f16>($($argument),*),
            DataType::BF16 => $call::<half::bf16>($($argument),*),
            DataType::F32 => $call::<f32>($($argument),*),
            DataType::F64 => $call::<f64>($($argument),*),
            DataType::F8E4M3 => $call::<E4m3>($($argument),*),
            DataType::F8E5M2 => $call::<E5m2>($($argument),*),
            DataType::F8E4M3B15 => $call::<E4m3B15>($($argument),*),
        }
    }};
}
use with_type;

/// Measures every size, and reports each on rank 0; returns the number of wrong elements.
///
/// # Errors
/// Those of [`super::bench`]; [`Error::Usage`] for options of calls that have a plan.
pub(super) fn bench(args: &BenchArgs, call: PlanlessCall) -> Result<u64> {
    for (given, option) in [
        (args.plan.is_some(), "--plan"),
        (args.specialize, "--specialize"),
        (args.in_place, "--in-place"),
        (args.backend == Backend::Cpu && !args.virtual_ranks.is_empty(), "--virtual-ranks"),
    ] {
        if given {
            let with = if option == "--virtual-ranks" { " on the CPU; use --ranks" } else { "" };
            return Err(Error::Usage(format!("{option}: {} has no plan{with}", call.name())));
        }
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
    let shape = |&size| Shape::new(call, size, args.rooted.call.dtype, rank, ranks, args.rooted.root);
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
