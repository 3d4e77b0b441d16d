//! The end of launches: success, a stall with its report, or an abort by the caller.

use super::PreparedPlan;
use crate::cuda::proxy::{Failure, Proxies};
use crate::cuda::report::stall;
use mscclpp_base::error::{CountOverflow, Error, LaunchAborted};
use mscclpp_cuda::device::stream::Stream;

impl PreparedPlan {
    /// Waits until all work on a stream is complete, and returns whether the launches succeeded.
    ///
    /// # Errors
    /// [`Error::Stalled`] with what every blocked thread block is waiting for, if one waited longer than
    /// [`Options::timeout`]. After that the outputs are unspecified, and the next launch starts from the initial state;
    /// in an executor of several processes no further launch is possible. [`Error::Interrupted`] if another rank is the
    /// reason because it is lost or has aborted. [`Error::CountOverflow`], the same on all ranks, if counts of a launch since the last call
    /// exceeded what it had room for: it moved no data, and later launches are not affected. [`Error::Driver`].
    ///
    /// [`Options::timeout`]: crate::cuda::Options::timeout
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        if self.context.has_aborted() {
            return Err(self.recover(stream));
        }
        // No launch is pending any more that the abort request could refer to.
        if self.world.is_last(stream) {
            self.context.clear_abort();
        }
        // Correct plans have waited for data that goes through port channels.
        self.context.drain(self.world.timeout).map_err(|error| match &self.world.group {
            Some(group) => group.abort(error),
            None => error,
        })?;
        self.take_overflow().map_or(Ok(()), |overflow| Err(Error::CountOverflow(overflow)))
    }

    /// Returns the counts of the first launch in which they exceeded what it had room for, unless they were returned before: that launch
    /// moved no data.
    #[doc(hidden)]
    pub fn take_overflow(&self) -> Option<CountOverflow> {
        self.context.take_overflow()
    }

    /// Aborts pending launches, from another thread; if there are none, the next launch. The request has no effect on
    /// launches that complete before they observe it, and [`synchronize`](Self::synchronize) then clears it.
    #[doc(hidden)]
    pub fn abort(&self) {
        self.context.abort();
    }

    /// Returns whether an abort of the pending launches was requested.
    #[doc(hidden)]
    pub fn is_abort_requested(&self) -> bool {
        self.context.is_abort_requested()
    }

    /// Returns whether a launch aborted.
    #[doc(hidden)]
    pub fn has_aborted(&self) -> bool {
        self.context.has_aborted()
    }

    /// Reads the reports of an aborted launch, and prepares the next launch.
    #[doc(hidden)]
    pub fn recover(&self, stream: &Stream) -> Error {
        let recover = || -> Result<Error, Error> {
            stream.synchronize()?;
            let reports = self.context.reports()?;
            let launch = reports.iter().map(|(_, report)| report.launch).min().unwrap_or(0);
            let absent = self.context.absent(launch)?;
            let mut proxies = self.context.parts.iter().filter_map(|part| part.proxies.as_ref());
            let failure = proxies.find_map(Proxies::failure);
            let group = self.world.group.as_ref();
            let failure = failure.or_else(|| group?.find_cause().map(Failure::Cause)).or_else(|| {
                let requested = self.context.is_abort_requested();
                group.filter(|_| requested).map(|group| Failure::Cause(group.aborted("the program aborted a launch")))
            });
            let stall = || stall(&self.context.program, &self.params, &reports, &absent);
            let error = match (failure, &self.world.group) {
                (Some(Failure::Error(error)), _) => error,
                (Some(Failure::Cause(cause)), Some(group)) => Error::Interrupted(Box::new(LaunchAborted {
                    rank: group.rank,
                    cause: Box::new(cause),
                    stall: stall(),
                })),
                _ => Error::Stalled(Box::new(stall())),
            };
            match &self.world.group {
                // The counters of the other ranks would have to be reset at the same time.
                Some(group) => {
                    let error = group.abort(error);
                    self.context.parts.iter().filter_map(|part| part.proxies.as_ref()).for_each(Proxies::abort);
                    Ok(error)
                }
                None => self.context.reset(&self.world).map(|()| error),
            }
        };
        recover().unwrap_or_else(|error| error)
    }
}
