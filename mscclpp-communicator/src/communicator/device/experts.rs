//! Expert parallelism on device memory: tokens travel to the ranks of their experts, and the results back. What a rank does with its rows
//! are kernels; between ranks they travel in launches of a plan with counts, which the kernels have written.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use mscclpp_bootstrap::place::enter_call;
use mscclpp_core::collective::CollectiveKind;

use super::OnStream;
use super::connection::Connection;
use super::launch::{DeviceCall, Memory};
use super::posted::{Kind, Travels};
use super::transfers::settle;
use mscclpp_base::dtype::{DataType, E4m3};
use mscclpp_base::error::Error;
use mscclpp_base::experts::{ExpertShape, RowElement, RowLayout};
use mscclpp_exec::cuda::{
    DeviceMut, DeviceRef, Event, ExpertRows, Lent, LentCounts, LentParams, Payload, PayloadForm, RowsAtExperts, Stream,
    Travel,
};
use mscclpp_select::Request;

/// The calls of expert parallelism of a rank on its device, for one shape; of [`OnStream::experts`]. It has the memory for rows that travel,
/// and the places of those of its last dispatch.
///
/// The calls are calls of all ranks, and return when they are enqueued; no rank waits for its stream, and choices and counts are read on the
/// device. A captured call takes what is in memory at each launch of the graph. `dispatch` and `combine` alternate: between them another
/// dispatch needs an object of its own.
///
/// # Errors
/// All calls: [`Error::Length`] for lists that do not match, before anything is enqueued; those of [`OnStream`].
/// [`Error::CountOverflow`], the same on all ranks, of the next [`synchronize`](OnStream::synchronize) or
/// [`check`](crate::Communicator::check): more tokens than were declared, a choice that is no expert or that repeats another one of its
/// token, more rows than a result has room for, and a combine after a dispatch that has moved nothing. No data was moved then, and results
/// are as before.
pub struct DeviceExperts<T> {
    rows: ExpertRows,
    /// Where sending halves of calls are launched.
    side: Stream,
    /// The end of the last of them, unless a later call waits for it.
    pending: Option<Event>,
    elements: PhantomData<T>,
}

impl OnStream<'_> {
    /// Allocates the memory for calls of expert parallelism with rows of `T` that are combined.
    ///
    /// # Cost
    /// Room for twice `num_ranks · max_tokens · min(top_k, experts of a rank)` rows, and as much again in the scratch of the first call.
    /// Kernels are compiled by NVRTC for the first use on a machine.
    ///
    /// # Errors
    /// [`Error::Length`] for sizes of 0 or beyond what is supported, and unless the experts are as many on every rank; [`Error::Jit`] if
    /// there is no compiler; [`Error::Driver`] if the device has too little memory; [`Error::Capturing`].
    pub fn experts<T: RowElement>(&self, shape: ExpertShape) -> Result<DeviceExperts<T>, Error> {
        let device = self.stream.devices().next();
        let device = device.ok_or_else(|| Error::StreamDeviceMismatch { device: "any device".into() })?;
        let rows = ExpertRows::new::<T>(device, self.communicator.rank(), self.communicator.num_ranks(), shape)?;
        Ok(DeviceExperts { rows, side: device.stream()?, pending: None, elements: PhantomData })
    }
}

/// A call that is being enqueued.
struct Launch<'c, 'a> {
    connection: &'c mut Connection,
    call: DeviceCall<'a>,
    request: Request,
    kind: Kind,
}

impl Launch<'_, '_> {
    /// Lets rows travel. A failure of the driver fails the communicator: the other ranks wait for the launch.
    fn launch(&mut self, travel: &Travel<'_>) -> Result<(), Error> {
        let Self { connection, call, request, kind } = self;
        connection.last = None;
        connection.check(call.stream)?;
        let request = connection.on_device(Request { registered: false, ..*request });
        connection.post(*kind, call)?;
        let Travel { input, output, sent, received, stride } = travel;
        let counts = LentCounts { sent, received, dtype: DataType::I64, unit: *stride };
        let memory = Memory { input: Some(input), output };
        let served = connection.launch_with(call, request, None, memory, LentParams::Counts(counts));
        served.map_err(|error| match error {
            Error::Driver(_) | Error::Capturing { .. } if !call.is_captured => connection.fail(error),
            other => other,
        })
    }
}

