//! Conditions of the proof for every number of iterations (`race::every`), which tests leave out one by one.

#[cfg(test)]
use std::cell::Cell;

#[cfg(test)]
thread_local! {
    /// The condition that does not apply.
    pub(crate) static WITHOUT: Cell<Option<Condition>> = const { Cell::new(None) };
}

/// A condition of the proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Transfers of clocks are causal.
    Causal,
    /// The signals of the other threads of a counter count in all iterations.
    Others,
    /// Barriers are even.
    Barriers,
    /// Equal ranges are equal windows.
    Mapping,
    /// Skewed windows overlap in other iterations.
    Skewed,
    /// Two iterations are executed.
    Twice,
}

/// Returns whether a condition applies: always, except where a test shows that it is needed.
#[cfg(not(test))]
pub(crate) const fn applies(_: Condition) -> bool {
    true
}

#[cfg(test)]
pub(crate) fn applies(condition: Condition) -> bool {
    WITHOUT.get() != Some(condition)
}
