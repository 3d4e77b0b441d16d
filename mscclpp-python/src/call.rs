//! Collective calls on the memory of tensors.

use mscclpp_exec::{Communicator, DataType, Element, Error};

use crate::failure::Failure;
use crate::fold::fold;
use crate::gloo_order;
use crate::operator::Operator;
use crate::tensor::View;

/// Runs an expression for the element type of a data type.
macro_rules! with_type {
    ($dtype:expr, $name:ident => $run:expr) => {{
        macro_rules! run {
            ($type:ty) => {{
                type $name = $type;
                $run
            }};
        }
        match $dtype {
            DataType::I8 => run!(i8),
            DataType::U8 => run!(u8),
            DataType::I32 => run!(i32),
            DataType::U32 => run!(u32),
            DataType::I64 => run!(i64),
            DataType::U64 => run!(u64),
            DataType::F16 => run!(half::f16),
            DataType::BF16 => run!(half::bf16),
            DataType::F32 => run!(f32),
            DataType::F64 => run!(f64),
            DataType::F8E4M3 => run!(mscclpp_exec::E4m3),
            DataType::F8E5M2 => run!(mscclpp_exec::E5m2),
            DataType::F8E4M3B15 => run!(mscclpp_exec::E4m3B15),
        }
    }};
}

pub(crate) use with_type;

/// Bytes that the ranks gather at a time for a reduction that they make themselves.
const FOLDED_BYTES: usize = 16 << 20;

/// Memory of a rank that its calls use one after the other; it grows to the largest call.
#[derive(Default)]
pub(crate) struct Staging(Vec<u64>);

impl Staging {
    /// Returns memory of a number of bytes, aligned to 8.
    fn bytes(&mut self, bytes: usize) -> Result<&mut [u8], Error> {
        let words = bytes.div_ceil(8);
        if self.0.len() < words {
            let more = words - self.0.len();
            self.0.try_reserve_exact(more).map_err(|error| Error::System {
                what: format!("cannot allocate {bytes} bytes for a call"),
                reason: error.to_string(),
            })?;
            self.0.resize(words, 0);
        }
        Ok(&mut bytemuck::cast_slice_mut(&mut self.0)[..bytes])
    }
}

/// A collective call on tensors, which exist until it has ended. Lists have a tensor per rank.
#[derive(Debug)]
pub(crate) enum Call {
    AllReduce {
        tensor: View,
        operator: Operator,
    },
    Broadcast {
        tensor: View,
        root: u32,
    },
    Reduce {
        tensor: View,
        operator: Operator,
        root: u32,
    },
    AllGather {
        input: View,
        output: View,
    },
    AllGatherList {
        input: View,
        outputs: Vec<View>,
    },
    ReduceScatter {
        input: View,
        output: View,
        operator: Operator,
    },
    ReduceScatterList {
        inputs: Vec<View>,
        output: View,
        operator: Operator,
    },
    AllToAll {
        input: View,
        output: View,
    },
    AllToAllList {
        inputs: Vec<View>,
        outputs: Vec<View>,
    },
    Gather {
        input: View,
        outputs: Vec<View>,
        root: u32,
    },
    Scatter {
        inputs: Vec<View>,
        output: View,
        root: u32,
    },
    Barrier,
    /// Calls that follow each other.
    Several(Vec<Call>),
}

/// Returns the elements of a view, which the call reads.
///
/// Sound because views come from tensors that the caller of the call keeps until it has ended, and that are dense and aligned.
/// Programs that change a tensor during a call have a data race, as with any backend of PyTorch.
fn read<T: Element>(view: &View) -> &'static [T] {
    // SAFETY: as above; `T` is the type in which the elements are moved, or has its size.
    unsafe { view.slice() }
}

/// Returns the elements of a view, which the call writes; see [`read`].
#[allow(clippy::mut_from_ref)]
fn written<T: Element>(view: &View) -> &'static mut [T] {
    // SAFETY: as for `read`; calls whose input and output overlap copy the input first.
    unsafe { view.slice_mut() }
}

