//! Measures calls whose ranks are all tasks of this process.

use mscclpp_communicator::tune::measure_executor;
use mscclpp_exec::cpu::{Executor, Options};
use mscclpp_select::{Choice, Config, Registry, Request};

use super::call::Call;
use super::known;
use super::report::Measured;
use crate::error::Result;
use crate::memory;
use crate::output::print;

/// Measures all sizes and numbers of ranks; returns the number of wrong elements.
///
/// # Errors
/// Those of [`super::bench`].
pub(super) fn bench(args: &Call, sizes: &[u64]) -> Result<u64> {
    let mut registry = Registry::from_env().map_err(mscclpp_exec::Error::from)?;
    args.register(&mut registry)?;
    let mut wrong = 0_u64;
    for &ranks in &args.virtual_ranks {
        let of = |bytes| Request {
            virtual_ranks: true,
            ranks_per_node: args.ranks_per_node(ranks),
            ..Request::new(args.collective, ranks, args.rooted.call.dtype, bytes)
        };
        let requests = sizes.iter().map(|&size| super::request(args, size, of, ranks));
        let mut requests = requests.collect::<Result<Vec<_>>>()?;
        requests.dedup();
        let largest = requests.last().map_or(0, |request| request.bytes);
        let all = largest.saturating_mul(2).saturating_mul(ranks.into());
        let scratch_limit = memory::require(|| format!("a call of {largest} bytes on each of {ranks} ranks"), all)?;
        let world = Executor::with_options(ranks, Options::default().scratch_limit(scratch_limit));
        if let Some(request) = requests.first().filter(|_| !args.json) {
            print(Measured::new(request, None).header())?;
        }
        for request in &requests {
            wrong = wrong.saturating_add(size_of(args, &world, &registry, request)?);
        }
    }
    Ok(wrong)
}

/// Measures and reports one size.
fn size_of(args: &Call, world: &Executor, registry: &Registry, request: &Request) -> Result<u64> {
    let decision = match &args.plan {
        Some(name) => {
            known(registry, args.collective, name)?;
            let config = Config { blocks: args.blocks, threads: None };
            registry.decision(request, &Choice { name: name.clone(), config })
        }
        None => registry.select(request),
    };
    let decision = decision.map_err(|why| why.of_call(0))?;
    let plan = registry.plan(request, &decision).map_err(|why| why.of_call(0, request))?;
    let measuring = args.measuring(request.bytes.saturating_mul(request.num_ranks.into()) / 2);
    let measured = measure_executor(world, &plan, request, measuring)?;
    let shown = Measured::new(request, Some(decision.algorithm.name()));
    print(if args.json { shown.line(&measured) } else { shown.row(&measured) })?;
    Ok(measured.wrong.unwrap_or(0))
}
