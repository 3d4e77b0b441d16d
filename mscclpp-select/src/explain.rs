//! Explains the decision for a request.

use std::fmt;

use super::choice::Config;
use super::constraints::Rejection;
use super::decided_by::DecidedBy;
use super::error::SelectError;
use super::prediction::DescribedMachine;
use super::request::Request;
use mscclpp_base::kernel_tier::KernelTier;

/// A registry's decision for a request, with every algorithm of the collective. Its text has a line for each.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// The collective's algorithms, in the order of the registry.
    pub candidates: Vec<CandidateOutcome>,
    /// The machine description for the request, if there is one.
    pub machine: Option<DescribedMachine>,
    /// Plan files that the environment names and that cannot be used, each with the reason.
    pub refused: Vec<String>,
    /// The kernel that launches the selected algorithm's plan on devices of one node, at best; `None` for all others.
    pub kernel: Option<KernelTier>,
    /// Why no algorithm is selected, if none is.
    pub error: Option<SelectError>,
}

/// An algorithm and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CandidateOutcome {
    /// Its name.
    pub name: String,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Selected, eligible or rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves the request.
    Selected {
        /// Its configuration.
        config: Config,
        /// What selected it, and why.
        decided_by: DecidedBy,
    },
    /// It is eligible, but another one was selected.
    Eligible,
    /// It cannot serve the request.
    Rejected(Rejection),
}

impl Explanation {
    /// Returns the name of the selected algorithm.
    pub fn selected(&self) -> Option<&str> {
        let is_selected = |verdict: &&CandidateOutcome| matches!(verdict.outcome, Outcome::Selected { .. });
        self.candidates.iter().find(is_selected).map(|verdict| verdict.name.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected { config, decided_by } if *config == Config::default() => {
                write!(f, "selected: {decided_by}")
            }
            Self::Selected { config, decided_by } => write!(f, "selected with {config}: {decided_by}"),
            Self::Eligible => f.write_str("eligible"),
            Self::Rejected(rejection) => write!(f, "not eligible: {rejection}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.request)?;
        let width = self.candidates.iter().map(|verdict| verdict.name.len()).max().unwrap_or(0);
        for CandidateOutcome { name, outcome } in &self.candidates {
            writeln!(f, "  {name:width$}  {outcome}")?;
        }
        self.machine.iter().try_for_each(|machine| writeln!(f, "  {machine}"))?;
        if let Some(kernel) = self.kernel {
            writeln!(f, "  launched by: {}", kernel.describe())?;
        }
        self.refused.iter().try_for_each(|reason| writeln!(f, "  not loaded: {reason}"))?;
        match &self.error {
            Some(SelectError::NoAlgorithm { .. }) if !self.candidates.is_empty() => {
                writeln!(f, "  no algorithm is eligible")
            }
            Some(error) => writeln!(f, "  {error}"),
            None => Ok(()),
        }
    }
}