impl Call {
    /// Returns the name of the call, as PyTorch has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::AllReduce { .. } => "all_reduce",
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::AllGather { .. } => "all_gather_into_tensor",
            Self::AllGatherList { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter_tensor",
            Self::ReduceScatterList { .. } => "reduce_scatter",
            Self::AllToAll { .. } => "all_to_all_single",
            Self::AllToAllList { .. } => "all_to_all",
            Self::Gather { .. } => "gather",
            Self::Scatter { .. } => "scatter",
            Self::Barrier => "barrier",
            Self::Several(calls) => calls.first().map_or("a coalesced call", Self::name),
        }
    }

    /// Returns the tensors of the call.
    fn views(&self) -> Vec<&View> {
        match self {
            Self::AllReduce { tensor, .. } | Self::Broadcast { tensor, .. } | Self::Reduce { tensor, .. } => {
                vec![tensor]
            }
            Self::AllGather { input, output }
            | Self::ReduceScatter { input, output, .. }
            | Self::AllToAll { input, output } => vec![input, output],
            Self::AllGatherList { input: single, outputs: list }
            | Self::Gather { input: single, outputs: list, .. }
            | Self::ReduceScatterList { inputs: list, output: single, .. }
            | Self::Scatter { inputs: list, output: single, .. } => list.iter().chain([single]).collect(),
            Self::AllToAllList { inputs, outputs } => inputs.iter().chain(outputs).collect(),
            Self::Barrier => Vec::new(),
            Self::Several(calls) => calls.iter().flat_map(Self::views).collect(),
        }
    }

    /// Returns the device of the tensors, `None` for the CPU.
    ///
    /// # Errors
    /// An invalid input if they are not all on one.
    pub(crate) fn device(&self) -> Result<Option<u32>, Failure> {
        // Without a list of the tensors in the most frequent call.
        if let Self::AllReduce { tensor, .. } = self {
            return Ok(tensor.device);
        }
        let views = self.views();
        let device = views.first().and_then(|view| view.device);
        if views.iter().any(|view| view.device != device) {
            return Err(Failure::invalid(self.name(), "expected tensors on one device, found several devices".into()));
        }
        Ok(device)
    }

    /// Makes the call.
    pub(crate) fn run(&self, comm: &Communicator, staging: &mut Staging) -> Result<(), Failure> {
        match self {
            Self::AllReduce { tensor, operator } => all_reduce(comm, tensor, *operator, staging)?,
            Self::Broadcast { tensor, root } => {
                with_type!(tensor.kind.moved().0, T => comm.broadcast_in_place::<T>(written(tensor), *root))?;
            }
            Self::Reduce { tensor, operator, root } => reduce(comm, tensor, *operator, *root, staging)?,
            Self::AllGather { input, output } => all_gather(comm, input, output, staging)?,
            Self::AllGatherList { input, outputs } => all_gather_list(comm, input, outputs, staging)?,
            Self::ReduceScatter { input, output, operator } => {
                reduce_scatter(comm, read(input), output, *operator, input.overlaps(output), staging)?;
            }
            Self::ReduceScatterList { inputs, output, operator } => {
                let mut whole = Staging::default();
                let bytes = whole.bytes(inputs.iter().map(|input| input.bytes).sum())?;
                concatenate(inputs, bytes);
                reduce_scatter(comm, bytes, output, *operator, false, staging)?;
            }
            Self::AllToAll { input, output } => all_to_all(comm, input, output, staging)?,
            Self::AllToAllList { inputs, outputs } => all_to_all_list(comm, inputs, outputs, staging)?,
            Self::Gather { input, outputs, root } => {
                let all = staging.bytes(outputs.iter().map(|output| output.bytes).sum())?;
                comm.gather::<u8>(read(input), all, *root)?;
                divide(all, outputs);
            }
            Self::Scatter { inputs, output, root } => {
                let all = staging.bytes(inputs.iter().map(|input| input.bytes).sum())?;
                concatenate(inputs, all);
                comm.scatter::<u8>(all, written(output), *root)?;
            }
            Self::Barrier => comm.barrier()?,
            Self::Several(calls) => calls.iter().try_for_each(|call| call.run(comm, staging))?,
        }
        Ok(())
    }
}