/// Makes a call in which rows travel: `before` is enqueued first, then what `launch` passes to its argument.
#[track_caller]
fn travel(
    rows: &mut ExpertRows,
    on: OnStream<'_>,
    (travels, dtype): (Travels, DataType),
    before: impl FnOnce(&mut ExpertRows) -> Result<(), Error>,
    launch: impl FnOnce(&mut ExpertRows, Launch<'_, '_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (communicator, shape) = (on.communicator(), rows.shape());
    let bytes = usize::try_from(rows.pair_bytes()).unwrap_or(usize::MAX);
    let request =
        communicator.request::<u8>(CollectiveKind::AllToAllV, bytes.saturating_mul(communicator.num_ranks() as usize));
    settle(communicator, on.stream());
    let (mut calls, place) = (communicator.calls()?, Location::caller());
    communicator.record(&mut calls, Some(request), |calls| {
        // The first call connects the ranks.
        let is_first = calls.devices.connection.is_none();
        let _part = is_first.then(|| enter_call(1, || communicator.describe(&request)));
        let enqueued = before(rows);
        let (connection, call) = on.begin(calls, place)?;
        if let Err(error) = enqueued {
            return Err(if call.is_captured { error } else { connection.fail(error) });
        }
        launch(rows, Launch { connection, call, request, kind: Kind::Experts(travels, dtype, shape) })
    })
}

impl<T: RowElement> DeviceExperts<T> {
    /// Returns the shape.
    pub fn shape(&self) -> ExpertShape {
        self.rows.shape()
    }

    /// Sends each token to the ranks of the experts that it chooses. `tokens`: rows; `choices`: for each token `top_k` numbers of experts, or
    /// -1 for none. Stores the rows for the experts of this rank in `rows`, in a layout, and the number of rows of each expert in `counts`;
    /// in [`RowLayout::ByRank`] the numbers of each rank and expert. Other places of `rows` keep their values.
    ///
    /// In [`RowLayout::Slots`] there are at least `experts of a rank · num_ranks · max_tokens` rows. In the other layouts there may be fewer
    /// than the tokens of all ranks could need: those that arrive fit in, or nothing is moved. The rows that an alignment may add are
    /// always reserved.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn dispatch(
        &mut self,
        on: OnStream<'_>,
        tokens: &impl DeviceRef<T>,
        choices: &impl DeviceRef<i64>,
        layout: RowLayout,
        rows: &mut impl DeviceMut<T>,
        counts: &mut impl DeviceMut<i64>,
    ) -> Result<(), Error> {
        let stream = on.stream();
        let (tokens, choices) = (tokens.lend(stream)?, choices.lend(stream)?);
        let (rows, counts) = (rows.lend_mut(stream)?, counts.lend_mut(stream)?);
        let results = RowsAtExperts { layout, rows, scales: None, counts };
        self.dispatch_lent(on, Payload::Rows(&tokens), &choices, &results)
    }

    /// Does what [`dispatch`](Self::dispatch) does with rows of e4m3 and their scales, one for every 128 elements.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn dispatch_scaled(
        &mut self,
        on: OnStream<'_>,
        (tokens, scales): (&impl DeviceRef<E4m3>, &impl DeviceRef<f32>),
        choices: &impl DeviceRef<i64>,
        layout: RowLayout,
        (rows, row_scales): (&mut impl DeviceMut<E4m3>, &mut impl DeviceMut<f32>),
        counts: &mut impl DeviceMut<i64>,
    ) -> Result<(), Error> {
        let stream = on.stream();
        let (tokens, scales, choices) = (tokens.lend(stream)?, scales.lend(stream)?, choices.lend(stream)?);
        let (rows, counts) = (rows.lend_mut(stream)?, counts.lend_mut(stream)?);
        let results = RowsAtExperts { layout, rows, scales: Some(row_scales.lend_mut(stream)?), counts };
        self.dispatch_lent(on, Payload::Scaled(&tokens, &scales), &choices, &results)
    }

    /// Does what [`dispatch`](Self::dispatch) does, and rounds the rows to e4m3 on the way, as
    /// [`quantize_rows`](mscclpp_base::experts::quantize_rows) does.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn dispatch_quantized(
        &mut self,
        on: OnStream<'_>,
        tokens: &impl DeviceRef<T>,
        choices: &impl DeviceRef<i64>,
        layout: RowLayout,
        (rows, row_scales): (&mut impl DeviceMut<E4m3>, &mut impl DeviceMut<f32>),
        counts: &mut impl DeviceMut<i64>,
    ) -> Result<(), Error> {
        let stream = on.stream();
        let (tokens, choices) = (tokens.lend(stream)?, choices.lend(stream)?);
        let (rows, counts) = (rows.lend_mut(stream)?, counts.lend_mut(stream)?);
        let results = RowsAtExperts { layout, rows, scales: Some(row_scales.lend_mut(stream)?), counts };
        self.dispatch_lent(on, Payload::Quantized(&tokens), &choices, &results)
    }

    #[track_caller]
    fn dispatch_lent(
        &mut self,
        on: OnStream<'_>,
        payload: Payload<'_>,
        choices: &Lent<'_>,
        results: &RowsAtExperts<'_>,
    ) -> Result<(), Error> {
        let (stream, form) = (on.stream(), payload.form());
        let [_, room] = self.rows.room(form, results)?;
        self.rows.check_tokens(&payload, choices)?;
        self.join(stream)?;
        travel(
            &mut self.rows,
            on,
            (Travels::of(form), T::TYPE),
            |rows| rows.pack(stream, payload, choices),
            |rows, mut launch| launch.launch(&rows.outward(stream, form, room)?),
        )?;
        self.rows.unpack(stream, form, results)
    }

    /// Begins a [`dispatch`](Self::dispatch): when this returns, the rows are enqueued to travel beside other work on the stream. They are
    /// stored when the result is [finished](PendingDispatch::finish). `tokens` and `choices` may change after work on the stream that is
    /// enqueued before.
    ///
    /// All ranks begin a dispatch at the same place among their calls; when they finish it is their own matter. In a capture rows travel in
    /// the order of the stream.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn dispatch_begin<'e>(
        &'e mut self,
        on: OnStream<'e>,
        tokens: &impl DeviceRef<T>,
        choices: &impl DeviceRef<i64>,
    ) -> Result<PendingDispatch<'e, T>, Error> {
        let (tokens, choices) = (tokens.lend(on.stream())?, choices.lend(on.stream())?);
        self.send(on, Payload::Rows(&tokens), &choices)?;
        Ok(PendingDispatch { experts: self, on, form: PayloadForm::Plain })
    }

    /// Begins a [`dispatch_quantized`](Self::dispatch_quantized), as [`dispatch_begin`](Self::dispatch_begin) begins a dispatch.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn dispatch_quantized_begin<'e>(
        &'e mut self,
        on: OnStream<'e>,
        tokens: &impl DeviceRef<T>,
        choices: &impl DeviceRef<i64>,
    ) -> Result<PendingDispatch<'e, T>, Error> {
        let (tokens, choices) = (tokens.lend(on.stream())?, choices.lend(on.stream())?);
        self.send(on, Payload::Quantized(&tokens), &choices)?;
        Ok(PendingDispatch { experts: self, on, form: PayloadForm::Scaled })
    }

    /// Enqueues the sending half of a dispatch.
    #[track_caller]
    #[doc(hidden)]
    pub fn send(&mut self, on: OnStream<'_>, payload: Payload<'_>, choices: &Lent<'_>) -> Result<(), Error> {
        let (stream, form) = (on.stream(), payload.form());
        self.rows.check_tokens(&payload, choices)?;
        self.join(stream)?;
        let Self { rows, side, pending, .. } = self;
        let beside = beside(stream, side)?;
        travel(
            rows,
            on.communicator().on(beside.unwrap_or(stream)),
            (Travels::of(form), T::TYPE),
            |rows| {
                rows.pack(stream, payload, choices)?;
                beside.map_or(Ok(()), |side| side.wait_for(&stream.untimed_event()?))
            },
            |rows, mut launch| launch.launch(&rows.outward(beside.unwrap_or(stream), form, u64::MAX)?),
        )?;
        *pending = beside.map(Stream::untimed_event).transpose()?;
        Ok(())
    }

    /// Enqueues the receiving half of a dispatch.
    #[doc(hidden)]
    pub fn receive(&mut self, on: OnStream<'_>, form: PayloadForm, results: &RowsAtExperts<'_>) -> Result<(), Error> {
        let [found, room] = self.rows.room(form, results)?;
        let most = self.rows.most_rows();
        if room < most {
            let expected = format!("room for {} rows, as many as may arrive", most + (found - room));
            let (call, rank, what) = ("dispatch", on.communicator().rank(), "the list of rows");
            return Err(Error::Length { call, rank, what, expected, found: found as usize });
        }
        self.join(on.stream())?;
        self.rows.unpack(on.stream(), form, results)
    }

    /// Sends the rows of this rank's experts, which are where the last dispatch has put them, back to their tokens. Stores in `output` for each
    /// token the sum of its rows, times the weights of its choices.
    ///
    /// The sum begins with 0 and adds `weight · element` for one choice after the other, each product and each sum rounded to `f32`; the
    /// result is rounded to `T`. Choices of no expert are skipped. So results have the bits of
    /// [`Communicator::combine`](crate::Communicator::combine).
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn combine(
        &mut self,
        on: OnStream<'_>,
        rows: &impl DeviceRef<T>,
        weights: &impl DeviceRef<f32>,
        output: &mut impl DeviceMut<T>,
    ) -> Result<(), Error> {
        let stream = on.stream();
        let (rows, weights, output) = (rows.lend(stream)?, weights.lend(stream)?, output.lend_mut(stream)?);
        self.rows.check_results(&rows)?;
        self.rows.check_combine(&weights, &output)?;
        self.join(stream)?;
        travel(
            &mut self.rows,
            on,
            (Travels::Results, T::TYPE),
            |own| own.give_back(stream, &rows),
            |own, mut launch| launch.launch(&own.homeward(stream)?),
        )?;
        self.rows.combine(stream, &weights, &output)
    }

    /// Begins a [`combine`](Self::combine), as [`dispatch_begin`](Self::dispatch_begin) begins a dispatch. `rows` may change after work on the
    /// stream that is enqueued before.
    ///
    /// # Errors
    /// See [`DeviceExperts`].
    #[track_caller]
    pub fn combine_begin<'e>(
        &'e mut self,
        on: OnStream<'e>,
        rows: &impl DeviceRef<T>,
    ) -> Result<PendingCombine<'e, T>, Error> {
        let rows = rows.lend(on.stream())?;
        self.send_back(on, &rows)?;
        Ok(PendingCombine { experts: self, on })
    }

    /// Enqueues the sending half of a combine.
    #[track_caller]
    #[doc(hidden)]
    pub fn send_back(&mut self, on: OnStream<'_>, results: &Lent<'_>) -> Result<(), Error> {
        let stream = on.stream();
        self.rows.check_results(results)?;
        self.join(stream)?;
        let Self { rows, side, pending, .. } = self;
        let beside = beside(stream, side)?;
        travel(
            rows,
            on.communicator().on(beside.unwrap_or(stream)),
            (Travels::Results, T::TYPE),
            |rows| {
                rows.give_back(stream, results)?;
                beside.map_or(Ok(()), |side| side.wait_for(&stream.untimed_event()?))
            },
            |rows, mut launch| launch.launch(&rows.homeward(beside.unwrap_or(stream))?),
        )?;
        *pending = beside.map(Stream::untimed_event).transpose()?;
        Ok(())
    }

    /// Enqueues the receiving half of a combine.
    #[doc(hidden)]
    pub fn receive_back(&mut self, on: OnStream<'_>, weights: &Lent<'_>, output: &Lent<'_>) -> Result<(), Error> {
        self.rows.check_combine(weights, output)?;
        self.join(on.stream())?;
        self.rows.combine(on.stream(), weights, output)
    }

    /// Lets the stream wait for the last sending half.
    fn join(&mut self, stream: &Stream) -> Result<(), Error> {
        if self.pending.is_some() && stream.is_capturing()? {
            let what = "cannot follow the sending half of a call that was begun before the capture";
            return Err(Error::Capturing { what: what.into() });
        }
        self.pending.take().map_or(Ok(()), |event| stream.wait_for(&event))
    }
}

