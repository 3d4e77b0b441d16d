//! Operations and references of a plan file.

use serde::de::MapAccess;

use super::context::Context;
use super::names::Name;
use super::value::{Fields, Read, Seed, fields, require};
use crate::diag::Code;
use crate::origin::Origin;
use crate::plan::{Ids, LoopBody, Op, OpKind, Place, Ref, Refs, Slice};
use crate::vocab::{BufferKind, ChannelKind, ReduceOp};

/// The keys of an operation, in the order of the sets below.
const KEYS: &[&str] = &[
    "name",
    "src_buff",
    "dst_buff",
    "channel_ids",
    "channel_type",
    "reduce_op",
    "tbg_info",
    "barrier_id",
    "num_threadblocks",
    "semaphore_ids",
    "iter_context",
    "ops",
    "buffer_type",
    "buffer_offset",
    "size",
    "dst_chunk",
];
const NAME: u32 = 1;
const BUFFERS: u32 = 1 << 1 | 1 << 2;
const CHANNEL_IDS: u32 = 1 << 3;
const CHANNEL_TYPE: u32 = 1 << 4;
const REDUCE: u32 = 1 << 5;
const SLICE: u32 = 1 << 6;
const BARRIER: u32 = 1 << 7 | 1 << 8;
const SEMAPHORES: u32 = 1 << 9;
const LOOP: u32 = 1 << 10 | 1 << 11;
const SWITCH_REDUCE: u32 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15;

/// Whether an operation lists its channels: some do always, those that send data only over ports.
pub(super) fn lists_channels(kind: OpKind, channel: Option<ChannelKind>) -> bool {
    use OpKind::*;
    match kind {
        Signal | Wait | RelaxedSignal | RelaxedWait | Flush | Get | PutWithSignal | PutWithSignalAndFlush => true,
        Put | PutPackets | ReadPutPackets => channel == Some(ChannelKind::Port),
        _ => false,
    }
}

/// The keys that an operation must have, and those that it may have.
fn keys(kind: OpKind, channel: Option<ChannelKind>) -> (u32, u32) {
    use OpKind::*;
    let needs = match kind {
        Nop => 0,
        Barrier => BARRIER,
        Copy | CopyPackets | UnpackPackets => BUFFERS,
        Put | PutWithSignal | PutWithSignalAndFlush | PutPackets | ReadPutPackets | Get => BUFFERS | CHANNEL_TYPE,
        Reduce | ReducePackets | ReduceCopyPackets => BUFFERS,
        ReduceSend | ReadReduce | ReadReduceSend | ReduceSendPackets | ReduceCopySendPackets => BUFFERS | CHANNEL_TYPE,
        SwitchReduce => SWITCH_REDUCE | CHANNEL_IDS | CHANNEL_TYPE,
        SwitchReduceBroadcast | SwitchBroadcast | SwitchBroadcastPackets => BUFFERS | CHANNEL_TYPE,
        Signal | Wait | RelaxedSignal | RelaxedWait | Flush => CHANNEL_TYPE,
        SemaphoreAcquire | SemaphoreRelease => SEMAPHORES,
        Pipeline => LOOP,
    };
    let lists = if lists_channels(kind, channel) { CHANNEL_IDS } else { 0 };
    let reduces = if kind.is_reduce() { REDUCE } else { 0 };
    let slices = if kind.is_data() { SLICE } else { 0 };
    (NAME | needs | lists, reduces | slices)
}

/// An operation's keys as they stand.
#[derive(Default)]
struct Raw {
    name: Option<Name>,
    srcs: Refs,
    dsts: Refs,
    channels: Ids,
    channel: Option<ChannelKind>,
    reduce: Option<ReduceOp>,
    slice: Option<Slice>,
    barrier: u32,
    blocks: u32,
    semaphores: Ids,
    unit: u64,
    num_chunks: u32,
    ops: Vec<Op>,
    buffer: Option<BufferKind>,
    offset: u32,
    size: u32,
    chunk: Option<Ref>,
}