/// Writes the inputs one after the other.
fn concatenate(inputs: &[View], all: &mut [u8]) {
    let mut rest = all;
    for input in inputs {
        let (part, next) = std::mem::take(&mut rest).split_at_mut(input.bytes);
        part.copy_from_slice(read(input));
        rest = next;
    }
}

/// Writes to each output its part, in order.
fn divide(all: &[u8], outputs: &[View]) {
    let mut rest = all;
    for output in outputs {
        let (part, next) = rest.split_at(output.bytes);
        written::<u8>(output).copy_from_slice(part);
        rest = next;
    }
}

fn all_reduce(comm: &Communicator, tensor: &View, operator: Operator, staging: &mut Staging) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.all_reduce_in_place::<T>(written(tensor), op))?;
        }
        Operator::Fold(..) => {
            let piece = (FOLDED_BYTES / comm.num_ranks() as usize / 16).max(1) * 16;
            for part in written::<u8>(tensor).chunks_mut(piece) {
                let all = staging.bytes(part.len() * comm.num_ranks() as usize)?;
                comm.all_gather::<u8>(part, all)?;
                folded(operator, all, part)?;
            }
        }
    }
    Ok(())
}

/// Reduces what was gathered.
fn folded(operator: Operator, all: &[u8], result: &mut [u8]) -> Result<(), Failure> {
    match operator {
        Operator::Fold(op, kind) => fold(op, kind, all, result),
        Operator::Plain(op, _) => Err(Error::Internal(format!("{op} is a reduction of the algorithms")).into()),
    }
}

fn reduce(
    comm: &Communicator,
    tensor: &View,
    operator: Operator,
    root: u32,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) if gloo_order::has_order(comm, op, dtype) => {
            let result = staging.bytes(gloo_order::reduced_bytes(tensor.bytes, comm.num_ranks()))?;
            let (elements, padding) = result.split_at_mut(tensor.bytes);
            elements.copy_from_slice(read(tensor));
            padding.fill(0);
            with_type!(dtype, T => comm.all_reduce_in_place::<T>(bytemuck::cast_slice_mut(result), op))?;
            if comm.rank() == root {
                written::<u8>(tensor).copy_from_slice(&result[..tensor.bytes]);
            }
        }
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.reduce_in_place::<T>(written(tensor), op, root))?;
        }
        Operator::Fold(..) => {
            let piece = (FOLDED_BYTES / comm.num_ranks() as usize / 16).max(1) * 16;
            for part in written::<u8>(tensor).chunks_mut(piece) {
                let all = staging.bytes(part.len() * comm.num_ranks() as usize)?;
                comm.all_gather::<u8>(part, all)?;
                if comm.rank() == root {
                    folded(operator, all, part)?;
                }
            }
        }
    }
    Ok(())
}

fn all_gather(comm: &Communicator, input: &View, output: &View, staging: &mut Staging) -> Result<(), Failure> {
    let own = output.address + comm.rank() as usize * input.bytes;
    let is_whole = input.bytes.checked_mul(comm.num_ranks() as usize) == Some(output.bytes);
    with_type!(output.kind.moved().0, T => {
        if is_whole && input.address == own {
            comm.all_gather_in_place::<T>(written(output))
        } else if input.overlaps(output) {
            let copy = staging.bytes(input.bytes)?;
            copy.copy_from_slice(read(input));
            comm.all_gather::<T>(bytemuck::cast_slice(copy), written(output))
        } else {
            comm.all_gather::<T>(read(input), written(output))
        }
    })?;
    Ok(())
}

