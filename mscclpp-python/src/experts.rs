//! Expert parallelism on tensors: dispatches and combines in two halves, on the CPU or on a device.
//!
//! On a device a half is enqueued on the current stream. On the CPU the first half makes the call, or starts it, and the second one writes
//! its result.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_communicator::{
    Communicator, DeviceExperts, Dispatched, ExpertShape, OnStream, Pending, Route, RowElement, RowLayout,
};
use mscclpp_exec::__half::{bf16, f16};
use mscclpp_exec::cuda::{DeviceMut, DeviceRef, Lent, Payload, PayloadForm, RowsAtExperts};
use mscclpp_exec::{DataType, E4m3, Element, Error};
use pyo3::prelude::*;

use crate::device::{OnDevice, read, written};
use crate::failure::Failure;
use crate::tensor::{Kind, View};

/// The calls of one shape, with the places of the rows of the last dispatch.
#[pyclass(name = "Experts", module = "mscclpp_rs._native", frozen)]
pub(crate) struct PyExperts {
    shape: ExpertShape,
    layout: RowLayout,
    /// Type of the rows that are combined.
    dtype: DataType,
    pub(crate) device: Option<u32>,
    state: Mutex<State>,
}

enum State {
    /// No call was made.
    New,
    OnHost(Box<OnHost>),
    OnDevice(Box<dyn Halves + Send>),
}

/// The calls on the CPU.
#[derive(Default)]
struct OnHost {
    arrived: Option<Half<Arrived>>,
    route: Option<Route>,
    sums: Option<Half<Vec<u8>>>,
}

/// A result of a first half.
enum Half<T> {
    Done(T),
    Started(Pending<T>),
}

impl<T: Send + 'static> Half<T> {
    /// Makes a call, or starts it.
    fn new(
        comm: &Communicator,
        starts: bool,
        call: impl FnOnce(&Communicator) -> Result<T, Error> + Send + 'static,
    ) -> Result<Self, Error> {
        Ok(if starts { Self::Started(comm.start(call)?) } else { Self::Done(call(comm)?) })
    }

    fn wait(self) -> Result<T, Error> {
        match self {
            Self::Done(result) => Ok(result),
            Self::Started(pending) => pending.wait(),
        }
    }
}

/// What has arrived on the CPU.
struct Arrived {
    rows: Vec<u8>,
    scales: Vec<f32>,
    counts: Vec<usize>,
    route: Route,
}

impl Arrived {
    fn new<T: Element>(Dispatched { rows, counts, route }: Dispatched<T>, scales: Vec<f32>) -> Self {
        Self { rows: bytemuck::cast_slice(&rows).to_vec(), scales, counts, route }
    }
}

/// Tensors of a first half of a dispatch.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) rows: View,
    pub(crate) scales: Option<View>,
    pub(crate) choices: View,
    /// Whether rows are rounded to e4m3.
    pub(crate) quantizes: bool,
    /// Whether the call goes on while the caller does something else.
    pub(crate) starts: bool,
}

/// Tensors of a second half of a dispatch.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    pub(crate) rows: View,
    pub(crate) scales: Option<View>,
    pub(crate) counts: View,
}

