//! Errors of machine descriptions.

use thiserror::Error;

/// Why a machine description cannot be used.
#[derive(Debug, Error)]
pub enum MachineError {
    /// A name that no built-in machine has.
    #[error("unknown machine `{name}`")]
    Unknown {
        /// The name.
        name: String,
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

/// Returns the error about a field.
pub(super) fn invalid(field: impl Into<String>, reason: impl Into<String>) -> MachineError {
    MachineError::Invalid { field: field.into(), reason: reason.into() }
}
