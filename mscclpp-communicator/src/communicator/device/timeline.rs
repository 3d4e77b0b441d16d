//! The timeline of the calls on device memory of a rank.

use mscclpp_exec::cuda::{Device, PreparedPlan, Recorder};
use mscclpp_exec::process::TimelineFile;

use crate::communicator::Communicator;
use crate::communicator::timeline::file;

/// Bytes for what launches record until all launches are complete: 400 000 operations. The communicator of two ranks that exchange
/// transfers has less.
const BYTES: u64 = 16 << 20;
const BYTES_OF_PAIR: u64 = 1 << 20;

/// What records launches, and the file to which it is written when no launch is pending.
pub(super) struct Timelines {
    recorder: Recorder,
    file: TimelineFile,
    /// The rank and the path of the file, for messages.
    label: String,
}

impl Timelines {
    /// Creates what records launches, if the environment names a folder. A failure is a warning: it does not change what the program
    /// computes.
    pub(super) fn new(communicator: &Communicator, device: &Device) -> Option<Self> {
        let rank = &communicator.inner.observed.rank;
        let (path, name) = file(rank, "device")?;
        let label = format!("the timeline of rank {} in {}", rank.rank, path.display());
        let bytes = if communicator.inner.is_pair { BYTES_OF_PAIR } else { BYTES };
        let recorder = Recorder::new(device, bytes);
        let recorder = recorder.inspect_err(|error| log::warn!("{label} cannot be recorded: {error}")).ok()?;
        let file = TimelineFile::new(&path, rank.rank, name);
        Some(Self { recorder, file, label })
    }

    /// Records the launches of a prepared plan that are not captured. A failure is a warning.
    pub(super) fn record(&self, plan: &mut PreparedPlan) {
        if let Err(error) = plan.record(std::slice::from_ref(&self.recorder)) {
            log::warn!("{} is without the launches of {plan:?}: {error}", self.label);
        }
    }

    /// Returns whether a launch was recorded that is not written.
    pub(super) fn is_used(&self) -> bool {
        self.recorder.is_used()
    }

    /// Writes what launches have recorded. No launch is pending.
    pub(super) fn write(&mut self) {
        let (timelines, skipped) = self.recorder.take();
        timelines.iter().for_each(|timeline| self.file.add(timeline));
        let dropped: u64 = timelines.iter().map(|timeline| timeline.dropped).sum();
        if skipped + dropped > 0 {
            log::warn!(
                "{} is without {skipped} launches and {dropped} operations, for which there was no room: \
                 it is written when no launch is pending, so wait for calls more often",
                self.label
            );
        }
    }
}
