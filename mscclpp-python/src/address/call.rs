//! A collective call on two ranges of addresses.

use mscclpp_communicator::Communicator;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::cuda::Stream;
use mscclpp_exec::{DataType, Element, Error, with_type};

use super::allocation;
use super::memory::Memory;
use super::symmetric::SymmetricMemory;
use super::target::{Algorithm, Target};
use crate::failure::Failure;

/// Makes a call of a communicator, or of one on a stream, which have methods of the same names.
macro_rules! make {
    ($on:expr, $call:expr, $type:ident, in place: $buffer:expr) => {
        match $call.kind {
            CollectiveKind::AllReduce => $on.all_reduce_in_place::<$type>($buffer, $call.op),
            CollectiveKind::AllGather => $on.all_gather_in_place::<$type>($buffer),
            CollectiveKind::ReduceScatter => $on.reduce_scatter_in_place::<$type>($buffer, $call.op),
            CollectiveKind::AllToAll => $on.all_to_all_in_place::<$type>($buffer),
            CollectiveKind::SendRecv => $on.send_recv_in_place::<$type>($buffer),
            CollectiveKind::Broadcast => $on.broadcast_in_place::<$type>($buffer, $call.root),
            CollectiveKind::Reduce => $on.reduce_in_place::<$type>($buffer, $call.op, $call.root),
            CollectiveKind::AllToAllV | CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => Ok(()),
        }
    };
    ($on:expr, $call:expr, $type:ident, $input:expr, $output:expr) => {
        match $call.kind {
            CollectiveKind::AllReduce => $on.all_reduce::<$type>($input, $output, $call.op),
            CollectiveKind::AllGather => $on.all_gather::<$type>($input, $output),
            CollectiveKind::ReduceScatter => $on.reduce_scatter::<$type>($input, $output, $call.op),
            CollectiveKind::AllToAll => $on.all_to_all::<$type>($input, $output),
            CollectiveKind::SendRecv => $on.send_recv::<$type>($input, $output),
            CollectiveKind::Broadcast => $on.broadcast::<$type>($input, $output, $call.root),
            CollectiveKind::Reduce => $on.reduce::<$type>($input, $output, $call.op, $call.root),
            CollectiveKind::AllToAllV | CollectiveKind::Custom { .. } | CollectiveKind::Test { .. } => Ok(()),
        }
    };
}

/// The memory of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// One buffer, the larger of input and output.
    InPlace(Memory),
    /// Input and output, which have no common bytes.
    OutOfPlace(Memory, Memory),
}

/// A call whose arguments are valid.
pub(super) struct Call {
    pub(super) kind: CollectiveKind,
    place: Place,
    dtype: DataType,
    op: ReduceOp,
    root: u32,
}

impl Call {
    /// Checks the arguments.
    pub(super) fn new(
        comm: &Communicator,
        target: &Target,
        input: (u64, u64),
        output: (u64, u64),
        dtype: DataType,
        op: ReduceOp,
    ) -> Result<Self, Failure> {
        let (rank, ranks, size) = (u64::from(comm.rank()), u64::from(comm.num_ranks()), dtype.size() as u64);
        let (kind, root, collective) = (target.kind, target.root, target.collective.as_str());
        // How many of the smaller buffer make the larger one.
        let (inputs, outputs) = match kind {
            CollectiveKind::AllGather => (ranks, 1),
            CollectiveKind::ReduceScatter => (1, ranks),
            _ => (1, 1),
        };
        let memory = |name, at| Memory::new(collective, name, at, size);
        let (input, output) = (memory("input", input)?, memory("output", output)?);
        if input.bytes.checked_mul(inputs) != output.bytes.checked_mul(outputs) {
            let text = format!(
                "expected {inputs} times the input's bytes to be {outputs} times the output's, found {} and {} bytes",
                input.bytes, output.bytes
            );
            return Err(Failure::invalid(collective, text));
        }
        let (larger, smaller) = if input.bytes < output.bytes { (output, input) } else { (input, output) };
        let part = larger.address + if larger.bytes == smaller.bytes { 0 } else { rank * smaller.bytes };
        // The reference's callers name the whole buffer twice, or the rank's part of it.
        let in_place = match &target.algorithm {
            // Memory of no bytes has no address to compare: that of an empty tensor is 0.
            Algorithm::Plan(plan) if larger.bytes == 0 => plan.collective().in_place,
            _ => smaller.address == larger.address || smaller.address == part,
        };
        let place = if in_place {
            Place::InPlace(larger)
        } else if input.overlaps(output) {
            let text = format!(
                "expected input and output without common bytes, or one that is the other or this rank's part of it at \
                 {part:#x}, found {:#x} and {:#x}",
                input.address, output.address
            );
            return Err(Failure::invalid(collective, text));
        } else {
            Place::OutOfPlace(input, output)
        };
        Ok(Self { kind, place, dtype, op, root })
    }