impl<'de> Fields<'de> for Raw {
    const KEYS: &'static [&'static str] = KEYS;

    #[inline]
    fn field<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A, cx: &mut Context) -> Result<(), A::Error> {
        match key {
            0 => self.name = Some(map.next_value_seed(Seed::new(cx))?),
            1 => self.srcs = map.next_value_seed(Seed::new(cx))?,
            2 => self.dsts = map.next_value_seed(Seed::new(cx))?,
            3 => self.channels = map.next_value_seed(Seed::new(cx))?,
            4 => self.channel = Some(map.next_value_seed(Seed::new(cx))?),
            5 => self.reduce = Some(map.next_value_seed(Seed::new(cx))?),
            6 => self.slice = Some(map.next_value_seed(Seed::new(cx))?),
            7 => self.barrier = map.next_value_seed(Seed::new(cx))?,
            8 => self.blocks = map.next_value_seed(Seed::new(cx))?,
            9 => self.semaphores = map.next_value_seed(Seed::new(cx))?,
            10 => Window { unit: self.unit, num_chunks: self.num_chunks } = map.next_value_seed(Seed::new(cx))?,
            11 => {
                if cx.in_pipeline {
                    cx.error(Code::NestedLoop, "a pipeline inside a pipeline");
                }
                let outer = std::mem::replace(&mut cx.in_pipeline, true);
                self.ops = map.next_value_seed(Seed::new(cx))?;
                cx.in_pipeline = outer;
            }
            12 => self.buffer = Some(map.next_value_seed(Seed::new(cx))?),
            13 => self.offset = map.next_value_seed(Seed::new(cx))?,
            14 => self.size = map.next_value_seed(Seed::new(cx))?,
            _ => self.chunk = Some(map.next_value_seed(Seed::new(cx))?),
        }
        Ok(())
    }
}

impl Raw {
    /// The operation, once its keys are known to be the right ones.
    fn build(self, kind: OpKind, cx: &mut Context) -> Op {
        let mut op = Op {
            channel: self.channel,
            reduce: kind.is_reduce().then(|| self.reduce.unwrap_or_default()),
            slice: self.slice,
            srcs: self.srcs,
            dsts: self.dsts,
            ..Op::new(kind, Origin::UNKNOWN)
        };
        match kind {
            OpKind::Barrier => {
                op.ids.push(self.barrier);
                op.blocks = self.blocks;
            }
            OpKind::SemaphoreAcquire | OpKind::SemaphoreRelease => op.ids = self.semaphores,
            OpKind::Pipeline => {
                let (unit, num_chunks, ops) = (self.unit, self.num_chunks, self.ops);
                op.body = Some(Box::new(LoopBody { unit, num_chunks, ops }));
            }
            OpKind::SwitchReduce => {
                let &[channel] = &self.channels[..] else {
                    cx.error(
                        Code::WrongType,
                        format!("\"channel_ids\" of a glre names {} channels, expected 1", self.channels.len()),
                    );
                    return op;
                };
                op.srcs.push(Ref { place: Place::Switch(channel), index: self.offset, size: self.size });
                op.dsts.extend(self.chunk);
                if let Some(buffer) = self.buffer {
                    cx.note_switch_buffer(channel, buffer);
                }
            }
            _ if lists_channels(kind, op.channel) => op.ids = self.channels,
            _ => {}
        }
        op
    }
}

impl<'de> Read<'de> for Op {
    const WANT: &'static str = "an operation: an object with a \"name\"";

    fn fallback() -> Self {
        Self::new(OpKind::Nop, Origin::UNKNOWN)
    }

    #[inline]
    fn from_map<A: MapAccess<'de>>(map: &mut A, cx: &mut Context) -> Result<Option<Self>, A::Error> {
        let mut raw = Raw::default();
        let seen = fields(&mut raw, map, cx)?;
        let Some(Name(Some(kind))) = raw.name else {
            require(KEYS, NAME, seen, "operation", cx);
            return Ok(Some(Self::fallback()));
        };
        let (needs, may) = keys(kind, raw.channel);
        if needs & !seen != 0 {
            require(KEYS, needs, seen, kind.name(), cx);
        }
        let beyond = seen & !(needs | may);
        if beyond != 0 {
            meaningless(kind, beyond, cx);
        }
        Ok(Some(raw.build(kind, cx)))
    }
}

/// Keys of other operations.
#[cold]
fn meaningless(kind: OpKind, keys: u32, cx: &mut Context) {
    for (i, key) in KEYS.iter().enumerate() {
        if keys & 1 << i != 0 {
            cx.unknown_key(key, format!("the key \"{key}\" means nothing on a {} and is ignored", kind.name()));
        }
    }
}

