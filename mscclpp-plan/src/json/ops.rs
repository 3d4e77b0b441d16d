//! Operations and operands of a plan file.

use super::context::ReadState;
use super::lexer::Stop;
use super::names::Name;
use super::value::{Fields, Read};
use crate::diag::Code;
use crate::origin::Origin;
use crate::types::{BufferKind, ChannelKind};
use crate::{BufferRef, Count, Ids, LoopBody, Op, OpClass, OpKind, Operand, Slice};

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
    "count",
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
const COUNT: u32 = 1 << 16;
const SWITCH_REDUCE: u32 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15;

/// Returns the keys that an operation must have, and those that it may have.
fn keys(kind: OpKind, channel: Option<ChannelKind>) -> (u32, u32) {
    let needs = match kind.class() {
        // The window of a `glre` has separate keys.
        OpClass::Data(..) if kind == OpKind::SwitchReduce => SWITCH_REDUCE | CHANNEL_IDS,
        OpClass::Data(..) if kind.is_counted() => BUFFERS | COUNT,
        OpClass::Data(..) => BUFFERS,
        OpClass::Barrier => BARRIER,
        OpClass::Acquire | OpClass::Release => SEMAPHORES,
        OpClass::Pipeline => LOOP,
        OpClass::BlockSync | OpClass::ExchangeCounts => 0,
        OpClass::Signal { .. } | OpClass::Wait { .. } | OpClass::Flush => 0,
    };
    let has_channel = if kind.channels().is_empty() { 0 } else { CHANNEL_TYPE };
    let lists = if kind.lists_channels(channel) { CHANNEL_IDS } else { 0 };
    let reduces = if kind.is_reduce() { REDUCE } else { 0 };
    let slices = if kind.is_data() { SLICE } else { 0 };
    (NAME | needs | has_channel | lists, reduces | slices)
}

/// The keys of an operation: those that most operations have are stored directly in it.
struct Raw<'o> {
    name: Option<Name>,
    op: &'o mut Op,
    rare: Option<Box<Rare>>,
}

/// The keys that few operations have.
#[derive(Default)]
struct Rare {
    barrier: u32,
    blocks: u32,
    semaphores: Ids,
    window: IterContext,
    ops: Vec<Op>,
    buffer: Option<BufferKind>,
    offset: u32,
    size: u32,
    chunk: Option<Operand>,
    count: Option<Count>,
}

impl Fields for Raw<'_> {
    const KEYS: &'static [&'static str] = KEYS;

    #[inline]
    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.name)?,
            1 => cx.read(&mut self.op.srcs)?,
            2 => cx.read(&mut self.op.dsts)?,
            3 => cx.read(&mut self.op.ids)?,
            4 => cx.read(&mut self.op.channel)?,
            5 => cx.read(&mut self.op.reduce)?,
            6 => cx.read(&mut self.op.slice)?,
            _ => self.rare.get_or_insert_default().field(key, cx)?,
        }
        Ok(())
    }
}

impl Rare {
    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            7 => cx.read(&mut self.barrier)?,
            8 => cx.read(&mut self.blocks)?,
            9 => cx.read(&mut self.semaphores)?,
            10 => cx.read(&mut self.window)?,
            11 if cx.in_pipeline => {
                cx.error(Code::NestedLoop, "a pipeline inside a pipeline");
                cx.json.skip()?;
            }
            11 => {
                cx.in_pipeline = true;
                cx.read(&mut self.ops)?;
                cx.in_pipeline = false;
            }
            12 => cx.read(&mut self.buffer)?,
            13 => cx.read(&mut self.offset)?,
            14 => cx.read(&mut self.size)?,
            15 => cx.read(&mut self.chunk)?,
            _ => cx.read(&mut self.count)?,
        }
        Ok(())
    }
}

impl Read for Op {
    const WANT: &'static str = "an operation: an object with a \"name\"";

    fn fallback() -> Self {
        Self::new(OpKind::Nop, Origin::UNKNOWN)
    }

    #[inline]
    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let mut raw = Raw { name: None, op: self, rare: None };
        let seen = cx.fields(&mut raw)?;
        let Raw { name, rare, .. } = raw;
        let Some(Name(Some(kind))) = name else {
            cx.require(KEYS, NAME, seen, "operation");
            return Ok(true);
        };
        let (needs, may) = keys(kind, self.channel);
        cx.require(KEYS, needs, seen, kind.name());
        let beyond = seen & !(needs | may);
        if beyond != 0 {
            drop_meaningless(self, kind, beyond, cx);
        }
        self.kind = kind;
        if kind.is_reduce() {
            self.reduce.get_or_insert_default();
        }
        if let Some(rare) = rare {
            rare.add_to(self, cx);
        }
        Ok(true)
    }
}

impl Rare {
    /// Adds what belongs to the operation's kind.
    fn add_to(self, op: &mut Op, cx: &mut ReadState<'_>) {
        match op.kind.class() {
            OpClass::Barrier => {
                op.ids.push(self.barrier);
                op.num_blocks = self.blocks;
            }
            OpClass::Acquire | OpClass::Release => op.ids = self.semaphores,
            OpClass::Pipeline => {
                let IterContext { unit, num_chunks } = self.window;
                op.body = Some(Box::new(LoopBody { unit, num_chunks, ops: self.ops }));
            }
            OpClass::Data(..) if op.kind == OpKind::SwitchReduce => {
                let &[channel] = &op.ids[..] else {
                    let message = format!("\"channel_ids\" of a glre names {} channels, expected 1", op.ids.len());
                    cx.error(Code::WrongType, message);
                    return;
                };
                op.ids.clear();
                op.srcs.push(Operand::new(BufferRef::Switch(channel), self.offset, self.size));
                op.dsts.extend(self.chunk);
                if let Some(buffer) = self.buffer {
                    cx.note_switch_buffer(channel, buffer);
                }
            }
            OpClass::Data(..) if op.kind.is_counted() => op.count = self.count,
            OpClass::Data(..) | OpClass::BlockSync | OpClass::ExchangeCounts => {}
            OpClass::Signal { .. } | OpClass::Wait { .. } | OpClass::Flush => {}
        }
    }
}

