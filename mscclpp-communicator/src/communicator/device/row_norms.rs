//! Sums over all ranks, and rows of all ranks, that are normalized in the same launch, on device memory.

use std::panic::Location;
use std::sync::Arc;

use mscclpp_bootstrap::place::enter_call;
use mscclpp_core::collective::CollectiveKind;

use super::OnStream;
use super::connection::Connection;
use super::launch::{DeviceCall, Memory};
use super::posted::Kind;
use super::transfers::settle;
use crate::communicator::forced::Variant;
use crate::communicator::row_norms::{Choice, Lengths, call_of, choose, no_plan_between_nodes, variant as of_rows};
use mscclpp_base::dtype::Element;
use mscclpp_base::error::Error;
use mscclpp_base::interpret::RowForm;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{DeviceMut, DeviceRef, DeviceRowNorm, Lent, LentParams, LentRows};
use mscclpp_select::{Algorithm, DecidedBy, Request};

/// Returns the variant of requests whose rows, of `hidden` elements, are normalized. Choices of algorithms have smaller numbers.
pub(super) fn variant(call: &DeviceCall<'_>, hidden: u32) -> Variant {
    1 << 31 | u64::from(of_rows(hidden, call.communicator.row_accumulator))
}

/// Maximum number of thread blocks among which the rows of a short message are divided.
const MAX_GROUP: u32 = 16;

impl OnStream<'_> {
    /// Adds the inputs of all ranks and the residual, row by row, and writes the normalized rows to `output`, which is as long as `input`. A
    /// row has `hidden` elements; its bytes are a multiple of 16. `norm` has the residual, gamma, and what else is written.
    ///
    /// A row gets the bits that [`Communicator::all_reduce_rms_norm`](crate::Communicator::all_reduce_rms_norm) gives it, in every call, and
    /// at any number of rows. All ranks of the communicator are on one node.
    ///
    /// # Ordering
    /// As for all calls; it can be captured.
    ///
    /// # Errors
    /// See [`OnStream`]; [`Error::Length`]; [`Error::Rows`].
    #[track_caller]
    pub fn all_reduce_rms_norm<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        self.norm_rows(CollectiveKind::AllReduce, Memory { input: Some(&input), output: &output }, hidden, norm)
    }

    /// [`all_reduce_rms_norm`](Self::all_reduce_rms_norm) with one memory for input and output.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_reduce_rms_norm_in_place<T: Element>(
        &self,
        buffer: &mut impl DeviceMut<T>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let buffer = buffer.lend_mut(self.stream)?;
        self.norm_rows(CollectiveKind::AllReduce, Memory { input: None, output: &buffer }, hidden, norm)
    }

    /// Adds the rows of all ranks' inputs, of which each rank has a part of equally many rows, and writes this rank's part to `output` as
    /// [`all_reduce_rms_norm`](Self::all_reduce_rms_norm) does. The operands of `norm` have a row for each row of `output`.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn reduce_scatter_rms_norm<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        self.norm_rows(CollectiveKind::ReduceScatter, Memory { input: Some(&input), output: &output }, hidden, norm)
    }

    /// Adds the residual to this rank's rows, `input`, normalizes them, and writes the normalized rows of all ranks to `output`, as
    /// [`Communicator::all_gather_rms_norm`](crate::Communicator::all_gather_rms_norm) does. The operands of `norm` have a row for each row
    /// of `input`.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_gather_rms_norm<T: Element>(
        &self,
        input: &impl DeviceRef<T>,
        output: &mut impl DeviceMut<T>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let (input, output) = (input.lend(self.stream)?, output.lend_mut(self.stream)?);
        self.norm_rows(CollectiveKind::AllGather, Memory { input: Some(&input), output: &output }, hidden, norm)
    }

    /// [`all_gather_rms_norm`](Self::all_gather_rms_norm) with one memory for input and output: rank r has its rows in part r of `buffer`.
    ///
    /// # Errors
    /// As [`all_reduce_rms_norm`](Self::all_reduce_rms_norm).
    #[track_caller]
    pub fn all_gather_rms_norm_in_place<T: Element>(
        &self,
        buffer: &mut impl DeviceMut<T>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let buffer = buffer.lend_mut(self.stream)?;
        self.norm_rows(CollectiveKind::AllGather, Memory { input: None, output: &buffer }, hidden, norm)
    }

    #[track_caller]
    fn norm_rows<T: Element>(
        &self,
        collective: CollectiveKind,
        memory: Memory<'_>,
        hidden: usize,
        norm: DeviceRowNorm<'_, T>,
    ) -> Result<(), Error> {
        let (communicator, stream) = (self.communicator, self.stream);
        let form = norm.form();
        let norm = norm.lend(stream)?;
        let rank = communicator.rank();
        let output = memory.output.len::<T>();
        let lengths = Lengths { input: memory.input.map(Lent::len::<T>), output, hidden };
        let (count, row) = lengths.check(collective, rank, communicator.num_ranks())?;
        let own = match collective {
            CollectiveKind::AllGather => count / communicator.num_ranks() as usize,
            _ => output,
        };
        norm.check(rank, T::TYPE, own as u64, hidden as u64)?;
        let request = communicator.request::<T>(collective, count);
        let request = Request { in_place: memory.input.is_none(), ..request };
        settle(communicator, stream);
        let (mut calls, place) = (communicator.calls()?, Location::caller());
        communicator.record(&mut calls, Some(request), |calls| {
            no_plan_between_nodes(communicator, &request)?;
            // The first call connects the ranks.
            let is_first = calls.devices.connection.is_none();
            let _part = is_first.then(|| enter_call(1, || communicator.describe(&request)));
            let (connection, call) = self.begin(calls, place)?;
            connection.serve_rows(&call, request, (row, form), memory, &norm)
        })
    }
}

