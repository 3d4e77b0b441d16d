//! What the ranks of a communicator are doing.

use std::time::Duration;

use mscclpp_bootstrap::Presence;

use super::Communicator;
use crate::metrics::Metrics;
use crate::status::{CommunicatorStatus, Member, assemble};
use mscclpp_base::error::Error;
use mscclpp_bootstrap::call_report::CallReport;

/// How long ranks may take to report.
const REPORT_TIME: Duration = Duration::from_millis(500);

impl Communicator {
    /// Returns what all ranks are doing: in which calls they are, for how long, and for which ranks they wait. Not a call of all
    /// ranks, and any thread may make it at any time, also while this rank is in a call. `mscclpp status` shows the same of a
    /// job that runs.
    ///
    /// ```
    /// # use mscclpp_communicator::Communicator;
    /// # use mscclpp_exec::Error;
    /// # fn main() -> Result<(), Error> {
    /// let comm = Communicator::local(1)?.remove(0);
    /// comm.barrier()?;
    /// let status = comm.status()?;
    /// assert!(!status.verdict.is_problem(), "{}", status.verdict);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Why the communicator has failed.
    pub fn status(&self) -> Result<CommunicatorStatus, Error> {
        let bootstrap = &self.inner.bootstrap;
        let reports = bootstrap.reports(REPORT_TIME)?;
        let infos: Vec<_> = (0..self.num_ranks()).map(|rank| bootstrap.rank_info(rank)).collect::<Result<_, _>>()?;
        let mut members = Vec::new();
        for ((rank, info), report) in (0..).zip(infos).zip(reports) {
            let presence = if bootstrap.has_left(rank)? { Presence::Left } else { Presence::Joined(REPORT_TIME) };
            // A rank that has not connected its executor yet has nothing to report.
            let report = report.map(|bytes| postcard::from_bytes::<CallReport>(&bytes).unwrap_or_default());
            members.push(Member { info, presence, report });
        }
        Ok(assemble(bootstrap.number(), members, &[], None))
    }

    /// Returns the metrics of this rank's calls through this communicator. Any thread may call it at any time.
    pub fn metrics(&self) -> Metrics {
        self.inner.observed.metrics()
    }
}
