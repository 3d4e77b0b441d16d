//! Plans that take dividing counts only.

use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BufferKind, Protocol};

use super::constraints::Rejection;
use super::request::Request;
use mscclpp_base::message::alignment_unit;

/// Checks that a plan that takes dividing counts only takes the count of a request.
pub(super) fn check_plan(plan: &Plan, request: &Request) -> Result<(), Rejection> {
    if !plan.collective().dividing {
        return Ok(());
    }
    let chunks =
        plan.ranks().flat_map(|rank| [BufferKind::Input, BufferKind::Output].map(|buffer| rank.chunks(buffer)));
    check(request, chunks.max().unwrap_or(0), plan.buffer_alignment(), plan.protocol())
}

/// Checks that the plans of a specification, which take dividing counts only, take the count of a request.
pub(super) fn check_spec(spec: &AlgoSpec, request: &Request) -> Result<(), Rejection> {
    let (input, output) = spec.collective.chunks(request.num_ranks).unwrap_or((1, 1));
    check(request, input.max(output).saturating_mul(spec.instances), spec.buffer_alignment, spec.protocol)
}

/// `chunks`: those of the larger buffer.
fn check(request: &Request, chunks: u32, alignment: u32, protocol: Protocol) -> Result<(), Rejection> {
    let size = request.dtype.size() as u64;
    let unit = alignment_unit(alignment.max(1), protocol == Protocol::LL, request.dtype);
    // A message that exceeds the address space is an error of the launch.
    let multiple = unit.and_then(|unit| u64::from(chunks).checked_mul(unit / size)).unwrap_or(1);
    match request.bytes / size {
        found if found.is_multiple_of(multiple) => Ok(()),
        found => Err(Rejection::NotDividing { multiple, found }),
    }
}
