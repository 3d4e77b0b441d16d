//! The top level of a plan file.

use std::collections::BTreeMap;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess};

use super::context::Context;
use super::names::unknown;
use super::value::{Fields, Read, Seed, elements, fields, require};
use super::{ReadOptions, chunking};
use crate::collective::Collective;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::origin::Origins;
use crate::plan::{PlanTree, RankPlan};
use crate::vocab::Protocol;

/// The ranks that a text holds.
#[derive(Clone, Copy)]
pub(super) enum Part {
    /// All of them.
    Whole,
    /// Only one, as [`own_rank`](super::own_rank) cuts it out.
    Rank {
        /// Its number.
        rank: u32,
        /// Number of ranks of the plan.
        of: u32,
    },
}

/// Reads a text.
pub(super) fn read(text: &str, options: ReadOptions, part: Part) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    let mut context = Context::new(options.strict);
    if let Part::Rank { rank, .. } = part {
        context.first_rank = rank as usize;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let file = Seed::<File>::new(&mut context).deserialize(&mut json);
    match file.and_then(|file| json.end().map(|()| file)) {
        Ok(file) => context.finish(file.build(part)),
        Err(error) => Err(context.not_json(&error)),
    }
}

/// The file's keys as they stand.
struct File {
    name: String,
    collective: String,
    protocol: Protocol,
    in_place: bool,
    reuse_resources: bool,
    ranks: Ranks,
    threads_per_block: u32,
    double_scratch: bool,
    buffer_alignment: u32,
    min_message_size: u64,
    max_message_size: u64,
    root: u32,
    chunk_factor: Option<u32>,
    ranks_per_node: Option<u32>,
    tags: BTreeMap<String, i64>,
}

impl<'de> Fields<'de> for File {
    const KEYS: &'static [&'static str] = &[
        "name",
        "collective",
        "protocol",
        "inplace",
        "reuse_resources",
        "gpus",
        "num_threads_per_block",
        "use_double_scratch_buffer",
        "buffer_alignment",
        "min_message_size",
        "max_message_size",
        "root",
        "chunk_factor",
        "ranks_per_node",
        "tags",
    ];

    fn field<A: MapAccess<'de>>(&mut self, key: usize, map: &mut A, cx: &mut Context) -> Result<(), A::Error> {
        match key {
            0 => self.name = map.next_value_seed(Seed::new(cx))?,
            1 => {
                self.collective = map.next_value_seed(Seed::new(cx))?;
                if !chunking::NAMES.contains(&self.collective.as_str()) && !self.collective.is_empty() {
                    unknown(&self.collective, "a collective", chunking::NAMES, cx);
                }
            }
            2 => self.protocol = map.next_value_seed(Seed::new(cx))?,
            3 => self.in_place = map.next_value_seed(Seed::new(cx))?,
            4 => self.reuse_resources = map.next_value_seed(Seed::new(cx))?,
            5 => self.ranks = map.next_value_seed(Seed::new(cx))?,
            6 => self.threads_per_block = map.next_value_seed(Seed::new(cx))?,
            7 => self.double_scratch = map.next_value_seed(Seed::new(cx))?,
            8 => self.buffer_alignment = map.next_value_seed(Seed::new(cx))?,
            9 => self.min_message_size = map.next_value_seed(Seed::new(cx))?,
            10 => self.max_message_size = map.next_value_seed(Seed::new(cx))?,
            11 => self.root = map.next_value_seed(Seed::new(cx))?,
            12 => self.chunk_factor = Some(map.next_value_seed(Seed::new(cx))?),
            13 => self.ranks_per_node = Some(map.next_value_seed(Seed::new(cx))?),
            _ => self.tags = map.next_value_seed(Seed::new(cx))?,
        }
        Ok(())
    }
}

impl<'de> Read<'de> for File {
    const WANT: &'static str = "a plan: an object with \"name\", \"collective\" and \"gpus\"";

    fn fallback() -> Self {
        Self {
            name: String::new(),
            collective: String::new(),
            protocol: Protocol::Simple,
            in_place: false,
            reuse_resources: false,
            ranks: Ranks(Vec::new()),
            threads_per_block: 1024,
            double_scratch: false,
            buffer_alignment: 16,
            min_message_size: 0,
            max_message_size: u64::MAX,
            root: 0,
            chunk_factor: None,
            ranks_per_node: None,
            tags: BTreeMap::new(),
        }
    }

    fn from_map<A: MapAccess<'de>>(map: &mut A, cx: &mut Context) -> Result<Option<Self>, A::Error> {
        let mut file = Self::fallback();
        let seen = fields(&mut file, map, cx)?;
        require(Self::KEYS, 0b10_1111, seen, "plan", cx);
        Ok(Some(file))
    }
}

/// The ranks. A text with one rank only numbers it as in the whole file.
struct Ranks(Vec<RankPlan>);

impl<'de> Read<'de> for Ranks {
    const WANT: &'static str = "an array of ranks";

    fn fallback() -> Self {
        Self(Vec::new())
    }

    fn from_seq<A: SeqAccess<'de>>(seq: &mut A, cx: &mut Context) -> Result<Option<Self>, A::Error> {
        let mut ranks = Vec::new();
        elements(seq, cx.first_rank, cx, |rank| ranks.push(rank))?;
        if ranks.is_empty() {
            cx.error(Code::WrongType, "expected at least one rank, found none");
        }
        Ok(Some(Self(ranks)))
    }
}

impl File {
    fn build(self, part: Part) -> PlanTree {
        let ranks = self.ranks.0;
        let number = match part {
            Part::Whole => ranks.len() as u32,
            Part::Rank { of, .. } => of,
        };
        let counts = ranks.first().map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
        let collective = chunking::collective(&self.collective, counts, number);
        PlanTree {
            name: self.name,
            collective: Collective {
                chunk_factor: self.chunk_factor.unwrap_or(collective.chunk_factor),
                in_place: self.in_place,
                root: self.root,
                ..collective
            },
            protocol: self.protocol,
            reuse_resources: self.reuse_resources,
            threads_per_block: self.threads_per_block,
            double_scratch: self.double_scratch,
            buffer_alignment: self.buffer_alignment,
            min_message_size: self.min_message_size,
            max_message_size: self.max_message_size,
            ranks_per_node: self.ranks_per_node.unwrap_or(number),
            tags: self.tags,
            ranks,
            origins: Origins::default(),
        }
    }
}
