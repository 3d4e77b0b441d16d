//! Registry of the functions of the authoring API by name, and the untyped values of their arguments: for the evaluator of
//! the macros and for the page of what is evaluated. Not part of the public API.

pub use super::args::Kind;
use super::buffer::{AnyBuffer, Buffer, Chunk};
use super::channel::{Channel, ChannelMarker, Handshake, SyncCall};
use super::group::ThreadBlockGroup;
use super::program::Program;
use super::rank::{Rank, Ranks, Reduction};
use super::semaphore::{Semaphore, SemaphoreCall};
use super::switch::{SwitchChannel, SwitchMember, SwitchReduction};
pub use super::value::{
    ArgError, BufferValue, ChannelValue, ChunkValue, GroupValue, OpsValue, RangeValue, SwitchValue, Value,
};
use super::{buffer, channel, group, program, rank, semaphore, switch};
use crate::types::{BlockSync, BufferKind, ReduceOp};

/// A parameter of a function.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// The kind of argument that it accepts.
    pub kind: Kind,
}

/// A function of the authoring API.
#[derive(Clone, Copy)]
pub struct Method {
    /// Its name.
    pub name: &'static str,
    /// Its parameters, without the receiver.
    pub params: &'static [Param],
    /// The type it returns, as written; empty for `()`.
    pub returns: &'static str,
    /// Its documentation; the first line is a summary.
    pub doc: &'static str,
    /// Calls it on untyped values. The receiver of a method of `Program` is [`Value::Unit`].
    pub call: fn(&Program, &Value, &[Value]) -> Result<Value, ArgError>,
}

/// A type of the authoring API with its methods.
pub struct Type {
    /// Its name, as [`Value::type_name`] gives it; `Program` for the program itself.
    pub name: &'static str,
    tables: &'static [&'static [Method]],
}

impl Type {
    /// The type's methods, in the order of their declaration.
    pub fn methods(&self) -> impl Iterator<Item = &'static Method> {
        self.tables.iter().flat_map(|table| table.iter())
    }
}

/// All types. `Program::pipeline` and `Program::ranks` are listed like all others; `pipeline` takes a closure, which
/// the evaluator runs between [`Program::begin_pipeline`] and [`Program::end_pipeline`].
pub const TYPES: &[Type] = &[
    Type { name: "Program", tables: program::METHODS },
    Type { name: "Rank", tables: rank::METHODS },
    Type { name: "Buffer", tables: buffer::BUFFER },
    Type { name: "Chunk", tables: buffer::CHUNK },
    Type { name: "MemoryChannel", tables: &[channel::COMMON[0], channel::MEMORY[0], channel::MEMORY_ONLY[0]] },
    Type { name: "PortChannel", tables: &[channel::COMMON[1], channel::PORT[0], channel::PORT_ONLY[0]] },
    Type { name: "[MemoryChannel]", tables: &[channel::CHANNELS[0]] },
    Type { name: "[PortChannel]", tables: &[channel::CHANNELS[1]] },
    Type { name: "SyncCall", tables: channel::SYNC_CALL },
    Type { name: "Handshake", tables: channel::HANDSHAKE },
    Type { name: "SwitchChannel", tables: switch::CHANNEL },
    Type { name: "SwitchMember", tables: switch::AT },
    Type { name: "SwitchReduction", tables: switch::REDUCTION },
    Type { name: "Reduction", tables: rank::REDUCTION },
    Type { name: "Semaphore", tables: semaphore::METHODS },
    Type { name: "SemaphoreCall", tables: semaphore::CALL },
    Type { name: "ThreadBlockGroup", tables: group::METHODS },
];

/// Returns the method of a type, by names.
pub fn method(type_name: &str, name: &str) -> Option<&'static Method> {
    TYPES.iter().find(|ty| ty.name == type_name)?.methods().find(|method| method.name == name)
}

