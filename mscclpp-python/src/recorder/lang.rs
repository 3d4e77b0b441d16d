//! Programs of the first generation of the language, `mscclpp_core::lang`. Python records the calls; they are made when the program ends,
//! since the references to chunks of that interface cannot outlive it.

use std::sync::Arc;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::lang::{
    Buffer, ChannelType, ChunkRef, Collective, DataFormat, MscclppProgram, PacketOptions, ProgramContext,
};
use mscclpp_core::origin::SourceLocation;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Place;
use super::spec::{get, protocol};

/// A call: place, method, the number of the reference that it is called on, and arguments.
pub(super) type Call = (Place, String, Option<usize>, Vec<Option<Argument>>);

/// An argument of a call. References are given by their numbers: calls that return some number them in order.
#[derive(FromPyObject)]
pub(super) enum Argument {
    Int(i64),
    Name(String),
    Ints(Vec<i64>),
}

/// Returns the program that a dictionary specifies, without its calls.
pub(super) fn program(spec: &Bound<'_, PyDict>) -> PyResult<MscclppProgram> {
    let name: String = get(spec, "collective")?;
    let (ranks, factor, in_place) = (get(spec, "num_ranks")?, get(spec, "chunk_factor")?, get(spec, "in_place")?);
    let collective = match CollectiveKind::from_name(&name) {
        Some(CollectiveKind::AllReduce) => Collective::all_reduce(ranks, factor, in_place),
        Some(CollectiveKind::AllGather) => Collective::all_gather(ranks, factor, in_place),
        Some(CollectiveKind::ReduceScatter) => Collective::reduce_scatter(ranks, factor, in_place),
        Some(CollectiveKind::AllToAll) => Collective::all_to_all(ranks, factor, in_place),
        Some(CollectiveKind::SendRecv) => Collective::send_recv(ranks, factor, in_place),
        Some(CollectiveKind::Broadcast) => Collective::broadcast(ranks, factor, in_place, get(spec, "root")?),
        _ => return Err(PyValueError::new_err(format!("expected a collective of the language, found {name}"))),
    };
    let program = MscclppProgram::new(
        get::<String>(spec, "name")?,
        collective,
        get(spec, "program_ranks")?,
        get(spec, "instances")?,
    )
    .protocol(protocol(spec)?)
    .instr_fusion(get(spec, "instr_fusion")?)
    .num_threads_per_block(get(spec, "num_threads_per_block")?)
    .use_double_scratch_buffer(get(spec, "use_double_scratch_buffer")?)
    .min_message_size(get(spec, "min_message_size")?)
    .max_message_size(get(spec, "max_message_size")?);
    Ok(program)
}

/// Makes the calls. One on a reference that an earlier call did not return, because it was rejected, is passed over.
pub(super) fn replay(context: &ProgramContext<'_>, calls: &[Call]) {
    let mut file: Arc<str> = Arc::from("");
    let mut references = Vec::new();
    for ((path, line, column), method, receiver, arguments) in calls {
        if *file != **path {
            file = Arc::from(path.as_str());
        }
        let place =
            SourceLocation { file: Arc::clone(&file), line: *line, column: *column, ..SourceLocation::default() };
        context.set_location(place);
        let arguments = Arguments { given: arguments, references: &references };
        let made = match receiver {
            None => of_context(context, method, &arguments),
            Some(receiver) => references.get(*receiver).and_then(|on| of_chunk(on, method, &arguments)),
        };
        references.extend(made.unwrap_or_default());
    }
}

/// The arguments of a call, which Python has checked.
struct Arguments<'a, 'c> {
    given: &'a [Option<Argument>],
    references: &'a [ChunkRef<'c>],
}

