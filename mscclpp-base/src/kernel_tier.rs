//! Which kernel launches a plan on devices.

use std::fmt;

/// The kernel that launches a plan; all have the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum KernelTier {
    /// The interpreter, which decodes the plan.
    #[default]
    Interpreter,
    /// A kernel of the plan that was compiled at run time.
    JustInTime,
    /// A kernel of the plan that was compiled when the library was made.
    AheadOfTime,
}

impl KernelTier {
    /// All tiers.
    #[doc(hidden)]
    pub const ALL: [Self; 3] = [Self::Interpreter, Self::JustInTime, Self::AheadOfTime];

    /// Returns whether it is a kernel of the plan.
    pub fn is_specialized(self) -> bool {
        self != Self::Interpreter
    }

    /// Describes the kernel for messages.
    #[doc(hidden)]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Interpreter => "the interpreter",
            Self::JustInTime => "a kernel of the plan, compiled at run time",
            Self::AheadOfTime => "a kernel of the plan, compiled ahead of time",
        }
    }

    /// Returns the name: `interpreter`, `just-in-time` or `ahead-of-time`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interpreter => "interpreter",
            Self::JustInTime => "just-in-time",
            Self::AheadOfTime => "ahead-of-time",
        }
    }
}

impl fmt::Display for KernelTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
