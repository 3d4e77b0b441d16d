//! Errors of machine descriptions.

use std::path::PathBuf;

use thiserror::Error;

/// Why a machine description cannot be used.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A name that no built-in machine has.
    #[error("unknown machine `{name}`; a path to a machine file contains `/` or ends with `.toml`")]
    Unknown {
        /// The name.
        name: String,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A text that is not a machine description in TOML.
    #[error("invalid machine description: {0}")]
    Syntax(String),
    /// A value that a machine cannot have.
    #[error("invalid machine description: {field}: {reason}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
}
