//! Calls on tensors of a CUDA device, enqueued on the current stream of PyTorch.
//!
//! A call returns when it is enqueued. The tensors may be dropped then: PyTorch gives their memory to work of the same stream only,
//! which follows the call.

use std::collections::BTreeMap;

use mscclpp_bootstrap::place;
use mscclpp_communicator::{Communicator, Group, OnStream};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::cuda::{Device, DeviceRowNorm, DeviceVec, DeviceView, DeviceViewMut, Stream};
use mscclpp_exec::{DataType, E4m3, Element, Error, with_type};

use crate::call::{Call, RowNormCall};
use crate::failure::Failure;
use crate::operator::Operator;
use crate::tensor::View;

/// The device of a rank, with what its calls use.
#[derive(Default)]
pub(crate) struct Devices {
    /// The device of the first call, with its number.
    device: Option<(u32, Device)>,
    /// Memory of calls by stream, in whose order it is used; the last one is the largest.
    temporaries: BTreeMap<usize, Vec<DeviceVec<u8>>>,
}

/// A transfer of a group: whether this rank sends, the tensor, and the other rank.
pub(crate) type Transfer = (bool, View, u32);

/// Returns the memory of a view, which a call reads.
///
/// Sound because views come from tensors, whose memory PyTorch keeps for work that is on the stream already; it is dense, aligned and on
/// the device that the view names, which is that of the stream.
pub(crate) fn read<T: Element>(view: &View) -> DeviceView<'static, T> {
    // SAFETY: as above.
    unsafe { DeviceView::from_raw(view.address as u64, view.bytes / size_of::<T>()) }
}

/// Returns the memory of a view, which a call writes; see [`read`].
pub(crate) fn written<T: Element>(view: &View) -> DeviceViewMut<'static, T> {
    // SAFETY: as for `read`.
    unsafe { DeviceViewMut::from_raw(view.address as u64, view.bytes / size_of::<T>()) }
}

/// A call on a stream.
pub(crate) struct OnDevice<'a> {
    comm: &'a Communicator,
    pub(crate) on: OnStream<'a>,
    pub(crate) stream: &'a Stream,
    rank: usize,
    /// Memory of the call: as many bytes as it asked for.
    temporary: Option<View>,
}

impl Devices {
    fn open(&mut self, number: u32) -> Result<Device, Failure> {
        match &self.device {
            Some((opened, device)) if *opened == number => Ok(device.clone()),
            Some((opened, _)) => {
                let message = format!(
                    "expected tensors on device {opened}, that of the first call, found one on device {number}"
                );
                Err(Failure::invalid("a call", message))
            }
            None => {
                let device = Device::new(number).map_err(Error::from)?;
                self.device = Some((number, device.clone()));
                Ok(device)
            }
        }
    }

    /// Returns the number of the device, once there was a call on it.
    pub(crate) fn number(&self) -> Option<u32> {
        self.device.as_ref().map(|(number, _)| *number)
    }