/// Removes what only other kinds of operations have.
#[cold]
fn drop_meaningless(op: &mut Op, kind: OpKind, keys: u32, cx: &mut ReadState<'_>) {
    for (i, key) in KEYS.iter().enumerate() {
        if keys & 1 << i != 0 {
            cx.unknown_key(key, format!("the key \"{key}\" has no meaning on a {} and is ignored", kind.name()));
        }
    }
    let plain = Op::new(kind, Origin::UNKNOWN);
    if keys & BUFFERS != 0 {
        (op.srcs, op.dsts) = (plain.srcs, plain.dsts);
    }
    if keys & CHANNEL_IDS != 0 {
        op.ids = plain.ids;
    }
    if keys & CHANNEL_TYPE != 0 {
        op.channel = None;
    }
    if keys & REDUCE != 0 {
        op.reduce = None;
    }
    if keys & SLICE != 0 {
        op.slice = None;
    }
}

/// The `iter_context` of a pipeline.
#[derive(Default)]
struct IterContext {
    unit: u64,
    num_chunks: u32,
}

macro_rules! objects {
    ($($name:ident, $want:literal, $what:literal, $required:literal, $fallback:expr, { $($key:literal => $field:ident,)* };)*) => { $(
        impl Fields for $name {
            const KEYS: &'static [&'static str] = &[$($key),*];

            fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
                match Self::KEYS[key] {
                    $($key => cx.read(&mut self.$field)?,)*
                    _ => {}
                }
                Ok(())
            }
        }

        impl Read for $name {
            const WANT: &'static str = $want;

            fn fallback() -> Self {
                $fallback
            }

            fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
                let seen = cx.fields(self)?;
                cx.require(<Self as Fields>::KEYS, $required, seen, $what);
                Ok(true)
            }
        }
    )* };
}
pub(super) use objects;

objects! {
    IterContext, "an object with \"unit_size\" and \"num_chunks\"", "iteration", 0b11, Self { unit: 0, num_chunks: 0 },
        { "unit_size" => unit, "num_chunks" => num_chunks, };
    Count, "an object with \"sender\" and \"receiver\"", "count", 0b11, Self { sender: 0, receiver: 0 },
        { "sender" => sender, "receiver" => receiver, };
    Slice, "an object with \"tb_id\" and \"tbg_size\"", "thread-block group", 0b11, Self { index: 0, count: 1 },
        { "tb_id" => index, "tbg_size" => count, };
}

/// The keys of an operand.
#[derive(Default)]
struct RawRef {
    buffer: Option<BufferKind>,
    remote: u32,
    switch: u32,
    index: u32,
    size: u32,
    rank: u32,
}

const REF_LOCAL: u32 = 1;
const REF_RANGE: u32 = 0b110;
const REF_REMOTE: u32 = 1 << 3;
const REF_SWITCH: u32 = 1 << 4;
const REF_RANK: u32 = 1 << 5;

impl Fields for RawRef {
    const KEYS: &'static [&'static str] = &["type", "index", "size", "buffer_id", "switch_channel_id", "rank"];

    #[inline]
    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.buffer)?,
            1 => cx.read(&mut self.index)?,
            2 => cx.read(&mut self.size)?,
            3 => cx.read(&mut self.remote)?,
            4 => cx.read(&mut self.switch)?,
            _ => cx.read(&mut self.rank)?,
        }
        Ok(())
    }
}

impl Read for Operand {
    const WANT: &'static str = "an operand: an object with \"index\" and \"size\"";

    fn fallback() -> Self {
        Self::local(BufferKind::Scratch, 0, 0)
    }

    #[inline]
    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let mut raw = RawRef::default();
        let seen = cx.fields(&mut raw)?;
        let place = match seen & (REF_LOCAL | REF_REMOTE | REF_SWITCH) {
            REF_LOCAL => BufferRef::Local(raw.buffer.unwrap_or(BufferKind::Scratch)),
            REF_REMOTE => BufferRef::Remote(raw.remote),
            REF_SWITCH => BufferRef::Switch(raw.switch),
            found => {
                let count = found.count_ones();
                cx.error_with_help(
                    Code::BadReference,
                    format!(
                        "expected one of the keys \"type\", \"buffer_id\" and \"switch_channel_id\" in an \
                        operand, found {count}"
                    ),
                    Some("keep exactly one of them, which names the buffer of the chunks"),
                );
                BufferRef::Local(BufferKind::Scratch)
            }
        };
        if seen & REF_RANGE != REF_RANGE {
            cx.require(RawRef::KEYS, REF_RANGE, seen, "operand");
        }
        if seen & REF_RANK != 0 && raw.rank != cx.rank {
            cx.error(
                Code::InconsistentValue,
                format!("expected rank {} in a local operand, found rank {}", cx.rank, raw.rank),
            );
        }
        *self = Self::new(place, raw.index, raw.size);
        Ok(true)
    }
}