/// Returns the stream on which a sending half is launched; `None`: on that of the call, as in captures, whose work is of one stream.
fn beside<'s>(stream: &Stream, side: &'s Stream) -> Result<Option<&'s Stream>, Error> {
    Ok((!stream.is_capturing()?).then_some(side))
}

/// A dispatch whose rows travel; of [`DeviceExperts::dispatch_begin`]. Dropping it drops the rows: the next call follows them.
#[must_use = "the rows are stored by `finish`"]
pub struct PendingDispatch<'e, T: RowElement> {
    experts: &'e mut DeviceExperts<T>,
    on: OnStream<'e>,
    form: PayloadForm,
}

impl<T: RowElement> PendingDispatch<'_, T> {
    /// Stores the rows, as [`dispatch`](DeviceExperts::dispatch) does, when they have arrived. Work that is enqueued on the stream later
    /// follows. There is room for as many rows as may arrive.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::ElementType`] if the rows are not those of the call that was begun; [`Error::Driver`].
    pub fn finish(
        self,
        layout: RowLayout,
        rows: &mut impl DeviceMut<T>,
        counts: &mut impl DeviceMut<i64>,
    ) -> Result<(), Error> {
        self.check(PayloadForm::Plain, T::TYPE)?;
        let stream = self.on.stream();
        let (rows, counts) = (rows.lend_mut(stream)?, counts.lend_mut(stream)?);
        self.experts.receive(self.on, self.form, &RowsAtExperts { layout, rows, scales: None, counts })
    }

    /// Stores rows of e4m3 and their scales, as [`dispatch_quantized`](DeviceExperts::dispatch_quantized) does.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub fn finish_scaled(
        self,
        layout: RowLayout,
        (rows, scales): (&mut impl DeviceMut<E4m3>, &mut impl DeviceMut<f32>),
        counts: &mut impl DeviceMut<i64>,
    ) -> Result<(), Error> {
        self.check(PayloadForm::Scaled, DataType::F8E4M3)?;
        let stream = self.on.stream();
        let (rows, counts) = (rows.lend_mut(stream)?, counts.lend_mut(stream)?);
        let results = RowsAtExperts { layout, rows, scales: Some(scales.lend_mut(stream)?), counts };
        self.experts.receive(self.on, self.form, &results)
    }

    fn check(&self, form: PayloadForm, found: DataType) -> Result<(), Error> {
        match (self.form == form, self.form) {
            (true, _) => Ok(()),
            (false, PayloadForm::Scaled) => Err(Error::ElementType { expected: DataType::F8E4M3, found }),
            (false, PayloadForm::Plain) => Err(Error::ElementType { expected: T::TYPE, found }),
        }
    }
}