/// The calls on a device, for any type of rows.
trait Halves {
    fn send(&mut self, on: OnStream<'_>, payload: Payload<'_>, choices: &Lent<'_>) -> Result<(), Error>;
    fn receive(&mut self, on: OnStream<'_>, form: PayloadForm, results: &RowsAtExperts<'_>) -> Result<(), Error>;
    fn send_back(&mut self, on: OnStream<'_>, rows: &Lent<'_>) -> Result<(), Error>;
    fn receive_back(&mut self, on: OnStream<'_>, weights: &Lent<'_>, output: &Lent<'_>) -> Result<(), Error>;
}

impl<T: RowElement> Halves for DeviceExperts<T> {
    fn send(&mut self, on: OnStream<'_>, payload: Payload<'_>, choices: &Lent<'_>) -> Result<(), Error> {
        Self::send(self, on, payload, choices)
    }
    fn receive(&mut self, on: OnStream<'_>, form: PayloadForm, results: &RowsAtExperts<'_>) -> Result<(), Error> {
        Self::receive(self, on, form, results)
    }
    fn send_back(&mut self, on: OnStream<'_>, rows: &Lent<'_>) -> Result<(), Error> {
        Self::send_back(self, on, rows)
    }
    fn receive_back(&mut self, on: OnStream<'_>, weights: &Lent<'_>, output: &Lent<'_>) -> Result<(), Error> {
        Self::receive_back(self, on, weights, output)
    }
}

/// Runs code with the type of rows that are combined.
macro_rules! with_row_type {
    ($dtype:expr, $type:ident => $code:expr) => {
        match $dtype {
            DataType::F16 => {
                type $type = f16;
                $code
            }
            DataType::BF16 => {
                type $type = bf16;
                $code
            }
            _ => {
                type $type = f32;
                $code
            }
        }
    };
}

impl PyExperts {
    /// Creates calls with tensors like one.
    pub(crate) fn new(like: &View, shape: ExpertShape, layout: RowLayout) -> Result<Self, Failure> {
        let dtype = match like.kind {
            Kind::Plain(dtype @ (DataType::F32 | DataType::F16 | DataType::BF16)) => dtype,
            found => {
                let message = format!("expected results of type bfloat16, float16 or float32, found {}", found.name());
                return Err(Failure::invalid("low_latency_dispatch", message));
            }
        };
        Ok(Self { shape, layout, dtype, device: like.device, state: Mutex::new(State::New) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the types and the devices of tensors.
    fn check(&self, call: &str, tensors: &[(&View, DataType)]) -> Result<(), Failure> {
        for (view, dtype) in tensors {
            if view.kind != Kind::Plain(*dtype) {
                let message = format!("expected a tensor of type {}, found {}", dtype.name(), view.kind.name());
                return Err(Failure::invalid(call, message));
            }
            if view.device != self.device {
                return Err(Failure::invalid(call, "expected tensors on one device, found several devices".into()));
            }
        }
        Ok(())
    }

    fn check_sent(&self, sent: &Sent) -> Result<(), Failure> {
        let rows = if sent.scales.is_some() { DataType::F8E4M3 } else { self.dtype };
        let scales = sent.scales.as_ref().map(|scales| (scales, DataType::F32));
        let tensors = [(&sent.rows, rows), (&sent.choices, DataType::I64)].into_iter().chain(scales);
        self.check("low_latency_dispatch", &tensors.collect::<Vec<_>>())
    }

    /// Sends rows of tensors on the CPU.
    pub(crate) fn send(&self, comm: &Communicator, sent: &Sent) -> Result<(), Failure> {
        self.check_sent(sent)?;
        let mut state = self.state();
        if !matches!(*state, State::OnHost(_)) {
            *state = State::OnHost(Box::default());
        }
        let State::OnHost(host) = &mut *state else { return Ok(()) };
        // Those of a half that no call has finished.
        (host.arrived, host.sums) = (None, None);
        let (shape, layout, quantizes, starts) = (self.shape, self.layout, sent.quantizes, sent.starts);
        let choices: Vec<i64> = elements(&sent.choices);
        host.arrived = Some(match sent.scales {
            Some(scales) => {
                let (rows, scales): (Vec<E4m3>, Vec<f32>) = (elements(&sent.rows), elements(&scales));
                Half::new(comm, starts, move |comm| {
                    let (arrived, scales) = comm.dispatch_scaled((&rows, &scales), &choices, &shape, layout)?;
                    Ok(Arrived::new(arrived, scales))
                })?
            }
            None => with_row_type!(self.dtype, T => {
                let rows: Vec<T> = elements(&sent.rows);
                Half::new(comm, starts, move |comm| match quantizes {
                    true => {
                        let (arrived, scales) = comm.dispatch_quantized(&rows, &choices, &shape, layout)?;
                        Ok(Arrived::new(arrived, scales))
                    }
                    false => Ok(Arrived::new(comm.dispatch_in(&rows, &choices, &shape, layout)?, Vec::new())),
                })?
            }),
        });
        Ok(())
    }

    /// Writes rows that have arrived to tensors on the CPU. A result has room for those that may arrive; places after them are zero.
    pub(crate) fn receive(&self, received: &Received) -> Result<(), Failure> {
        const CALL: &str = "low_latency_dispatch";
        let rows = if received.scales.is_some() { DataType::F8E4M3 } else { self.dtype };
        let scales = received.scales.as_ref().map(|scales| (scales, DataType::F32));
        let tensors = [(&received.rows, rows), (&received.counts, DataType::I64)].into_iter().chain(scales);
        self.check(CALL, &tensors.collect::<Vec<_>>())?;
        let mut state = self.state();
        let State::OnHost(host) = &mut *state else { return Err(unfinished(CALL)) };
        let arrived = host.arrived.take().ok_or_else(|| unfinished(CALL))?.wait()?;
        fill(CALL, &received.rows, &arrived.rows)?;
        if let Some(scales) = &received.scales {
            fill(CALL, scales, bytemuck::cast_slice(&arrived.scales))?;
        }
        let counts: Vec<i64> = arrived.counts.iter().map(|count| *count as i64).collect();
        fill(CALL, &received.counts, bytemuck::cast_slice(&counts))?;
        host.route = Some(arrived.route);
        Ok(())
    }

    /// Sends results of experts on the CPU back.
    pub(crate) fn send_back(
        &self,
        comm: &Communicator,
        rows: &View,
        weights: &View,
        starts: bool,
    ) -> Result<(), Failure> {
        const CALL: &str = "low_latency_combine";
        self.check(CALL, &[(rows, self.dtype), (weights, DataType::F32)])?;
        let mut state = self.state();
        let State::OnHost(host) = &mut *state else { return Err(unfinished(CALL)) };
        let route = host.route.clone().ok_or_else(|| unfinished(CALL))?;
        host.sums = None;
        let weights: Vec<f32> = elements(weights);
        host.sums = Some(with_row_type!(self.dtype, T => {
            let mut rows: Vec<T> = elements(rows);
            Half::new(comm, starts, move |comm| {
                // Places after the last row.
                rows.truncate(route.num_elements());
                let sums = comm.combine(&rows, &weights, &route)?;
                Ok(bytemuck::cast_slice(&sums).to_vec())
            })?
        }));
        Ok(())
    }

    /// Writes sums to a tensor on the CPU.
    pub(crate) fn receive_back(&self, output: &View) -> Result<(), Failure> {
        const CALL: &str = "low_latency_combine";
        self.check(CALL, &[(output, self.dtype)])?;
        let mut state = self.state();
        let State::OnHost(host) = &mut *state else { return Err(unfinished(CALL)) };
        let sums = host.sums.take().ok_or_else(|| unfinished(CALL))?.wait()?;
        fill(CALL, output, &sums)
    }

    /// Sends rows of tensors on a device.
    pub(crate) fn send_on(&self, device: &OnDevice<'_>, sent: &Sent) -> Result<(), Failure> {
        self.check_sent(sent)?;
        let mut state = self.state();
        if !matches!(*state, State::OnDevice(_)) {
            *state = State::OnDevice(with_row_type!(self.dtype, T => Box::new(device.on.experts::<T>(self.shape)?)));
        }
        let State::OnDevice(halves) = &mut *state else { return Ok(()) };
        let (rows, choices) = (read::<u8>(&sent.rows), read::<i64>(&sent.choices));
        let scales = sent.scales.as_ref().map(read::<f32>);
        let (rows, choices) = (rows.lend(device.stream)?, choices.lend(device.stream)?);
        let scales = scales.as_ref().map(|scales| scales.lend(device.stream)).transpose()?;
        let payload = match &scales {
            Some(scales) => Payload::Scaled(&rows, scales),
            None if sent.quantizes => Payload::Quantized(&rows),
            None => Payload::Rows(&rows),
        };
        Ok(halves.send(device.on, payload, &choices)?)
    }

    /// Enqueues the moves of rows to tensors on a device.
    pub(crate) fn receive_on(&self, device: &OnDevice<'_>, received: &Received) -> Result<(), Failure> {
        const CALL: &str = "low_latency_dispatch";
        let rows = if received.scales.is_some() { DataType::F8E4M3 } else { self.dtype };
        let scales = received.scales.as_ref().map(|scales| (scales, DataType::F32));
        let tensors = [(&received.rows, rows), (&received.counts, DataType::I64)].into_iter().chain(scales);
        self.check(CALL, &tensors.collect::<Vec<_>>())?;
        let mut state = self.state();
        let State::OnDevice(halves) = &mut *state else { return Err(unfinished(CALL)) };
        let form = if received.scales.is_some() { PayloadForm::Scaled } else { PayloadForm::Plain };
        let (mut rows, mut counts) = (written::<u8>(&received.rows), written::<i64>(&received.counts));
        let mut scales = received.scales.as_ref().map(written::<f32>);
        let results = RowsAtExperts {
            layout: self.layout,
            rows: rows.lend_mut(device.stream)?,
            scales: scales.as_mut().map(|scales| scales.lend_mut(device.stream)).transpose()?,
            counts: counts.lend_mut(device.stream)?,
        };
        Ok(halves.receive(device.on, form, &results)?)
    }

    /// Sends results of experts on a device back.
    pub(crate) fn send_back_on(&self, device: &OnDevice<'_>, rows: &View) -> Result<(), Failure> {
        const CALL: &str = "low_latency_combine";
        self.check(CALL, &[(rows, self.dtype)])?;
        let mut state = self.state();
        let State::OnDevice(halves) = &mut *state else { return Err(unfinished(CALL)) };
        let rows = read::<u8>(rows);
        Ok(halves.send_back(device.on, &rows.lend(device.stream)?)?)
    }

    /// Enqueues the sums on a device.
    pub(crate) fn receive_back_on(&self, device: &OnDevice<'_>, weights: &View, output: &View) -> Result<(), Failure> {
        const CALL: &str = "low_latency_combine";
        self.check(CALL, &[(weights, DataType::F32), (output, self.dtype)])?;
        let mut state = self.state();
        let State::OnDevice(halves) = &mut *state else { return Err(unfinished(CALL)) };
        let (weights, mut output) = (read::<f32>(weights), written::<u8>(output));
        Ok(halves.receive_back(device.on, &weights.lend(device.stream)?, &output.lend_mut(device.stream)?)?)
    }
}

/// Returns the elements of a tensor on the CPU.
///
/// Sound because the caller holds the tensor, and a view is dense and aligned.
fn elements<T: Element>(view: &View) -> Vec<T> {
    // SAFETY: as above; the type was compared with that of the view.
    unsafe { view.slice::<T>() }.to_vec()
}

/// Writes bytes to a tensor on the CPU, and zeros after them.
fn fill(call: &str, view: &View, bytes: &[u8]) -> Result<(), Failure> {
    if bytes.len() > view.bytes {
        let message = format!("expected room for {} bytes, found {}", bytes.len(), view.bytes);
        return Err(Failure::invalid(call, message));
    }
    // SAFETY: the caller holds the tensor, which nothing else accesses during the call.
    let (to, rest) = unsafe { view.slice_mut::<u8>() }.split_at_mut(bytes.len());
    to.copy_from_slice(bytes);
    rest.fill(0);
    Ok(())
}

fn unfinished(call: &str) -> Failure {
    Failure::invalid(
        call,
        "expected the second half of a call after its first one, and a combine after its dispatch".into(),
    )
}
