//! Errors of algorithms and their selection.

use std::io;
use std::path::PathBuf;

use mscclpp_base::Error;
use mscclpp_core::diag::Diagnostics;

use super::constraints::Rejection;
use super::request::Request;
use mscclpp_algorithms::BuildError;

/// Why an algorithm cannot be created from plans.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// There are no plans.
    #[error(
        "`{name}` has no plans; list numbers of ranks in its attribute, or register it with `Algorithm::on_demand`"
    )]
    Empty {
        /// The algorithm.
        name: String,
    },
    /// The plans are of different collectives.
    #[error("`{name}` has plans of {expected} and of {found}, expected plans of one collective")]
    Mixed {
        /// The algorithm.
        name: String,
        /// The first plan's collective.
        expected: &'static str,
        /// Another one's.
        found: &'static str,
    },
    /// The file cannot be read.
    #[error("cannot read plan file `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is longer than any plan.
    #[error("plan file `{}` is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Maximum length that is read, in bytes.
        limit: u64,
    },
    /// The file contains no plan, or an incorrect one.
    #[error("`{}` has no valid plan: {findings}", path.display())]
    NotAPlan {
        /// The file.
        path: PathBuf,
        /// All diagnostics.
        findings: Diagnostics,
    },
}

/// Why an algorithm provides no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The algorithm does not serve the request.
    #[error("`{name}` {rejection}")]
    Rejected {
        /// The algorithm.
        name: String,
        /// Why not.
        rejection: Box<Rejection>,
    },
    /// A built-in algorithm cannot be built with the requested configuration.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The algorithm's program is incorrect for the machine.
    #[error("`{name}` cannot be compiled: {findings}")]
    Program {
        /// The algorithm.
        name: String,
        /// All diagnostics.
        findings: Diagnostics,
    },
    /// Its constraints state that it reduces in the order of ranks, as the request demands, but its plan does not.
    #[error(
        "the plan of `{name}` does not reduce every element in the order of ranks, as its constraints state; set \
         `order_varies_across`"
    )]
    NotInRankOrder {
        /// The algorithm.
        name: String,
    },
    /// It has no plans.
    #[error("`{name}` is a function or a kernel, and has no plans")]
    Native {
        /// The algorithm.
        name: String,
    },
    /// The algorithm's function panicked.
    #[error("the function of `{name}` panicked: {message}; restrict its use with `Algorithm::with_constraints`")]
    Panicked {
        /// The algorithm.
        name: String,
        /// Message of the panic.
        message: String,
    },
}

impl PlanError {
    /// Returns the error of a call of a rank.
    pub fn of_call(&self, rank: u32, request: &Request) -> Error {
        Error::NoPlan { rank, request: request.to_string(), message: self.to_string() }
    }
}

/// A native algorithm failed.
#[derive(Debug, thiserror::Error)]
#[error("`{name}`: {source}")]
pub struct CallError {
    /// The algorithm.
    pub name: String,
    /// Error of its function.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// Why a registry cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two algorithms have the same name.
    #[error("an algorithm `{name}` is already registered; use another name, or remove the registered algorithm first")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A name that messages cannot show.
    #[error("a plan of the name {name:?}: expected 1 to 100 bytes without control characters and backticks")]
    Name {
        /// The name.
        name: String,
    },
    /// No call makes the collective.
    #[error("plan `{name}` is of the collective {collective}, which no call makes")]
    Collective {
        /// The plan.
        name: String,
        /// Its collective.
        collective: &'static str,
    },
}

/// Why no algorithm is selected for a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No algorithm serves the request.
    #[error("no algorithm for {request}{}", listed(rejections))]
    NoAlgorithm {
        /// Description of the request.
        request: String,
        /// Why not, for each of the collective's algorithms.
        rejections: Vec<(String, Rejection)>,
    },
    /// The chosen algorithm cannot be used, and the registry uses no other.
    #[error("the {by} selected `{name}` for {request}, but {reason}")]
    BadChoice {
        /// What chose it: `selector`, `tuning table`, `caller`.
        by: &'static str,
        /// Name of the chosen algorithm.
        name: String,
        /// Description of the request.
        request: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// Only the default rules would decide, and the registry is strict.
    #[error(
        "neither the selector nor the tuning table selected an algorithm for {request}, and the registry is strict"
    )]
    Undecided {
        /// Description of the request.
        request: String,
    },
}

impl SelectError {
    /// Returns the error of a call of a rank; the text of this one names the request.
    pub fn of_call(&self, rank: u32) -> Error {
        Error::Select { rank, message: self.to_string() }
    }
}

fn listed(rejections: &[(String, Rejection)]) -> String {
    if rejections.is_empty() {
        return "; the registry has none for this collective".to_owned();
    }
    rejections.iter().map(|(name, rejection)| format!("\n  `{name}` {rejection}")).collect()
}
