//! One line of the report.

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Subject of the check.
    pub(super) name: &'static str,
    /// Whether it is sufficient.
    pub(super) state: State,
    /// The finding, with units.
    pub(super) found: String,
    /// How to fix it, if it is not sufficient.
    pub(super) help: Option<String>,
}

/// Whether the subject of a check is sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Sufficient.
    Good,
    /// Sufficient, but not for everything.
    Small,
    /// Absent, but optional.
    Absent,
    /// Absent, and required.
    Missing,
}

impl State {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Small => "small",
            Self::Absent => "absent",
            Self::Missing => "missing",
        }
    }
}

impl Finding {
    /// Returns a sufficient finding.
    pub(super) fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), help: None }
    }

    /// Returns a finding that is insufficient, or not sufficient for everything.
    pub(super) fn bad(name: &'static str, state: State, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, state, found: found.into(), help: Some(help.into()) }
    }
}
