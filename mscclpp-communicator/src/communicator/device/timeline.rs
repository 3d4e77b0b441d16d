//! Timelines of calls on device memory: of the first launches of each prepared plan.

use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_base::error::Error;
use mscclpp_exec::cuda::PreparedPlan;
use mscclpp_exec::process::TimelineFile;

/// Number of launches of a plan that are recorded; a recorded launch takes longer than others.
const LAUNCHES: u32 = 16;

/// What records the launches of a prepared plan.
pub(super) struct Recording {
    file: Arc<Mutex<TimelineFile>>,
    /// Number of launches until it ends.
    left: u32,
}

impl Recording {
    /// Begins to record a plan. A failure is a warning: it does not change what the program computes.
    pub(super) fn start(plan: &mut PreparedPlan, file: &Arc<Mutex<TimelineFile>>) -> Option<Self> {
        match plan.start_timeline(LAUNCHES.into()) {
            Ok(()) => Some(Self { file: Arc::clone(file), left: LAUNCHES }),
            Err(error) => {
                log::warn!("no timeline of a plan: {error}");
                None
            }
        }
    }

    /// Counts a launch that is not captured. Returns whether there is room for no more, so that it can be [written](Self::write).
    pub(super) fn is_full(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Waits for the launches, and writes what they have done.
    pub(super) fn write(self, plan: &mut PreparedPlan) -> Result<(), Error> {
        let timeline = plan.take_timeline()?;
        self.file.lock().unwrap_or_else(PoisonError::into_inner).add(&timeline);
        Ok(())
    }
}
