//! Calls that fail by fault injection.

use super::{Code, Result, SimulatedHost, error};

impl SimulatedHost {
    /// Counts a call, and fails if it is the one that is to fail, or if it invalidates a capture.
    pub(crate) fn count_call(&self, call: &'static str) -> Result<()> {
        if Self::is_unsafe(call) {
            self.check_unsafe(call)?;
        }
        if let Some(counts) = self.options.calls {
            counts.count(call);
        }
        let Some((name, nth)) = self.options.failing else { return Ok(()) };
        let mut state = self.state();
        if state.dead {
            return error(call, Code::IllegalAddress, "made to fail, as all calls after the first that was");
        }
        if name != call {
            return Ok(());
        }
        state.calls += 1;
        if state.calls != nth {
            return Ok(());
        }
        state.dead = self.options.sticky;
        error(call, if state.dead { Code::IllegalAddress } else { Code::Unknown }, "made to fail")
    }
}
