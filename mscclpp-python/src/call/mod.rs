//! Collective calls on the memory of tensors.

mod memory;
mod moves;
mod norms;
mod reductions;

use std::borrow::Cow;

use mscclpp_bootstrap::place;
use mscclpp_communicator::Communicator;
use mscclpp_exec::with_type;

pub(crate) use self::memory::Staging;
use self::memory::{concatenate, divide, read, written};
use self::moves::{all_gather, all_gather_list, all_to_all, all_to_all_list, all_to_all_rows};
pub(crate) use self::norms::RowNormCall;
use self::reductions::{all_reduce, all_reduce_list, reduce, reduce_scatter, reduce_scatter_list};
use crate::failure::Failure;
use crate::operator::Operator;
use crate::tensor::{Kind, View};

/// A collective call on tensors, which exist until it has ended. Lists have a tensor per rank.
#[derive(Debug)]
pub(crate) enum Call {
    AllReduce {
        tensor: View,
        operator: Operator,
    },
    /// All-reduces of tensors of one type.
    AllReduceList {
        tensors: Vec<View>,
        operator: Operator,
    },
    /// An all-reduce or all-gather of rows, which are normalized.
    RowNorm(Box<RowNormCall>),
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
    /// Of rows, which consist of a number of elements: `sent` has the numbers of those for each rank, and `received` gets those from
    /// each rank; on a device at most `most`.
    AllToAllRows {
        input: View,
        output: View,
        sent: View,
        received: View,
        elements: usize,
        most: usize,
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

impl Call {
    /// Returns the name of the call, as PyTorch has it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::AllReduce { .. } => "all_reduce",
            Self::AllReduceList { .. } => "all_reduce_coalesced",
            Self::RowNorm(call) => call.name(),
            Self::Broadcast { .. } => "broadcast",
            Self::Reduce { .. } => "reduce",
            Self::AllGather { .. } => "all_gather_into_tensor",
            Self::AllGatherList { .. } => "all_gather",
            Self::ReduceScatter { .. } => "reduce_scatter_tensor",
            Self::ReduceScatterList { .. } => "reduce_scatter",
            Self::AllToAll { .. } | Self::AllToAllRows { .. } => "all_to_all_single",
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
            Self::AllReduceList { tensors, .. } => tensors.iter().collect(),
            Self::RowNorm(call) => call.views(),
            Self::AllToAllList { inputs, outputs } => inputs.iter().chain(outputs).collect(),
            Self::AllToAllRows { input, output, sent, received, .. } => vec![input, output, sent, received],
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

    /// Returns the type of the elements; `None` if the call has none, or consists of several.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::AllReduce { tensor: view, .. }
            | Self::Broadcast { tensor: view, .. }
            | Self::Reduce { tensor: view, .. }
            | Self::AllGather { input: view, .. }
            | Self::AllGatherList { input: view, .. }
            | Self::ReduceScatter { output: view, .. }
            | Self::ReduceScatterList { output: view, .. }
            | Self::AllToAll { input: view, .. }
            | Self::AllToAllRows { input: view, .. }
            | Self::Gather { input: view, .. }
            | Self::Scatter { output: view, .. } => Some(view.kind),
            Self::AllReduceList { tensors: list, .. } | Self::AllToAllList { outputs: list, .. } => {
                list.first().map(|view| view.kind)
            }
            Self::RowNorm(call) => Some(call.input.kind),
            Self::Barrier | Self::Several(_) => None,
        }
    }

    /// Returns the handle with which the call is made: ranks with other types make other calls, also where both are moved as one.
    pub(crate) fn handle<'a>(&self, comm: &'a Communicator) -> Cow<'a, Communicator> {
        // The most frequent call has a type of messages.
        if let Self::AllReduce { operator: Operator::Plain(_, dtype), tensor } = self
            && tensor.kind == Kind::Plain(*dtype)
        {
            return Cow::Borrowed(comm);
        }
        self.kind().map_or(Cow::Borrowed(comm), |kind| Cow::Owned(comm.with_element_name(kind.name())))
    }

    /// Makes the call.
    pub(crate) fn run(&self, comm: &Communicator, staging: &mut Staging) -> Result<(), Failure> {
        let comm = &*self.handle(comm);
        // Messages would state lines of this library.
        let _name = place::enter_name(self.name());
        match self {
            Self::AllReduce { tensor, operator } => all_reduce(comm, tensor, *operator, staging)?,
            Self::AllReduceList { tensors, operator } => all_reduce_list(comm, tensors, *operator, staging)?,
            Self::RowNorm(call) => call.run(comm, staging)?,
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
                reduce_scatter_list(comm, inputs, output, *operator, staging)?;
            }
            Self::AllToAll { input, output } => all_to_all(comm, input, output, staging)?,
            Self::AllToAllList { inputs, outputs } => all_to_all_list(comm, inputs, outputs, staging)?,
            Self::AllToAllRows { input, output, sent, received, elements, .. } => {
                all_to_all_rows(comm, [input, output], [sent, received], *elements, staging)?;
            }
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