    /// Runs `call` on a stream of PyTorch's.
    pub(crate) fn on_stream<R>(
        &mut self,
        comm: &Communicator,
        number: u32,
        handle: usize,
        temporary: usize,
        call: impl FnOnce(&OnDevice<'_>) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let device = self.open(number)?;
        // SAFETY: PyTorch's current stream is one of the device's primary context, and exists until the process ends.
        let stream = unsafe { Stream::from_raw(&device, handle) };
        let temporary = match temporary {
            0 => None,
            bytes => {
                let memories = self.temporaries.entry(handle).or_default();
                if memories.last().is_none_or(|memory| memory.len() < bytes) {
                    // Shorter ones are kept: pending calls use them.
                    memories.push(DeviceVec::new(&device, bytes.next_power_of_two())?);
                }
                let address = memories.last().map_or(0, |memory| memory.as_slice().address);
                Some(View { address: address as usize, bytes, kind: crate::tensor::BYTES, device: Some(number) })
            }
        };
        let (on, rank) = (comm.on(&stream), comm.rank() as usize);
        call(&OnDevice { comm, on, stream: &stream, rank, temporary })
    }

    /// Makes a call whose tensors are on a device.
    pub(crate) fn run(&mut self, comm: &Communicator, number: u32, handle: usize, call: &Call) -> Result<(), Failure> {
        if let Call::Several(calls) = call {
            return calls.iter().try_for_each(|call| self.run(comm, number, handle, call));
        }
        self.on_stream(&call.handle(comm), number, handle, temporary_of(call), |device| device.run(call))
    }

    /// Makes transfers together; one alone need not wait for its receiver.
    pub(crate) fn transfer(
        &mut self,
        comm: &Communicator,
        number: u32,
        handle: usize,
        transfers: &[Transfer],
    ) -> Result<(), Failure> {
        self.on_stream(comm, number, handle, 0, |device| {
            let named = |view: &View| comm.with_element_name(view.kind.name());
            match transfers {
                [(true, view, peer)] => return Ok(named(view).on(device.stream).send(&read::<u8>(view), *peer)?),
                [(false, view, peer)] => {
                    return Ok(named(view).on(device.stream).recv(&mut written::<u8>(view), *peer)?);
                }
                _ => {}
            }
            let handles: Vec<_> = transfers.iter().map(|(_, view, _)| named(view)).collect();
            let inputs: Vec<_> = transfers.iter().map(|(_, view, _)| read::<u8>(view)).collect();
            let mut outputs: Vec<_> = transfers.iter().map(|(_, view, _)| written::<u8>(view)).collect();
            let mut group = Group::new();
            for ((((is_sent, _, peer), comm), input), output) in
                transfers.iter().zip(&handles).zip(&inputs).zip(&mut outputs)
            {
                let on = comm.on(device.stream);
                match is_sent {
                    true => group.send_on(on, input, *peer),
                    false => group.recv_on(on, output, *peer),
                }
            }
            Ok(group.run()?)
        })
    }

    /// Waits for the calls of a stream.
    pub(crate) fn synchronize(&mut self, comm: &Communicator, number: u32, handle: usize) -> Result<(), Failure> {
        self.on_stream(comm, number, handle, 0, |device| Ok(device.on.synchronize()?))
    }
}

/// Returns the bytes of memory that a call needs besides its tensors.
fn temporary_of(call: &Call) -> usize {
    let sum = |views: &[View]| views.iter().map(|view| view.bytes).sum();
    match call {
        Call::AllGather { input, output } if input.overlaps(output) => input.bytes,
        Call::AllToAll { input, output } if input.overlaps(output) => input.bytes,
        Call::AllToAllRows { input, output, .. } if input.overlaps(output) => input.bytes,
        Call::ReduceScatter { input, output, .. } if input.overlaps(output) => output.bytes,
        Call::RowNorm(call) if call.overwrites_input() => call.input.bytes,
        Call::AllGatherList { outputs, .. } | Call::Gather { outputs, .. } => sum(outputs),
        Call::ReduceScatterList { inputs, .. } | Call::Scatter { inputs, .. } => sum(inputs),
        Call::AllToAllList { inputs, outputs } => sum(inputs) + sum(outputs),
        _ => 0,
    }
}

impl OnDevice<'_> {
    fn temporary(&self, begin: usize, bytes: usize) -> Result<View, Error> {
        let whole = self.temporary.filter(|whole| begin + bytes <= whole.bytes);
        let whole =
            whole.or((bytes == 0).then_some(View { address: 0, bytes: 0, kind: crate::tensor::BYTES, device: None }));
        let whole = whole.ok_or_else(|| Error::Internal("a call on a device without its memory".into()))?;
        Ok(View { address: whole.address + begin, bytes, ..whole })
    }

    /// Returns whether a call is made in place, as on all ranks; `own` is where the input of a call in place is.
    fn form(&self, kind: CollectiveKind, input: &View, own: &View, output: &View) -> Result<bool, Error> {
        let request = self.comm.request_of(kind, DataType::U8, output.bytes as u64);
        self.on.agree_in_place(&request, input.address == own.address)
    }

    /// Returns the input of a call that is made in place, where it is `own`, or is not, where it must not be in the output. Copies it if it
    /// is elsewhere.
    fn input(&self, input: &View, own: &View, output: &View, in_place: bool) -> Result<View, Error> {
        if in_place && input.address == own.address || !in_place && !input.overlaps(output) {
            return Ok(*input);
        }
        let mut copied = *input;
        if input.overlaps(output) {
            copied = self.temporary(0, input.bytes)?;
            self.copy(input, &copied)?;
        }
        if in_place {
            self.copy(&copied, own)?;
            copied = *own;
        }
        Ok(copied)
    }

    fn copy(&self, from: &View, to: &View) -> Result<(), Error> {
        self.stream.copy::<u8>(&read(from), &mut written(to))
    }

    fn concatenate(&self, inputs: &[View], all: &View) -> Result<(), Error> {
        let mut begin = all.address;
        inputs.iter().try_for_each(|input| {
            let to = View { address: begin, bytes: input.bytes, ..*all };
            begin += input.bytes;
            self.copy(input, &to)
        })
    }

