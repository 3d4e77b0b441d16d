//! `mscclpp check --executor`: validates that the forms in which executors run a plan preserve the proof.

use std::fmt;

use mscclpp_core::check::check;
use mscclpp_core::plan::raw::{Op, Operand, PlanTree};
use mscclpp_validate::{ExecutorForm, InvalidLaunch, ValidationError, ValidationReport, validate_form};
use serde_json::{Value, json};

use crate::error::Error;
use crate::progress::Progress;
use crate::{exit, memory};

/// Result of the validator for one form in which executors run a plan.
pub(super) struct Executed {
    form: ExecutorForm,
    found: Found,
}

enum Found {
    Valid(ValidationReport),
    Invalid(InvalidLaunch),
    /// The checks find this number of errors in the plan, so it has no proof.
    NotProved(usize),
    /// The validator needs more memory than is available.
    Unable(Error),
}

impl Executed {
    /// Validates a plan in each form.
    pub(super) fn all(plan: &PlanTree, forms: &[ExecutorForm]) -> Vec<Self> {
        // All checks, whatever level and allowances were requested: the passes rely on all of them.
        let findings = check(plan).len();
        let validate = |&form: &ExecutorForm| {
            let _working = Progress::spinner(&format!("validating {} for {}", plan.name, form.name()));
            let found = match findings {
                0 if plan.is_counted() => {
                    let what = "its sizes are counts, for which the validator has no form; `--fuzz 100` runs it at random counts";
                    Found::Unable(Error::Usage(what.into()))
                }
                0 => match memory::require(|| format!("a validation of `{}`", plan.name), bytes(plan, form)) {
                    Ok(_) => validate_form(plan, form).map_or_else(Found::Invalid, Found::Valid),
                    Err(error) => Found::Unable(error),
                },
                findings => Found::NotProved(findings),
            };
            Self { form, found }
        };
        forms.iter().map(validate).collect()
    }

    /// Returns the exit code for this result alone.
    pub(super) fn exit(&self) -> u8 {
        match &self.found {
            Found::Valid(_) => exit::SUCCESS,
            Found::NotProved(_) => exit::FAILURE,
            Found::Unable(_) => exit::UNAVAILABLE,
            Found::Invalid(launch) => match launch.error {
                // The executor rejects the plan, so nothing is executed.
                ValidationError::Plan(_)
                | ValidationError::NotSpecialized(_)
                | ValidationError::Ranks { .. }
                | ValidationError::TooLarge => exit::UNAVAILABLE,
                _ => exit::FAILURE,
            },
        }
    }

    pub(super) fn json(&self) -> Value {
        let launch = |launch: &InvalidLaunch| json!({ "launch": launch.launch, "why": launch.error.to_string() });
        let (launches, inapplicable) = match &self.found {
            Found::Valid(valid) => (valid.launches, valid.inapplicable.iter().map(launch).collect()),
            _ => (0, Vec::new()),
        };
        let invalid = match &self.found {
            Found::Invalid(invalid) => Some(launch(invalid)),
            _ => None,
        };
        let findings = match self.found {
            Found::NotProved(findings) => findings,
            _ => 0,
        };
        let impossible = match &self.found {
            Found::Unable(error) => Some(error.to_string()),
            _ => None,
        };
        json!({
            "executor": self.form.name(),
            "valid": self.exit() == exit::SUCCESS,
            "launches": launches,
            "inapplicable": inapplicable,
            "invalid": invalid,
            "findings": findings,
            "impossible": impossible,
        })
    }
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.form.name();
        match &self.found {
            Found::Valid(ValidationReport { launches: 0, inapplicable }) => {
                write!(f, "not executed by {name}")?;
                inapplicable.first().map_or(Ok(()), |launch| write!(f, ": {}", launch.error))
            }
            Found::Valid(ValidationReport { launches: n, .. }) => {
                let plural = if *n == 1 { "" } else { "es" };
                write!(f, "executed as proved by {name}: {n} launch{plural} validated")
            }
            Found::Invalid(launch) => write!(f, "not executed as proved by {name}: {launch}"),
            Found::NotProved(n) => {
                let plural = if *n == 1 { "" } else { "s" };
                write!(f, "not validated for {name}: the checks have {n} finding{plural}")
            }
            Found::Unable(error) => write!(f, "not validated for {name}: {error}"),
        }
    }
}

/// Returns the bytes that a validation may use: between processes each rank has all operations.
fn bytes(plan: &PlanTree, form: ExecutorForm) -> u64 {
    let bytes = |op: &Op| size_of::<Op>() + (op.srcs.len() + op.dsts.len() + op.ids.len()) * size_of::<Operand>();
    let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    let all = ops.flat_map(|op| std::iter::once(op).chain(op.body.iter().flat_map(|body| &body.ops)));
    let once = all.map(|op| bytes(op) as u64).sum::<u64>();
    match form {
        ExecutorForm::Processes => once.saturating_mul(plan.ranks.len() as u64),
        ExecutorForm::Devices | ExecutorForm::Kernel => once,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(invalid: ValidationError) -> Executed {
        let launch = "ranks on devices 0 1, devices on nodes 0 0".to_owned();
        Executed { form: ExecutorForm::Devices, found: Found::Invalid(InvalidLaunch { launch, error: invalid }) }
    }

    #[test]
    fn invalid_launch_is_named_and_ends_with_1() {
        let executed = executed(ValidationError::Boundary { boundary: "end" });
        assert_eq!(executed.exit(), exit::FAILURE);
        let text = executed.to_string();
        let begin =
            "not executed as proved by devices: ranks on devices 0 1, devices on nodes 0 0: the plan as executed";
        assert!(text.starts_with(begin), "{text}");
        let json = executed.json();
        assert_eq!((&json["valid"], &json["executor"]), (&false.into(), &"devices".into()));
        assert_eq!(json["invalid"]["launch"], "ranks on devices 0 1, devices on nodes 0 0");
    }

    #[test]
    fn rejected_or_too_large_plan_is_undecided() {
        assert_eq!(executed(ValidationError::TooLarge).exit(), exit::UNAVAILABLE);
        let error = memory::require(|| "a validation of `huge`".into(), u64::MAX).expect_err("no machine has that");
        let executed = Executed { form: ExecutorForm::Processes, found: Found::Unable(error) };
        assert_eq!(executed.exit(), exit::UNAVAILABLE);
        let text = executed.to_string();
        assert!(text.starts_with("not validated for processes: a validation of `huge` needs "), "{text}");
        assert!(executed.json()["impossible"].is_string(), "{}", executed.json());
    }
}
