//! Why a request is decided as it is.

use std::fmt;

use super::choice::Config;
use super::constraints::Rejection;
use super::error::SelectError;
use super::registry::DecidedBy;
use super::request::Request;

/// What a registry decides for a request, with every algorithm of the collective. Its text is a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// The collective's algorithms, in the order of the registry.
    pub candidates: Vec<CandidateOutcome>,
    /// Why nothing is chosen, if nothing is.
    pub error: Option<SelectError>,
}

/// What becomes of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CandidateOutcome {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Chosen, possible or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves the request.
    Selected {
        /// How it is built.
        config: Config,
        /// Who chose it, and why.
        why: DecidedBy,
    },
    /// It could, but another one was chosen.
    Eligible,
    /// It cannot.
    Rejected(Rejection),
}

impl Explanation {
    /// The name of the algorithm that is chosen.
    pub fn chosen(&self) -> Option<&str> {
        let chosen = |verdict: &&CandidateOutcome| matches!(verdict.outcome, Outcome::Selected { .. });
        self.candidates.iter().find(chosen).map(|verdict| verdict.name.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected { config, why } if *config == Config::default() => write!(f, "selected: {why}"),
            Self::Selected { config, why } => write!(f, "selected with {config}: {why}"),
            Self::Eligible => f.write_str("eligible"),
            Self::Rejected(refusal) => write!(f, "not eligible: {refusal}"),
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
        match &self.error {
            Some(SelectError::NoAlgorithm { .. }) if !self.candidates.is_empty() => {
                writeln!(f, "  no algorithm is eligible")
            }
            Some(error) => writeln!(f, "  {error}"),
            None => Ok(()),
        }
    }
}
