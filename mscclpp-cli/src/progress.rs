//! Progress on standard error, shown on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// A progress bar over `steps` steps. Draws nothing unless standard error is a terminal; disappears when dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a bar at 0.
    pub(crate) fn new(steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{elapsed:>5} [{bar:32}] {pos}/{len} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar }
    }

    /// Creates a spinner for work of unknown length.
    pub(crate) fn spinner(what: &str) -> Self {
        let bar = ProgressBar::new_spinner().with_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { bar }
    }

    /// Shows the current work.
    pub(crate) fn doing(&self, what: String) {
        self.bar.set_message(what);
    }

    /// Advances by one step.
    pub(crate) fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints while the bar is hidden.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