impl<'c> Arguments<'_, 'c> {
    fn int(&self, at: usize) -> Option<i64> {
        match self.given.get(at)?.as_ref()? {
            Argument::Int(value) => Some(*value),
            _ => None,
        }
    }

    fn number(&self, at: usize) -> Option<usize> {
        usize::try_from(self.int(at)?).ok()
    }

    fn numbers(&self, at: usize) -> Option<Vec<usize>> {
        match self.given.get(at)?.as_ref()? {
            Argument::Ints(values) => values.iter().map(|value| usize::try_from(*value).ok()).collect(),
            _ => None,
        }
    }

    fn name(&self, at: usize) -> Option<&str> {
        match self.given.get(at)?.as_ref()? {
            Argument::Name(name) => Some(name),
            _ => None,
        }
    }

    fn buffer(&self, at: usize) -> Option<Buffer> {
        match self.name(at)? {
            "input" => Some(Buffer::Input),
            "output" => Some(Buffer::Output),
            _ => Some(Buffer::Scratch),
        }
    }

    fn channel(&self, at: usize) -> ChannelType {
        if self.name(at) == Some("proxy") { ChannelType::Proxy } else { ChannelType::Sm }
    }

    fn reference(&self, at: usize) -> Option<ChunkRef<'c>> {
        self.references.get(self.number(at)?).copied()
    }
}

/// Makes a call of the program, and returns the references that it gives.
fn of_context<'c>(
    context: &'c ProgramContext<'c>,
    method: &str,
    given: &Arguments<'_, 'c>,
) -> Option<Vec<ChunkRef<'c>>> {
    if method == "barrier" {
        context.rank(given.number(0)?).barrier(&given.numbers(1)?);
        return None;
    }
    Some(vec![context.chunk(given.number(0)?, given.buffer(1)?, given.int(2)?, given.number(3)?)])
}

/// Makes a call of a reference, and returns the references that it gives.
fn of_chunk<'c>(on: &ChunkRef<'c>, method: &str, given: &Arguments<'_, 'c>) -> Option<Vec<ChunkRef<'c>>> {
    let target = || Some((given.number(0)?, given.buffer(1), given.int(2)?, given.number(3)?));
    let channel = given.channel(4);
    let made = match method {
        "put" => {
            let (rank, buffer, index, block) = target()?;
            on.put(rank, buffer, index, block, channel)
        }
        "copy" => {
            let (rank, buffer, index, block) = target()?;
            on.copy(rank, buffer, index, block)
        }
        "copy_packet" => {
            let (rank, buffer, index, block) = target()?;
            on.copy_packet(rank, buffer, index, block)
        }
        "put_packet" => {
            let (rank, buffer, index, block) = target()?;
            let options = PacketOptions {
                src_format: if given.name(7) == Some("packet") { DataFormat::Packet } else { DataFormat::Raw },
                chan_type: channel,
                temp_buffer: given.buffer(5),
                temp_buffer_index: given.int(6)?,
            };
            on.put_packet(rank, buffer, index, block, options)
        }
        "reduce" => on.reduce(given.reference(0)?, given.number(1)?, given.channel(2)),
        "reduce_packet" => on.reduce_packet(given.reference(0)?, given.number(1)?),
        "group" => on.group(given.reference(0)?),
        "group_load_reduce" => {
            let others: Option<Vec<_>> =
                given.numbers(0)?.into_iter().map(|number| given.references.get(number).copied()).collect();
            on.group_load_reduce(&others?, given.number(1)?)
        }
        "split" => return Some(on.split(given.number(0)?)),
        // Calls that give none.
        "group_store" => {
            on.group_store(&given.numbers(0)?, given.number(1)?);
            return None;
        }
        _ => {
            let (rank, buffer, index, block) = target()?;
            match method {
                "get" => on.get(rank, buffer, index, block, channel),
                "signal" => on.signal(rank, buffer, index, block, channel),
                "wait" => on.wait(rank, buffer, index, block, channel),
                _ => on.flush(rank, buffer, index, block, channel),
            }
            return None;
        }
    };
    Some(vec![made])
}
