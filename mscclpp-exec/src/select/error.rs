//! What can go wrong with algorithms and their selection.

use std::io;
use std::path::PathBuf;

use mscclpp_core::diag::Diagnostics;
use thiserror::Error;

use super::constraints::Rejection;
use mscclpp_algorithms::BuildError;

/// An algorithm that cannot be made from plans.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No plans.
    #[error(
        "`{name}` has no plans; list numbers of ranks in its attribute, or register it with `Algorithm::on_demand`"
    )]
    Empty {
        /// The algorithm.
        name: String,
    },
    /// Plans of different collectives.
    #[error("`{name}` has plans of {expected} and of {found}, expected plans of one collective")]
    Mixed {
        /// The algorithm.
        name: String,
        /// The first plan's collective.
        expected: &'static str,
        /// Another one's.
        found: &'static str,
    },
    /// A file that cannot be read.
    #[error("cannot read plan file `{}`: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file that is longer than plans are.
    #[error("plan file `{}` is longer than {limit} bytes", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// A file that holds no plan, or a wrong one.
    #[error("`{}` has no valid plan: {findings}", path.display())]
    NotAPlan {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong.
        findings: Diagnostics,
    },
}

/// A plan that an algorithm does not give.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The algorithm does not serve the request.
    #[error("`{name}` {refusal}")]
    Refused {
        /// The algorithm.
        name: String,
        /// Why not.
        refusal: Box<Rejection>,
    },
    /// An algorithm of the library cannot be built as asked.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// An algorithm's program is wrong for the machine.
    #[error("`{name}` cannot be compiled: {findings}")]
    Program {
        /// The algorithm.
        name: String,
        /// Everything that is wrong.
        findings: Diagnostics,
    },
    /// It has no plans.
    #[error("`{name}` is a function or a kernel, and has no plans")]
    Native {
        /// The algorithm.
        name: String,
    },
    /// An algorithm's function panicked.
    #[error("the function of `{name}` panicked: {message}; restrict its use with `Algorithm::with_constraints`")]
    Panicked {
        /// The algorithm.
        name: String,
        /// What it said.
        message: String,
    },
}

/// A native algorithm that failed.
#[derive(Debug, Error)]
#[error("`{name}`: {source}")]
pub struct CallError {
    /// The algorithm.
    pub name: String,
    /// What its function returned.
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A registry that cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two algorithms of one name.
    #[error("an algorithm `{name}` is already registered; use another name, or remove the registered algorithm first")]
    Duplicate {
        /// The name.
        name: String,
    },
}

/// A request for which nothing is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No algorithm serves the request.
    #[error("no algorithm for {request}{}", listed(refusals))]
    NoAlgorithm {
        /// The request, in words.
        request: String,
        /// Why not, for each of the collective's algorithms.
        refusals: Vec<(String, Rejection)>,
    },
    /// An algorithm was chosen that cannot be used, and nothing else shall be.
    #[error("the {by} selected `{name}` for {request}, but {why}")]
    BadChoice {
        /// Who chose it: `selector`, `tuning table`, `caller`.
        by: &'static str,
        /// What was chosen.
        name: String,
        /// The request, in words.
        request: String,
        /// Why it cannot be used.
        why: String,
    },
    /// Nobody but the default selector chose, and the registry is strict.
    #[error(
        "neither the selector nor the tuning table selected an algorithm for {request}, and the registry is strict"
    )]
    Undecided {
        /// The request, in words.
        request: String,
    },
}

fn listed(refusals: &[(String, Rejection)]) -> String {
    if refusals.is_empty() {
        return "; the registry has none for this collective".to_owned();
    }
    refusals.iter().map(|(name, refusal)| format!("\n  `{name}` {refusal}")).collect()
}
