//! Plans in Python: loading, checking, printing and running them, and findings as objects.

mod error;
mod finding;
mod object;
mod run;

pub(crate) use error::{PlanError, add_to, rejected};
pub(crate) use finding::{Finding, Location};
pub(crate) use object::{Plan, rules};
pub(crate) use run::{data_type, plan_sizes, reduction, run_plan, time_plan, type_size};
