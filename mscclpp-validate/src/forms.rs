//! Validates a plan in all launches of an execution form that apply.

use std::fmt;

use mscclpp_core::plan::raw::PlanTree;
use thiserror::Error;

use super::{DeviceLaunch, ProcessLaunch, ValidationError, validate_devices, validate_processes};
#[cfg(feature = "cuda")]
use super::{launches, validate_kernel};
use mscclpp_base::error::Error as ExecError;
#[cfg(feature = "cuda")]
use mscclpp_base::message::Message;
#[cfg(feature = "cuda")]
use mscclpp_exec::cuda::NotSpecialized;

/// A form in which executors run a plan; each is the output of other passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExecutorForm {
    /// One process per rank: [`validate_processes`].
    Processes,
    /// Several CUDA devices: [`validate_devices`].
    Devices,
    /// Specialized kernels on one CUDA device: [`validate_kernel`].
    #[cfg(feature = "cuda")]
    Kernel,
}

impl ExecutorForm {
    /// All forms.
    pub const ALL: &[Self] = &[
        Self::Processes,
        Self::Devices,
        #[cfg(feature = "cuda")]
        Self::Kernel,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Devices => "devices",
            #[cfg(feature = "cuda")]
            Self::Kernel => "kernel",
        }
    }
}

/// Launches of a plan that were validated, and those that do not apply to it.
#[derive(Debug, Default)]
pub struct ValidationReport {
    /// Number of launches that execute the proved plan.
    pub launches: usize,
    /// Launches that executors do not make, and why: ranks that access each other's memory are on different nodes, or
    /// no kernel is specialized.
    pub inapplicable: Vec<InvalidLaunch>,
}

/// A launch, and why it does not execute the proved plan.
#[derive(Debug, Error)]
#[error("{launch}: {error}")]
pub struct InvalidLaunch {
    /// The launch.
    pub launch: String,
    /// The reason.
    pub error: ValidationError,
}

/// Validates a plan that the checker accepts in all launches of one form that apply: those of [`ProcessLaunch::all`] or
/// [`DeviceLaunch::all`], or one for each reduction that the plan accepts.
///
/// ```
/// use mscclpp_algorithms as algorithms;
/// use mscclpp_validate::{ExecutorForm, validate_form};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let ring = algorithms::find("allreduce_ring").expect("it is in the library");
/// let plan = ring.compile_tree(ring.spec(2, 2), &[])?;
/// assert!(validate_form(&plan, ExecutorForm::Devices)?.launches > 0);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The first launch that does not execute the proved plan.
pub fn validate_form(plan: &PlanTree, form: ExecutorForm) -> Result<ValidationReport, InvalidLaunch> {
    let mut validated = ValidationReport::default();
    match form {
        ExecutorForm::Processes => {
            validated.each(ProcessLaunch::all(plan), |launch| validate_processes(plan, launch))?;
        }
        ExecutorForm::Devices => {
            validated.each(DeviceLaunch::all(plan), |launch| validate_devices(plan, launch))?;
        }
        #[cfg(feature = "cuda")]
        ExecutorForm::Kernel => {
            let messages = launches::messages(plan);
            let messages =
                messages.map_err(|invalid| InvalidLaunch { launch: "on one device".to_owned(), error: invalid })?;
            validated.each(messages.into_iter().map(Reduced), |message| validate_kernel(plan, message.0))?;
        }
    }
    Ok(validated)
}

impl ValidationReport {
    fn each<L: fmt::Display>(
        &mut self,
        launches: impl IntoIterator<Item = L>,
        validate: impl Fn(&L) -> Result<(), ValidationError>,
    ) -> Result<(), InvalidLaunch> {
        for launch in launches {
            match validate(&launch) {
                Ok(()) => self.launches += 1,
                Err(invalid) => {
                    let is_applicable = is_applicable(&invalid);
                    let invalid = InvalidLaunch { launch: launch.to_string(), error: invalid };
                    if is_applicable {
                        return Err(invalid);
                    }
                    self.inapplicable.push(invalid);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an executor makes the launch at all.
fn is_applicable(invalid: &ValidationError) -> bool {
    match invalid {
        ValidationError::Plan(ExecError::CrossNodeAccess { .. }) => false,
        #[cfg(feature = "cuda")]
        ValidationError::NotSpecialized(NotSpecialized::TooLarge { .. } | NotSpecialized::TooWide { .. }) => false,
        _ => true,
    }
}

/// The launch of a specialized kernel.
#[cfg(feature = "cuda")]
struct Reduced(Message);

#[cfg(feature = "cuda")]
impl fmt::Display for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.op {
            Some(op) => write!(f, "on one device, reduction {op}"),
            None => f.write_str("on one device"),
        }
    }
}
