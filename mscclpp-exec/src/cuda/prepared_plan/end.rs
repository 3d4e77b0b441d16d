//! How launches end: well, with reports of what waited in vain, or because somebody wants that.

use super::PreparedPlan;
use crate::cuda::proxy::{Failure, Proxies};
use crate::cuda::report::stall;
use crate::cuda::stream::Stream;
use crate::error::{Error, LaunchAborted};

impl PreparedPlan {
    /// Waits until everything on a stream is done, and says whether the launches went well.
    ///
    /// # Errors
    /// [`Error::Stalled`] with what every waiting thread block waits for, if one waited longer than [`Options::timeout`]. After
    /// that outputs hold anything, and the next launch begins afresh; in a world of several processes there can be none.
    /// [`Error::LaunchAborted`] if another rank is the reason, who is gone or has given up. [`Error::Driver`].
    ///
    /// [`Options::timeout`]: crate::cuda::Options::timeout
    pub fn synchronize(&self, stream: &Stream) -> Result<(), Error> {
        stream.synchronize()?;
        if self.context.has_given_up() {
            return Err(self.recover(stream));
        }
        // Nothing is under way any more that might be asked to give up.
        if self.world.is_last(stream) {
            self.context.forget_abort();
        }
        // Plans that are right have waited for what goes through port channels.
        self.context.settle(self.world.options.timeout).inspect_err(|error| {
            if let Some(group) = &self.world.group {
                group.give_up(error);
            }
        })
    }

    /// Makes launches under way give up, from another thread; if there are none, the next one. Of launches that were done before
    /// they heard of it nothing is left after [`synchronize`](Self::synchronize).
    pub fn abort(&self) {
        self.context.abort();
    }

    /// Takes the reports of a launch that gave up, and makes ready for the next one.
    pub(super) fn recover(&self, stream: &Stream) -> Error {
        let recover = || -> Result<Error, Error> {
            stream.synchronize()?;
            let reports = self.context.reports()?;
            let launch = reports.iter().map(|(_, report)| report.launch).min().unwrap_or(0);
            let absent = self.context.absent(launch)?;
            let mut proxies = self.context.parts.iter().filter_map(|part| part.proxies.as_ref());
            let failure = proxies.find_map(Proxies::failure);
            let failure = failure.or_else(|| self.world.group.as_ref()?.find_cause().map(Failure::Cause));
            let stall = || stall(&self.context.program, &self.params, &reports, &absent);
            let error = match (failure, &self.world.group) {
                (Some(Failure::Error(error)), _) => error,
                (Some(Failure::Cause(cause)), Some(group)) => {
                    Error::Interrupted(Box::new(LaunchAborted { rank: group.rank, cause, stall: stall() }))
                }
                _ => Error::Stalled(Box::new(stall())),
            };
            match &self.world.group {
                // The other ranks' counters would have to be reset at the same time.
                Some(group) => {
                    group.give_up(&error);
                    self.context.parts.iter().filter_map(|part| part.proxies.as_ref()).for_each(Proxies::abort);
                }
                None => self.context.reset()?,
            }
            Ok(error)
        };
        recover().unwrap_or_else(|error| error)
    }
}