/// Returns the value of a path such as `BufferKind::Input`, given its last two segments.
pub fn constant(type_name: &str, name: &str) -> Option<Value> {
    Some(match (type_name, name) {
        ("BufferKind", "Input") => Value::BufferKind(BufferKind::Input),
        ("BufferKind", "Output") => Value::BufferKind(BufferKind::Output),
        ("BufferKind", "Scratch") => Value::BufferKind(BufferKind::Scratch),
        ("BlockSync", "None") => Value::BlockSync(BlockSync::None),
        ("BlockSync", "Before") => Value::BlockSync(BlockSync::Before),
        ("BlockSync", "After") => Value::BlockSync(BlockSync::After),
        ("BlockSync", "Both") => Value::BlockSync(BlockSync::Both),
        ("ReduceOp", "Sum") => Value::ReduceOp(ReduceOp::Sum),
        ("ReduceOp", "Prod") => Value::ReduceOp(ReduceOp::Prod),
        ("ReduceOp", "Min") => Value::ReduceOp(ReduceOp::Min),
        ("ReduceOp", "Max") => Value::ReduceOp(ReduceOp::Max),
        ("ReduceOp", "Avg") => Value::ReduceOp(ReduceOp::Avg),
        _ => return None,
    })
}

/// Checks number and kinds of arguments.
pub(super) fn check_arguments(params: &[Param], args: &[Value]) -> Result<(), ArgError> {
    if params.len() != args.len() {
        return Err(ArgError::Count { expected: params.len(), found: args.len() });
    }
    for (index, (param, arg)) in params.iter().zip(args).enumerate() {
        if !param.kind.accepts(arg) {
            let (expected, found) = (param.kind.describe(), arg.kind_name());
            return Err(ArgError::Kind { name: param.name, index, expected, found });
        }
    }
    Ok(())
}

/// Returns a checked enum argument.
pub(super) fn enum_argument<T: FromValue + Default>(value: &Value) -> T {
    T::from_value(value).unwrap_or_default()
}

/// Enums of the API as values.
pub(super) trait FromValue: Sized {
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! enums {
    ($($ty:ident)*) => { $(
        impl FromValue for $ty {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$ty(value) => Some(*value),
                    _ => None,
                }
            }
        }
    )* };
}

enums! { BufferKind BlockSync ReduceOp }

/// A handle that is created from an untyped value.
pub(super) trait Receiver {
    type Handle<'p>;
    fn receive<'p>(program: &'p Program, value: &Value) -> Result<Self::Handle<'p>, ArgError>;
}

macro_rules! receivers {
    ($($ty:ty, $name:literal: $program:ident, $pattern:pat => $handle:expr, $out:ty;)*) => { $(
        impl Receiver for $ty {
            type Handle<'p> = $out;
            #[allow(clippy::needless_lifetimes, reason = "not every handle borrows the program")]
            fn receive<'p>($program: &'p Program, value: &Value) -> Result<$out, ArgError> {
                match value {
                    $pattern => Ok($handle),
                    other => Err(ArgError::Kind {
                        name: "self",
                        index: usize::MAX,
                        expected: $name,
                        found: other.kind_name(),
                    }),
                }
            }
        }
    )* };
}

receivers! {
    Program, "the program": program, Value::Unit => program, &'p Program;
    Rank<'static>, "a `Rank`": program, Value::Rank(id) => Rank::new(program, *id), Rank<'p>;
    Buffer<'static, AnyBuffer>, "a `Buffer`": program, Value::Buffer(buffer) => Buffer::new(program, *buffer), Buffer<'p, AnyBuffer>;
    Chunk<'static, AnyBuffer>, "a `Chunk`": program, Value::Chunk(chunk) => Chunk::new(program, *chunk), Chunk<'p, AnyBuffer>;
    SwitchChannel<'static>, "a `SwitchChannel`": program, Value::Switch(switch) => SwitchChannel::new(program, *switch), SwitchChannel<'p>;
    SwitchMember<'static>, "a `SwitchMember`": program, Value::SwitchMember(switch) => SwitchMember::new(program, *switch), SwitchMember<'p>;
    Semaphore<'static>, "a `Semaphore`": program, Value::Semaphore(rank, id) => Semaphore::new(program, *rank, *id), Semaphore<'p>;
    SemaphoreCall<'static>, "a `SemaphoreCall`": program, Value::SemaphoreCall(ops) => SemaphoreCall::new(program, *ops), SemaphoreCall<'p>;
    Reduction<'static>, "a `Reduction`": program, Value::Reduction(ops) => Reduction::new(program, *ops), Reduction<'p>;
    SwitchReduction<'static>, "a `SwitchReduction`": program, Value::SwitchReduction(ops) => SwitchReduction::new(program, *ops), SwitchReduction<'p>;
    SyncCall<'static, super::Memory>, "a `SyncCall`": program, Value::SyncCall(ops, _) => SyncCall::new(program, *ops), SyncCall<'p, super::Memory>;
    Handshake<'static, super::Memory>, "a `Handshake`": program, Value::Handshake(ops, _) => Handshake::new(program, *ops), Handshake<'p, super::Memory>;
    ThreadBlockGroup, "a `ThreadBlockGroup`": _program, Value::Group(group) => ThreadBlockGroup::from_value(group), ThreadBlockGroup;
}