/// The `iter_context` of a pipeline.
struct Window {
    unit: u64,
    num_chunks: u32,
}

macro_rules! objects {
    ($($name:ident, $want:literal, $what:literal, $required:literal, $fallback:expr, { $($key:literal => $field:ident,)* };)*) => { $(
        impl<'de> Fields<'de> for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn field<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A, cx: &mut Context) -> Result<(), A::Error> {
                match Self::KEYS[key] {
                    $($key => self.$field = map.next_value_seed(Seed::new(cx))?,)*
                    _ => {}
                }
                Ok(())
            }
        }

        impl<'de> Read<'de> for $name {
            const WANT: &'static str = $want;

            fn fallback() -> Self {
                $fallback
            }

            fn from_map<A: MapAccess<'de>>(map: &mut A, cx: &mut Context) -> Result<Option<Self>, A::Error> {
                let mut object = Self::fallback();
                let seen = fields(&mut object, map, cx)?;
                require(<Self as Fields<'_>>::KEYS, $required, seen, $what, cx);
                Ok(Some(object))
            }
        }
    )* };
}
pub(super) use objects;

objects! {
    Window, "an object with \"unit_size\" and \"num_chunks\"", "iteration", 0b11, Self { unit: 0, num_chunks: 0 },
        { "unit_size" => unit, "num_chunks" => num_chunks, };
    Slice, "an object with \"tb_id\" and \"tbg_size\"", "thread-block group", 0b11, Self { index: 0, of: 1 },
        { "tb_id" => index, "tbg_size" => of, };
}

/// A reference's keys as they stand.
#[derive(Default)]
struct RawRef {
    buffer: Option<BufferKind>,
    remote: u32,
    switch: u32,
    index: u32,
    size: u32,
    rank: u32,
}

const REF_PLACE: u32 = 0b111;
const REF_RANGE: u32 = 0b11_000;
const REF_RANK: u32 = 0b100_000;

impl<'de> Fields<'de> for RawRef {
    const KEYS: &'static [&'static str] = &["type", "buffer_id", "switch_channel_id", "index", "size", "rank"];

    #[inline]
    fn field<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A, cx: &mut Context) -> Result<(), A::Error> {
        match key {
            0 => self.buffer = Some(map.next_value_seed(Seed::new(cx))?),
            1 => self.remote = map.next_value_seed(Seed::new(cx))?,
            2 => self.switch = map.next_value_seed(Seed::new(cx))?,
            3 => self.index = map.next_value_seed(Seed::new(cx))?,
            4 => self.size = map.next_value_seed(Seed::new(cx))?,
            _ => self.rank = map.next_value_seed(Seed::new(cx))?,
        }
        Ok(())
    }
}

impl<'de> Read<'de> for Ref {
    const WANT: &'static str = "a reference: an object with \"index\" and \"size\"";

    fn fallback() -> Self {
        Self::local(BufferKind::Scratch, 0, 0)
    }

    #[inline]
    fn from_map<A: MapAccess<'de>>(map: &mut A, cx: &mut Context) -> Result<Option<Self>, A::Error> {
        let mut raw = RawRef::default();
        let seen = fields(&mut raw, map, cx)?;
        let place = match seen & REF_PLACE {
            0b001 => Place::Local(raw.buffer.unwrap_or(BufferKind::Scratch)),
            0b010 => Place::Remote(raw.remote),
            0b100 => Place::Switch(raw.switch),
            found => {
                let count = found.count_ones();
                cx.error_with_help(
                    Code::BadReference,
                    format!("a reference has {count} of the keys \"type\", \"buffer_id\" and \"switch_channel_id\""),
                    Some("keep exactly one: where the chunks are"),
                );
                Place::Local(BufferKind::Scratch)
            }
        };
        if seen & REF_RANGE != REF_RANGE {
            require(RawRef::KEYS, REF_RANGE, seen, "reference", cx);
        }
        if seen & REF_RANK != 0 && raw.rank != cx.rank {
            cx.error(Code::Contradiction, format!("a local reference of rank {} says rank {}", cx.rank, raw.rank));
        }
        Ok(Some(Self { place, index: raw.index, size: raw.size }))
    }
}
