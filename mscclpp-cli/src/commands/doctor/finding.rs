//! One line of what was found.

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// What was looked at.
    pub(super) name: &'static str,
    /// Whether it will do.
    pub(super) state: State,
    /// What was found, with units.
    pub(super) found: String,
    /// How to mend it, if it will not do.
    pub(super) help: Option<String>,
}

/// Whether something will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It will.
    Good,
    /// It will, but not for everything.
    Small,
    /// It is not there, and not everybody needs it.
    Absent,
    /// It is not there, and nothing goes without it.
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
    /// Something that will do.
    pub(super) fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, state: State::Good, found: found.into(), help: None }
    }

    /// Something that will not do, or not for everything.
    pub(super) fn bad(name: &'static str, state: State, found: impl Into<String>, help: impl Into<String>) -> Self {
        Self { name, state, found: found.into(), help: Some(help.into()) }
    }
}