/// A combine whose rows travel; of [`DeviceExperts::combine_begin`]. Dropping it drops the rows: the next call follows them.
#[must_use = "the sums are stored by `finish`"]
pub struct PendingCombine<'e, T: RowElement> {
    experts: &'e mut DeviceExperts<T>,
    on: OnStream<'e>,
}

impl<T: RowElement> PendingCombine<'_, T> {
    /// Stores the sums, as [`combine`](DeviceExperts::combine) does, when the rows have arrived.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Driver`].
    pub fn finish(self, weights: &impl DeviceRef<f32>, output: &mut impl DeviceMut<T>) -> Result<(), Error> {
        let stream = self.on.stream();
        let (weights, output) = (weights.lend(stream)?, output.lend_mut(stream)?);
        self.experts.receive_back(self.on, &weights, &output)
    }
}

impl<T: RowElement> Drop for PendingDispatch<'_, T> {
    fn drop(&mut self) {
        // The memory of a half that is not finished is that of the next call. A destructor cannot report a failure.
        let _ = self.experts.join(self.on.stream());
    }
}

impl<T: RowElement> Drop for PendingCombine<'_, T> {
    fn drop(&mut self) {
        // As above.
        let _ = self.experts.join(self.on.stream());
    }
}

impl<T> fmt::Debug for DeviceExperts<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceExperts").field("shape", &self.rows.shape()).finish_non_exhaustive()
    }
}
