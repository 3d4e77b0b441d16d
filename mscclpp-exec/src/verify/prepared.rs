//! Prepared plans of all executors, as a verifier sees them.

use mscclpp_base::interpret::{Params, ResolvedPlan};

/// A prepared plan of any executor.
pub trait Prepared: Bound {}

impl<P: Bound> Prepared for P {}

/// Access to the plan and the message of a prepared plan; implemented beside each executor's type.
pub trait Bound {
    /// Returns the plan and the message that is bound to it.
    #[doc(hidden)]
    fn bound(&self) -> BoundPlan<'_>;
}

/// A plan and a message that is bound to it.
#[doc(hidden)]
pub struct BoundPlan<'a> {
    pub program: &'a ResolvedPlan,
    pub params: &'a Params,
}