    /// Makes the call on memory of the stream's device.
    pub(super) fn run_on_device(&self, comm: &Communicator, stream: &Stream) -> Result<(), Error> {
        with_type!(self.dtype, T => {
            let on = comm.on(stream);
            match self.place {
                Place::InPlace(mut buffer) => make!(on, self, T, in place: &mut buffer),
                Place::OutOfPlace(input, mut output) => make!(on, self, T, &input, &mut output),
            }
        })
    }

    /// Makes the call in place on symmetric memory, which is registered at its first use, as on all ranks.
    pub(super) fn run_on_symmetric(
        &self,
        symmetric: &SymmetricMemory,
        comm: &Communicator,
        stream: &Stream,
    ) -> Result<(), Error> {
        let on = comm.on(stream);
        let mut registered = symmetric.lock();
        with_type!(self.dtype, T => match self.place {
            Place::InPlace(buffer) => {
                registered.register(buffer, &on)?;
                make!(on, self, T, in place: &mut registered.part(buffer)?)
            }
            Place::OutOfPlace(input, output) => {
                registered.register(input, &on)?;
                registered.register(output, &on)?;
                make!(on, self, T, &registered.part(input)?, &mut registered.part(output)?)
            }
        })
    }

    /// Checks that the memory is symmetric.
    ///
    /// # Errors
    /// A failure that names the memory that is not.
    pub(super) fn check_symmetric(&self, collective: &str) -> Result<(), Failure> {
        let memory = match self.place {
            Place::InPlace(buffer) => [("buffer", buffer); 2],
            Place::OutOfPlace(input, output) => [("input", input), ("output", output)],
        };
        match memory.into_iter().find(|(_, memory)| memory.bytes > 0 && allocation::containing(*memory).is_none()) {
            None => Ok(()),
            Some((name, Memory { address, bytes })) => Err(Failure::invalid(
                collective,
                format!(
                    "{name}: expected memory of one RawGpuBuffer with symmetric_memory=True, found {bytes} bytes at {address:#x}"
                ),
            )),
        }
    }

    /// Returns whether the call has elements.
    pub(super) fn has_elements(&self) -> bool {
        match self.place {
            Place::InPlace(buffer) => buffer.bytes > 0,
            Place::OutOfPlace(input, output) => input.bytes.max(output.bytes) > 0,
        }
    }

    /// Makes the call on host memory.
    pub(super) fn run_on_host(&self, comm: &Communicator) -> Result<(), Error> {
        with_type!(self.dtype, T => self.on_host::<T>(comm))
    }

    fn on_host<T: Element>(&self, comm: &Communicator) -> Result<(), Error> {
        match self.place {
            Place::InPlace(buffer) => {
                // SAFETY: callers of `execute` pass host memory that exists and that nothing else uses during the call.
                let buffer = unsafe { buffer.elements_mut::<T>() };
                make!(comm, self, T, in place: buffer)
            }
            Place::OutOfPlace(input, output) => {
                // SAFETY: as above; `new` has checked that the two have no common bytes.
                let (input, output) = unsafe { (input.elements::<T>(), output.elements_mut::<T>()) };
                make!(comm, self, T, input, output)
            }
        }
    }
}
