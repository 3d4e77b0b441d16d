//! Files with plans of the user.

use std::path::PathBuf;

/// A plan file that the environment names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFile {
    /// The file.
    pub path: PathBuf,
    /// The algorithm in the registry and its collective, or why the file cannot be used.
    pub outcome: Result<(String, &'static str), String>,
}

impl PlanFile {
    /// Returns the file and why it cannot be used, if it cannot.
    #[doc(hidden)]
    pub fn refusal(&self) -> Option<String> {
        let reason = self.outcome.as_ref().err()?;
        Some(format!("{}: {reason}", self.path.display()))
    }
}
