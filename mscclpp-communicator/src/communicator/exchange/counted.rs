//! Parts of any lengths in one launch of a plan whose sizes are counts.
//!
//! All ranks learn all counts, also where the launch moves nothing because counts exceed what it has room for: so they agree on a larger
//! message, on outputs that are as long as what arrives, or on an error, and launch again.

#[cfg(feature = "cuda")]
use std::panic::Location;
use std::sync::Arc;

use super::super::cache::Cache;
use super::super::handle::Communicator;
use super::{CALL, Output, Parts};
use crate::metrics::CallCounters;
use mscclpp_algorithms as algorithms;
use mscclpp_base::dtype::Element;
use mscclpp_base::error::{CountLimit, CountOverflow, Error};
use mscclpp_base::message::Message;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::process::PreparedPlan;
use mscclpp_select::Request;

/// The algorithm of the ranks of a node, and that of several nodes.
const ALGORITHMS: [&str; 2] = ["alltoallv_pull", "alltoallv_ports"];

/// Maximum bytes of all parts of a launch, each as long as the longest one, whose copies have addresses in every rank.
const MAX_LAUNCH_BYTES: u64 = 512 << 20;

/// Plans whose sizes are counts, by type and message.
pub(in crate::communicator) struct CountedPlans {
    prepared: Cache<(Box<PreparedPlan>, Arc<CallCounters>)>,
    /// Bytes of the longest part that they have room for: a power of two, the same on all ranks.
    part: u64,
}

impl Default for CountedPlans {
    fn default() -> Self {
        Self { prepared: Cache::default(), part: 1 << 12 }
    }
}

impl CountedPlans {
    /// Drops what was prepared.
    pub(in crate::communicator) fn clear(&mut self) {
        drop(self.prepared.clear());
    }
}

impl Communicator {
    /// Exchanges counts and data in a launch of a plan whose sizes are counts; `None`, on all ranks, if a part is too long for that.
    #[track_caller]
    pub(super) fn exchange_in_launch<T: Element>(
        &self,
        Parts { input, counts, expected }: Parts<'_, T>,
        output: &mut Output<'_, T>,
    ) -> Result<Option<Vec<usize>>, Error> {
        let (rank, ranks, size) = (self.rank(), self.num_ranks(), size_of::<T>() as u64);
        // As many as there are elements in memory.
        let row = |counts: &[usize]| counts.iter().map(|&count| count as i64).collect::<Vec<_>>();
        let (row, expected) = (row(counts), expected.map(row));
        let mut calls = self.calls()?;
        let request = self.counted_request::<T>(calls.counted.part);
        #[cfg(feature = "cuda")]
        let place = Location::caller();
        self.record(&mut calls, Some(request), |calls| {
            #[cfg(feature = "cuda")]
            calls.devices.post_of_host(Some(&request), place)?;
            if let Output::Growing(_) = output {
                // What a rank receives is often as long as what it sends.
                output.resize(input.len());
            }
            let mut is_resized = false;
            loop {
                let (plan, counters) = self.counted_plan::<T>(&mut calls.counted)?;
                let started = counters.start();
                let result = plan.launch_expecting(input, output.elements(), &row, expected.as_deref());
                let received = || (0..ranks).map(|peer| plan.count(peer, rank) as usize).collect::<Vec<_>>();
                let overflow = match result {
                    Ok(()) => {
                        counters.record(size * input.len() as u64, started, plan.last_duration());
                        let received = received();
                        output.resize(received.iter().sum());
                        return Ok(Some(received));
                    }
                    Err(Error::CountOverflow(overflow)) => overflow,
                    Err(error) => return Err(error),
                };
                let CountOverflow { rank, limit, demand, room, peer, .. } = overflow;
                match limit {
                    CountLimit::Entry => {
                        let entries = (0..ranks).flat_map(|sender| (0..ranks).map(move |receiver| (sender, receiver)));
                        let longest = entries.map(|(sender, receiver)| plan.count(sender, receiver)).max().unwrap_or(0);
                        let part = (longest as u64).saturating_mul(size).checked_next_power_of_two();
                        match part.filter(|part| *part <= MAX_LAUNCH_BYTES / u64::from(ranks)) {
                            Some(part) => calls.counted.part = part,
                            None => return Ok(None),
                        }
                    }
                    CountLimit::Expected => {
                        let [sent, expected] = [demand as u64, room].map(|count| count.saturating_mul(size));
                        return Err(Error::PartLength { call: CALL, rank, peer, sent, expected });
                    }
                    // Whether another rank's output grows is not known here, so all ranks launch again.
                    CountLimit::Output if !is_resized => {
                        // A rank without memory keeps an output that is too short.
                        output.resize(received().iter().fold(0, |sum, count| sum.saturating_add(*count)));
                        is_resized = true;
                    }
                    CountLimit::Output if matches!(output, Output::Growing(_)) => {
                        let (count, bytes) = (demand as u64, size_of::<T>());
                        return Err(Error::ReceiveMemory { call: CALL, rank, count, bytes });
                    }
                    _ => return Err(Error::CountOverflow(overflow)),
                }
            }
        })
    }

    /// Returns the request of launches with parts of up to `part` bytes.
    fn counted_request<T: Element>(&self, part: u64) -> Request {
        let count = u64::from(self.num_ranks()) * (part / size_of::<T>() as u64);
        self.request::<T>(CollectiveKind::AllToAllV, usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Returns the plan for parts of up to the current length, which the first call prepares.
    #[track_caller]
    fn counted_plan<'c, T: Element>(
        &self,
        plans: &'c mut CountedPlans,
    ) -> Result<&'c mut (Box<PreparedPlan>, Arc<CallCounters>), Error> {
        let request = self.counted_request::<T>(plans.part);
        let prepare = || {
            self.registry()?;
            let no_plan = |message| Error::NoPlan { rank: self.rank(), request: self.describe(&request), message };
            let name = ALGORITHMS[usize::from(request.num_nodes() > 1)];
            let algorithm = algorithms::find(name).ok_or_else(|| no_plan("no algorithm".into()))?;
            let plan = algorithm.plan(algorithm.spec(request.num_ranks, request.ranks_per_node), &[]);
            let plan = plan.map_err(|error| no_plan(error.to_string()))?;
            let name = format!("{CALL} of {}", self.element_type(T::TYPE));
            let message = Message::of::<T>((request.bytes / size_of::<T>() as u64) as usize);
            let plan = self.executor()?.prepare_as(&plan, message, Some((&name, request.element_type())))?;
            Ok::<_, Error>((Box::new(plan), self.inner.observed.counters.of_calls(CALL, algorithm.name())))
        };
        plans.prepared.get(&(0, request), prepare, drop)
    }
}