    fn divide(&self, all: &View, outputs: &[View]) -> Result<(), Error> {
        let mut begin = all.address;
        outputs.iter().try_for_each(|output| {
            let from = View { address: begin, bytes: output.bytes, ..*all };
            begin += output.bytes;
            self.copy(&from, output)
        })
    }

    fn norm_rows(&self, call: &RowNormCall) -> Result<(), Failure> {
        let comm = self.comm.with_row_accumulator(call.accumulator());
        let (on, output) = (comm.on(self.stream), &call.output);
        let own = call.own(&comm);
        let in_place = match &own {
            Some(own) => self.form(call.kind(), &call.input, own, output)?,
            None => false,
        };
        // Other outputs are written before the last row of the input is read.
        let mut input = call.input;
        if call.others_overlap_input() {
            input = self.temporary(0, input.bytes)?;
            self.copy(&call.input, &input)?;
        }
        let input = self.input(&input, &own.unwrap_or(*output), output, in_place)?;
        with_type!(output.kind.moved().0, T => {
            let (residual, gamma) = (call.residual.as_ref().map(read::<T>), call.gamma.as_ref().map(read::<T>));
            let mut sums = call.residual_out.as_ref().map(written::<T>);
            let mut quantized = call.quantized.as_ref().map(written::<E4m3>);
            let mut scales = call.scales.as_ref().map(written::<f32>);
            let device_scale = call.device_scale.as_ref().map(read::<f32>);
            let mut norm = call.eps.map_or_else(DeviceRowNorm::<T>::add_only, DeviceRowNorm::new).bias(call.bias);
            norm = match (residual.as_ref(), sums.as_mut()) {
                (_, Some(sums)) if call.replaces_residual() => norm.residual_in_place(sums),
                (Some(residual), Some(sums)) => norm.residual(residual).residual_out(sums),
                (Some(residual), None) => norm.residual(residual),
                (None, Some(sums)) => norm.residual_out(sums),
                (None, None) => norm,
            };
            norm = gamma.iter().fold(norm, |norm, gamma| norm.gamma(gamma));
            norm = match (&mut quantized, &mut scales, &device_scale) {
                (Some(rows), Some(scales), _) => norm.quantized_by_row(rows, scales),
                (Some(rows), None, Some(scale)) => norm.quantized_by(rows, scale),
                (Some(rows), None, None) => norm.quantized(rows, call.scale),
                (None, _, _) => norm,
            };
            let (input, mut output, hidden) = (read(&input), written(output), call.hidden);
            match (call.gathers, in_place) {
                (false, true) => on.all_reduce_rms_norm_in_place::<T>(&mut output, hidden, norm),
                (false, false) => on.all_reduce_rms_norm::<T>(&input, &mut output, hidden, norm),
                (true, true) => on.all_gather_rms_norm_in_place::<T>(&mut output, hidden, norm),
                (true, false) => on.all_gather_rms_norm::<T>(&input, &mut output, hidden, norm),
            }
        })?;
        Ok(())
    }