fn all_gather_list(comm: &Communicator, input: &View, outputs: &[View], staging: &mut Staging) -> Result<(), Failure> {
    if outputs.iter().all(|output| output.bytes == input.bytes) {
        let all = staging.bytes(input.bytes * outputs.len())?;
        with_type!(input.kind.moved().0, T => comm.all_gather::<T>(read(input), bytemuck::cast_slice_mut(all)))?;
        divide(all, outputs);
        return Ok(());
    }
    // All ranks have the same lengths, each rank's own one.
    for (root, output) in (0..).zip(outputs) {
        if root == comm.rank() && output.address != input.address {
            let own = staging.bytes(input.bytes)?;
            own.copy_from_slice(read(input));
            written::<u8>(output).copy_from_slice(own);
        }
        comm.broadcast_in_place::<u8>(written(output), root)?;
    }
    Ok(())
}

/// Reduces the parts of `input`, which are one after the other.
fn reduce_scatter(
    comm: &Communicator,
    input: &[u8],
    output: &View,
    operator: Operator,
    overlaps: bool,
    staging: &mut Staging,
) -> Result<(), Failure> {
    match operator {
        Operator::Plain(op, dtype) if gloo_order::has_order(comm, op, dtype) => {
            let result = staging.bytes(input.len())?;
            with_type!(dtype, T => comm.all_reduce::<T>(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(result), op))?;
            let part = comm.rank() as usize * output.bytes;
            written::<u8>(output).copy_from_slice(&result[part..part + output.bytes]);
        }
        Operator::Plain(op, dtype) if overlaps => {
            // The parts of the input that are no output stay as they are.
            let result = staging.bytes(output.bytes)?;
            with_type!(dtype, T => comm.reduce_scatter::<T>(bytemuck::cast_slice(input), bytemuck::cast_slice_mut(result), op))?;
            written::<u8>(output).copy_from_slice(result);
        }
        Operator::Plain(op, dtype) => {
            with_type!(dtype, T => comm.reduce_scatter::<T>(bytemuck::cast_slice(input), written(output), op))?;
        }
        Operator::Fold(..) => {
            let all = staging.bytes(input.len())?;
            comm.all_to_all::<u8>(input, all)?;
            folded(operator, all, written(output))?;
        }
    }
    Ok(())
}

fn all_to_all(comm: &Communicator, input: &View, output: &View, staging: &mut Staging) -> Result<(), Failure> {
    with_type!(output.kind.moved().0, T => {
        if input.address == output.address && input.bytes == output.bytes {
            comm.all_to_all_in_place::<T>(written(output))
        } else if input.overlaps(output) {
            let copy = staging.bytes(input.bytes)?;
            copy.copy_from_slice(read(input));
            comm.all_to_all::<T>(bytemuck::cast_slice(copy), written(output))
        } else {
            comm.all_to_all::<T>(read(input), written(output))
        }
    })?;
    Ok(())
}

fn all_to_all_list(
    comm: &Communicator,
    inputs: &[View],
    outputs: &[View],
    staging: &mut Staging,
) -> Result<(), Failure> {
    let all = staging.bytes(inputs.iter().map(|input| input.bytes).sum())?;
    concatenate(inputs, all);
    let counts: Vec<usize> = inputs.iter().map(|input| input.bytes).collect();
    let received = comm.all_to_all_v::<u8>(all, &counts)?;
    let expected: Vec<usize> = outputs.iter().map(|output| output.bytes).collect();
    if received.counts != expected {
        let found = &received.counts;
        let message =
            format!("expected {expected:?} bytes from the ranks, found {found:?}; make the sizes of both sides equal");
        return Err(Failure::of_kind("mismatch", "all_to_all", message));
    }
    divide(&received.elements, outputs);
    Ok(())
}
