//! Handles of the authoring API as Python objects.

use mscclpp_core::dsl::registry::{BufferValue, ChannelValue, ChunkValue, OpsValue, SwitchValue, Value};
use mscclpp_core::types::ChannelKind;
use pyo3::prelude::*;

use crate::plan::PlanError;

/// A rank, buffer, chunk, channel, semaphore, group or recorded operation of one program.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct Handle {
    program: u64,
    content: Content,
}

/// The values that have methods, in a form that threads can share.
enum Content {
    Rank(u32),
    Buffer(BufferValue),
    Chunk(ChunkValue),
    Channel(ChannelValue),
    Switch(SwitchValue),
    SwitchMember(SwitchValue),
    Semaphore(u32, u32),
    Group(Box<[u32]>),
    SyncCall(OpsValue, ChannelKind),
    Handshake(OpsValue, ChannelKind),
    SemaphoreCall(OpsValue),
    Reduction(OpsValue),
    SwitchReduction(OpsValue),
}

impl Handle {
    /// Returns the handle of a result; `None` if it has no methods.
    pub(super) fn new(program: u64, value: Value) -> Option<Self> {
        let content = match value {
            Value::Rank(rank) => Content::Rank(rank),
            Value::Buffer(buffer) => Content::Buffer(buffer),
            Value::Chunk(chunk) => Content::Chunk(chunk),
            Value::Channel(channel) => Content::Channel(channel),
            Value::Switch(switch) => Content::Switch(switch),
            Value::SwitchMember(switch) => Content::SwitchMember(switch),
            Value::Semaphore(rank, id) => Content::Semaphore(rank, id),
            Value::Group(group) => Content::Group(group.iter().copied().collect()),
            Value::SyncCall(ops, kind) => Content::SyncCall(ops, kind),
            Value::Handshake(ops, kind) => Content::Handshake(ops, kind),
            Value::SemaphoreCall(ops) => Content::SemaphoreCall(ops),
            Value::Reduction(ops) => Content::Reduction(ops),
            Value::SwitchReduction(ops) => Content::SwitchReduction(ops),
            Value::Unit
            | Value::Int(_)
            | Value::Bool(_)
            | Value::Range(_)
            | Value::List(_)
            | Value::BufferKind(_)
            | Value::BlockSync(_)
            | Value::ReduceOp(_) => return None,
        };
        Some(Self { program, content })
    }

    /// Returns the value, for a call on a program.
    pub(super) fn value(&self, program: u64) -> PyResult<Value> {
        let value = match &self.content {
            Content::Rank(rank) => Value::Rank(*rank),
            Content::Buffer(buffer) => Value::Buffer(*buffer),
            Content::Chunk(chunk) => Value::Chunk(*chunk),
            Content::Channel(channel) => Value::Channel(*channel),
            Content::Switch(switch) => Value::Switch(*switch),
            Content::SwitchMember(switch) => Value::SwitchMember(*switch),
            Content::Semaphore(rank, id) => Value::Semaphore(*rank, *id),
            Content::Group(group) => Value::Group(group.as_ref().into()),
            Content::SyncCall(ops, kind) => Value::SyncCall(*ops, *kind),
            Content::Handshake(ops, kind) => Value::Handshake(*ops, *kind),
            Content::SemaphoreCall(ops) => Value::SemaphoreCall(*ops),
            Content::Reduction(ops) => Value::Reduction(*ops),
            Content::SwitchReduction(ops) => Value::SwitchReduction(*ops),
        };
        if program != self.program {
            let text = format!("{} of another program is used; create it in this program", value.kind_name());
            return Err(PlanError::new_err(text));
        }
        Ok(value)
    }
}

#[pymethods]
impl Handle {
    /// The first chunk and the number of chunks of a buffer or chunk.
    #[getter]
    fn extent(&self) -> Option<(u32, u32)> {
        match &self.content {
            Content::Buffer(buffer) => Some((buffer.start, buffer.len)),
            Content::Chunk(chunk) => Some((chunk.index, chunk.size)),
            _ => None,
        }
    }
}
