//! Why a request is decided as it is.

use std::fmt;

use super::choice::Config;
use super::constraints::Refusal;
use super::error::SelectError;
use super::registry::Why;
use super::request::Request;

/// What a registry decides for a request, with every algorithm of the collective. Its text is a line for each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The request.
    pub request: Request,
    /// The collective's algorithms, in the order of the registry.
    pub verdicts: Vec<Verdict>,
    /// Why nothing is chosen, if nothing is.
    pub error: Option<SelectError>,
}

/// What becomes of an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub outcome: Outcome,
}

/// Chosen, possible or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It serves the request.
    Chosen {
        /// How it is built.
        config: Config,
        /// Who chose it, and why.
        why: Why,
    },
    /// It could, but another one was chosen.
    Possible,
    /// It cannot.
    Refused(Refusal),
}

impl Explanation {
    /// The name of the algorithm that is chosen.
    pub fn chosen(&self) -> Option<&str> {
        let chosen = |verdict: &&Verdict| matches!(verdict.outcome, Outcome::Chosen { .. });
        self.verdicts.iter().find(chosen).map(|verdict| verdict.name.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen { config, why } if *config == Config::default() => write!(f, "chosen: {why}"),
            Self::Chosen { config, why } => write!(f, "chosen with {config}: {why}"),
            Self::Possible => f.write_str("possible"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.request)?;
        let width = self.verdicts.iter().map(|verdict| verdict.name.len()).max().unwrap_or(0);
        for Verdict { name, outcome } in &self.verdicts {
            writeln!(f, "  {name:width$}  {outcome}")?;
        }
        match &self.error {
            Some(SelectError::NoAlgorithm { .. }) if !self.verdicts.is_empty() => {
                writeln!(f, "  no algorithm serves the request")
            }
            Some(error) => writeln!(f, "  {error}"),
            None => Ok(()),
        }
    }
}
