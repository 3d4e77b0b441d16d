//! All-to-all-v with counts on the device, which the ranks exchange in the launch: no rank waits on the host.

use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::place::enter_call;
use mscclpp_core::collective::CollectiveKind;

use super::OnStream;
use super::connection::Connection;
use super::launch::{DeviceCall, Entry, Memory};
use super::posted::Kind;
use super::transfers::settle;
use mscclpp_algorithms as algorithms;
use mscclpp_base::dtype::{DataType, Element};
use mscclpp_base::error::Error;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{DeviceMut, DeviceRef, LentCounts, LentParams, PreparedPlan};
use mscclpp_select::{Algorithm, DecidedBy, Request};

/// The algorithm of calls on any memory: other ranks access scratch only.
const STAGED: &str = "alltoallv_staged";

/// That on registered memory of a node: other ranks write to outputs.
const DIRECT: &str = "alltoallv_direct";

impl OnStream<'_> {
    /// Sends to each rank its part of `input`: the first `sent[0]` elements to rank 0, the next `sent[1]` to rank 1 and so on; writes what
    /// the ranks send here to `output`, one part after the other, and the lengths of these parts to `received`. The counts, `i64` or `i32`,
    /// are on the device and may be results of work that was enqueued on the stream before. Input and output may be longer than needed, and
    /// of another length on every rank; `received` may be empty. In a `received` of two numbers for each rank, the first elements of the parts
    /// in `output` follow their lengths.
    ///
    /// `max_count`: the maximum of a count, the same on all ranks.
    ///
    /// # Ordering
    /// As for all calls; no rank waits for the stream. A captured call takes the counts that are in memory at each launch of the graph.
    ///
    /// # Cost
    /// The first call with a type and maximum prepares a plan whose scratch has room for that many elements of each rank. Elements are
    /// copied twice, to scratch of their receiver and to its output; where input and output of all ranks are registered memory, all at
    /// the same place, and on one node, once, and without scratch.
    ///
    /// # Errors
    /// [`Error::Length`] unless there is a count for each rank, and a maximum; [`Error::ElementType`] for counts of another type. A count
    /// that is negative or exceeds the maximum, and counts that add up to more elements than an input or output has, are [`Error::CountOverflow`] of the next
    /// [`synchronize`](Self::synchronize) or [`Communicator::check`](crate::Communicator::check), the same on all ranks: no data was
    /// moved, and the communicator remains usable.
    #[track_caller]
    pub fn all_to_all_v_counted<T: Element, C: Element>(
        &self,
        input: &impl DeviceRef<T>,
        sent: &impl DeviceRef<C>,
        output: &mut impl DeviceMut<T>,
        received: &mut impl DeviceMut<C>,
        max_count: usize,
    ) -> Result<(), Error> {
        self.all_to_all_rows::<T, C>(input, sent, output, received, max_count, 1)
    }

    /// Does what [`all_to_all_v_counted`](Self::all_to_all_v_counted) does with counts of rows, which have `row` elements.
    ///
    /// # Errors
    /// Those of `all_to_all_v_counted`, in elements.
    #[track_caller]
    #[doc(hidden)]
    pub fn all_to_all_rows<T: Element, C: Element>(
        &self,
        input: &impl DeviceRef<T>,
        sent: &impl DeviceRef<C>,
        output: &mut impl DeviceMut<T>,
        received: &mut impl DeviceMut<C>,
        max_count: usize,
        row: usize,
    ) -> Result<(), Error> {
        const CALL: &str = "all_to_all_v_counted";
        let (communicator, stream) = (self.communicator, self.stream);
        let (rank, ranks) = (communicator.rank(), communicator.num_ranks() as usize);
        let (input, output) = (input.lend(stream)?, output.lend_mut(stream)?);
        let (sent, received) = (sent.lend(stream)?, received.lend_mut(stream)?);
        if !matches!(C::TYPE, DataType::I32 | DataType::I64) {
            return Err(Error::ElementType { expected: DataType::I64, found: C::TYPE });
        }
        let length = |what, expected, found| Error::Length { call: CALL, rank, what, expected, found };
        let counts = "the list of counts";
        match (sent.len::<C>(), received.len::<C>()) {
            (of_sent, of_received) if of_sent == ranks && [0, ranks, 2 * ranks].contains(&of_received) => {}
            (found, of_received) if found == ranks => {
                return Err(length(counts, format!("{ranks}, one per rank, or twice as many"), of_received));
            }
            (found, _) => return Err(length(counts, format!("{ranks}, one per rank"), found)),
        }
        let count = max_count.checked_mul(row).and_then(|count| count.checked_mul(ranks)).filter(|count| *count > 0);
        let wrong = || length("the maximum count", "at least 1, within the address space".into(), max_count);
        let request = communicator.request::<T>(CollectiveKind::AllToAllV, count.ok_or_else(wrong)?);
        let counts = LentCounts { sent: &sent, received: &received, dtype: C::TYPE, unit: row as u64 };
        settle(communicator, stream);
        let (mut calls, place) = (communicator.calls()?, Location::caller());
        communicator.record(&mut calls, Some(request), |calls| {
            // The first call connects the ranks.
            let is_first = calls.devices.connection.is_none();
            let _part = is_first.then(|| enter_call(1, || communicator.describe(&request)));
            let (connection, call) = self.begin(calls, place)?;
            connection.serve_counted(&call, request, Memory { input: Some(&input), output: &output }, counts)
        })
    }
}