    /// Makes a call whose tensors are on the device.
    pub(crate) fn run(&self, call: &Call) -> Result<(), Failure> {
        let (on, _name) = (self.on, place::enter_name(call.name()));
        let sum = |views: &[View]| views.iter().map(|view| view.bytes).sum::<usize>();
        match call {
            Call::AllReduce { tensor, operator } => {
                let (op, dtype) = plain(*operator)?;
                with_type!(dtype, T => on.all_reduce_in_place::<T>(&mut written(tensor), op))?;
            }
            Call::AllReduceList { tensors, operator } => {
                let (op, dtype) = plain(*operator)?;
                for tensor in tensors {
                    with_type!(dtype, T => on.all_reduce_in_place::<T>(&mut written(tensor), op))?;
                }
            }
            Call::RowNorm(call) => self.norm_rows(call)?,
            Call::Reduce { tensor, operator, root } => {
                let (op, dtype) = plain(*operator)?;
                with_type!(dtype, T => on.reduce_in_place::<T>(&mut written(tensor), op, *root))?;
            }
            Call::Broadcast { tensor, root } => {
                with_type!(tensor.kind.moved().0, T => on.broadcast_in_place::<T>(&mut written(tensor), *root))?;
            }
            Call::AllGather { input, output } => {
                let begin = output.address + self.comm.rank() as usize * input.bytes;
                let own = View { address: begin, bytes: input.bytes, ..*output };
                // The call reports other lengths.
                let is_whole = input.bytes.checked_mul(self.comm.num_ranks() as usize) == Some(output.bytes);
                let in_place = is_whole && self.form(CollectiveKind::AllGather, input, &own, output)?;
                let input = self.input(input, &own, output, in_place)?;
                with_type!(output.kind.moved().0, T => match in_place {
                    true => on.all_gather_in_place::<T>(&mut written(output)),
                    false => on.all_gather::<T>(&read(&input), &mut written(output)),
                })?;
            }
            Call::AllGatherList { input, outputs } => {
                if outputs.iter().any(|output| output.bytes != input.bytes) {
                    // All ranks have the same lengths, each rank's own one.
                    for (root, output) in outputs.iter().enumerate() {
                        if root == self.rank && output.address != input.address {
                            self.copy(input, output)?;
                        }
                        on.broadcast_in_place::<u8>(&mut written(output), root as u32)?;
                    }
                    return Ok(());
                }
                let all = self.temporary(0, sum(outputs))?;
                with_type!(input.kind.moved().0, T => on.all_gather::<T>(&read(input), &mut written(&all)))?;
                self.divide(&all, outputs)?;
            }
            Call::ReduceScatter { input, output, operator } => {
                let (op, dtype) = plain(*operator)?;
                let result = if input.overlaps(output) { self.temporary(0, output.bytes)? } else { *output };
                with_type!(dtype, T => on.reduce_scatter::<T>(&read(input), &mut written(&result), op))?;
                if result.address != output.address {
                    self.copy(&result, output)?;
                }
            }
            Call::ReduceScatterList { inputs, output, operator } => {
                let (op, dtype) = plain(*operator)?;
                let all = self.temporary(0, sum(inputs))?;
                self.concatenate(inputs, &all)?;
                if inputs.iter().any(|input| input.bytes != output.bytes) {
                    let mut begin = 0;
                    for (rank, input) in (0..).zip(inputs) {
                        let part = self.temporary(begin, input.bytes)?;
                        begin += input.bytes;
                        with_type!(dtype, T => on.all_reduce_in_place::<T>(&mut written(&part), op))?;
                        if rank == self.rank {
                            self.copy(&part, output)?;
                        }
                    }
                    return Ok(());
                }
                with_type!(dtype, T => on.reduce_scatter::<T>(&read(&all), &mut written(output), op))?;
            }
            Call::AllToAll { input, output } => {
                let is_whole = input.bytes == output.bytes;
                let in_place = is_whole && self.form(CollectiveKind::AllToAll, input, output, output)?;
                let input = self.input(input, output, output, in_place)?;
                with_type!(output.kind.moved().0, T => match in_place {
                    true => on.all_to_all_in_place::<T>(&mut written(output)),
                    false => on.all_to_all::<T>(&read(&input), &mut written(output)),
                })?;
            }
            Call::AllToAllList { inputs, outputs } => {
                let (sent, received) = (self.temporary(0, sum(inputs))?, self.temporary(sum(inputs), sum(outputs))?);
                self.concatenate(inputs, &sent)?;
                let counts = |views: &[View]| views.iter().map(|view| view.bytes).collect::<Vec<_>>();
                on.all_to_all_v::<u8>(&read(&sent), &counts(inputs), &mut written(&received), &counts(outputs))?;
                self.divide(&received, outputs)?;
            }
            Call::AllToAllRows { input, output, sent, received, elements, most } => {
                let input = self.input(input, output, output, false)?;
                let ((dtype, lanes), sizes) = (output.kind.moved(), &mut written(received));
                with_type!(dtype, T => {
                    on.all_to_all_rows::<T, i64>(&read(&input), &read(sent), &mut written(output), sizes, *most, elements * lanes)
                })?;
            }
            Call::Gather { input, outputs, root } => {
                let all = self.temporary(0, sum(outputs))?;
                on.gather::<u8>(&read(input), &mut written(&all), *root)?;
                self.divide(&all, outputs)?;
            }
            Call::Scatter { inputs, output, root } => {
                let all = self.temporary(0, sum(inputs))?;
                self.concatenate(inputs, &all)?;
                on.scatter::<u8>(&read(&all), &mut written(output), *root)?;
            }
            Call::Barrier => on.barrier()?,
            Call::Several(_) => return Err(Error::Internal("calls within calls".into()).into()),
        }
        Ok(())
    }
}

/// Returns a reduction that calls on devices have, with its type.
pub(crate) fn plain(operator: Operator) -> Result<(mscclpp_core::types::ReduceOp, DataType), Failure> {
    match operator {
        Operator::Plain(op, dtype) => Ok((op, dtype)),
        Operator::Fold(..) => Err(unsupported("a reduction of bits or 16-bit integers on a device")),
    }
}

fn unsupported(what: &str) -> Failure {
    Failure::of_kind("unsupported", what, "expected tensors on the CPU; copy them with tensor.cpu()".into())
}
