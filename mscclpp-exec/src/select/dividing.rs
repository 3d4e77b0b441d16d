//! Plans that take dividing counts only.

use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{BufferKind, Protocol};

use super::constraints::Rejection;
use super::request::Request;
use crate::error::Error;
use crate::layout::{Layout, Shape};
use crate::message::Message;

/// Checks that a plan takes the count of a request.
pub(super) fn check_plan(plan: &Plan, request: &Request) -> Result<(), Rejection> {
    let most = |buffer| plan.ranks().map(|rank| rank.chunks(buffer)).max().unwrap_or(0);
    check(request, || Shape {
        collective: plan.collective(),
        ranks: plan.num_ranks(),
        input: most(BufferKind::Input),
        output: most(BufferKind::Output),
        scratch: 0,
        alignment: plan.buffer_alignment().max(1),
        packets: plan.protocol() == Protocol::LL,
    })
}

/// Checks that the plans of a specification take the count of a request.
pub(super) fn check_spec(spec: &AlgoSpec, request: &Request) -> Result<(), Rejection> {
    let (input, output) = spec.collective.chunks(request.num_ranks).unwrap_or((1, 1));
    check(request, || Shape {
        collective: spec.collective,
        ranks: request.num_ranks,
        input: input.saturating_mul(spec.instances),
        output: output.saturating_mul(spec.instances),
        scratch: 0,
        alignment: spec.buffer_alignment.max(1),
        packets: spec.protocol == Protocol::LL,
    })
}

fn check(request: &Request, shape: impl FnOnce() -> Shape) -> Result<(), Rejection> {
    let message = Message::new(request.dtype, request.bytes / request.dtype.size() as u64);
    match Layout::new(&shape(), &message) {
        Err(Error::NotDividing { count, multiple }) => Err(Rejection::NotDividing { multiple, found: count }),
        // Other errors are those of the launch.
        _ => Ok(()),
    }
}