impl Connection {
    /// Serves a call with counts on the device. A failure of the driver fails the communicator: the other ranks wait for the launch.
    fn serve_counted(
        &mut self,
        call: &DeviceCall<'_>,
        request: Request,
        memory: Memory<'_>,
        counts: LentCounts<'_>,
    ) -> Result<(), Error> {
        self.last = None;
        self.check(call.stream)?;
        let request = self.on_device(request);
        let positions = [memory.input, Some(memory.output)].map(|lent| lent.and_then(|lent| self.position(lent)));
        let registered = positions.iter().all(Option::is_some) && request.num_nodes() == 1 && request.num_ranks > 1;
        let (positions, request) = (if registered { positions } else { [None; 2] }, Request { registered, ..request });
        self.post(Kind::Collective(request, positions, call.forced.variant(&request)), call)?;
        let served = match memory.input.filter(|_| registered) {
            Some(input) => self.launch_counted_bound(call, request, positions, (input, memory.output), counts),
            None => self.launch_with(call, request, None, memory, LentParams::Counts(counts)),
        };
        served.map_err(|error| match error {
            Error::Driver(_) | Error::Capturing { .. } if !call.is_captured => self.fail(error),
            other => other,
        })
    }

    /// Returns the counts of a launch in which they exceeded what it had room for, as an error.
    pub(super) fn check_counts(&self) -> Result<(), Error> {
        let mut plans = self.cache.prepared().chain(&self.retired).filter_map(Entry::plan);
        plans.find_map(PreparedPlan::take_overflow).map_or(Ok(()), |overflow| Err(Error::CountOverflow(overflow)))
    }
}

/// Returns the algorithm of calls with counts on the device, and its plan.
pub(super) fn decide(rank: u32, request: &Request) -> Result<(Arc<Algorithm>, DecidedBy, Plan), Error> {
    let no_plan = |message| Error::NoPlan { rank, request: request.to_string(), message };
    let name = if request.registered { DIRECT } else { STAGED };
    let algorithm = algorithms::find(name).ok_or_else(|| no_plan("no algorithm".into()))?;
    let spec = algorithm.spec(request.num_ranks, request.ranks_per_node);
    let plan = match request.registered {
        true => algorithms::alltoallv_direct::compile(spec),
        // A single rank as well, for which there is no other algorithm.
        false => algorithms::alltoallv_staged::compile(spec),
    };
    let plan = plan.map_err(|error| no_plan(error.to_string()))?;
    Ok((Arc::new(Algorithm::builtin(algorithm)), DecidedBy::Rule("the counts are on the device"), plan))
}