impl Connection {
    /// Serves a call that normalizes rows. A failure of the driver fails the communicator: the other ranks wait for the launch.
    fn serve_rows(
        &mut self,
        call: &DeviceCall<'_>,
        request: Request,
        (hidden, form): (u32, RowForm),
        memory: Memory<'_>,
        norm: &LentRows<'_>,
    ) -> Result<(), Error> {
        self.last = None;
        self.check(call.stream)?;
        let request = self.on_device(Request { registered: false, ..request });
        self.post(Kind::RowNorm(request, hidden, call.communicator.row_accumulator, form), call)?;
        if request.bytes == 0 {
            return self.tell_other_nodes();
        }
        let served = self.launch_with(call, request, Some(hidden), memory, LentParams::Rows(norm));
        served.map_err(|error| match error {
            Error::Driver(_) | Error::Capturing { .. } if !call.is_captured => self.fail(error),
            other => other,
        })
    }
}

/// Returns the algorithm of calls that normalize rows of `hidden` elements on devices, and its plan.
pub(super) fn decide(rank: u32, request: &Request, hidden: u32) -> Result<(Arc<Algorithm>, DecidedBy, Plan), Error> {
    let rows = request.bytes / (u64::from(hidden) * request.dtype.size() as u64).max(1);
    let group = rows.next_power_of_two().min(MAX_GROUP.min(request.max_blocks).into()) as usize;
    // The largest power of two, since every number is another plan.
    let group = 1 << group.max(1).ilog2();
    let Choice { algorithm, plan } = choose(request, group, 8.min(request.max_blocks)).map_err(|message| {
        let request = request.to_string();
        Error::NoPlan { rank, request, message }
    })?;
    let algorithm = match algorithm {
        Some(algorithm) => Algorithm::builtin(algorithm),
        None => Algorithm::plan(plan.clone()),
    };
    Ok((Arc::new(algorithm), DecidedBy::Rule(call_of(request.collective)), plan))
}