impl<K: ChannelMarker> Receiver for Channel<'static, K> {
    type Handle<'p> = Channel<'p, K>;
    fn receive<'p>(program: &'p Program, value: &Value) -> Result<Channel<'p, K>, ArgError> {
        match value {
            Value::Channel(channel) if channel.kind == K::KIND => Ok(Channel::new(program, *channel)),
            other => {
                Err(ArgError::Kind { name: "self", index: usize::MAX, expected: K::EXPECTED, found: other.kind_name() })
            }
        }
    }
}

impl<K: ChannelMarker> Receiver for [Channel<'static, K>] {
    type Handle<'p> = Vec<Channel<'p, K>>;
    fn receive<'p>(program: &'p Program, value: &Value) -> Result<Vec<Channel<'p, K>>, ArgError> {
        match value {
            Value::List(list) => list.iter().map(|value| Channel::<K>::receive(program, value)).collect(),
            other => {
                let expected = "a list of channels";
                Err(ArgError::Kind { name: "self", index: usize::MAX, expected, found: other.kind_name() })
            }
        }
    }
}

/// A result that is converted to an untyped value.
pub(super) trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for () {
    fn into_value(self) -> Value {
        Value::Unit
    }
}

impl IntoValue for usize {
    fn into_value(self) -> Value {
        Value::Int(self as i128)
    }
}

impl IntoValue for bool {
    fn into_value(self) -> Value {
        Value::Bool(self)
    }
}

impl IntoValue for Ranks<'_> {
    fn into_value(self) -> Value {
        Value::List(std::rc::Rc::new(self.map(IntoValue::into_value).collect()))
    }
}

macro_rules! into_values {
    ($($ty:ty: $value:ident => $out:expr;)*) => { $(
        impl IntoValue for $ty {
            fn into_value(self) -> Value {
                let $value = self;
                $out
            }
        }
    )* };
}

into_values! {
    Rank<'_>: rank => Value::Rank(rank.number());
    SwitchChannel<'_>: switch => Value::Switch(switch.value());
    SwitchMember<'_>: switch => Value::SwitchMember(switch.value());
    Semaphore<'_>: semaphore => Value::Semaphore(semaphore.rank_number(), semaphore.number());
    SemaphoreCall<'_>: call => Value::SemaphoreCall(call.ops());
    Reduction<'_>: reduction => Value::Reduction(reduction.ops());
    SwitchReduction<'_>: reduction => Value::SwitchReduction(reduction.ops());
    ThreadBlockGroup: group => Value::Group(group.value());
}

impl<S> IntoValue for Buffer<'_, S> {
    fn into_value(self) -> Value {
        Value::Buffer(self.value())
    }
}

impl<S> IntoValue for Chunk<'_, S> {
    fn into_value(self) -> Value {
        Value::Chunk(self.value())
    }
}

impl<K: ChannelMarker> IntoValue for Channel<'_, K> {
    fn into_value(self) -> Value {
        Value::Channel(self.value())
    }
}

impl<K: ChannelMarker> IntoValue for Vec<Channel<'_, K>> {
    fn into_value(self) -> Value {
        Value::List(std::rc::Rc::new(self.into_iter().map(IntoValue::into_value).collect()))
    }
}

impl<K: ChannelMarker> IntoValue for Handshake<'_, K> {
    fn into_value(self) -> Value {
        Value::Handshake(self.ops(), K::KIND)
    }
}

impl<K: ChannelMarker> IntoValue for SyncCall<'_, K> {
    fn into_value(self) -> Value {
        Value::SyncCall(self.ops(), K::KIND)
    }
}

#[cfg(test)]
mod tests {
    use super::{TYPES, method};

    #[test]
    fn every_method_is_documented_and_found_by_name() {
        for ty in TYPES {
            for listed in ty.methods() {
                assert!(listed.doc.trim().len() > 10, "{}::{} has no documentation", ty.name, listed.name);
                assert_eq!(method(ty.name, listed.name).map(|found| found.params.len()), Some(listed.params.len()));
            }
        }
    }
}
