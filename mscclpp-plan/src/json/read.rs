//! The top level of a plan file.

use std::collections::BTreeMap;

use super::context::ReadState;
use super::expectations::RawExpectation;
use super::lexer::Stop;
use super::names::unknown;
use super::value::{Fields, Read};
use super::{ReadOptions, chunking};
use crate::collective::Collective;
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::origin::Origins;
use crate::types::Protocol;
use crate::{PlanTree, RankPlan};

/// Reads a text.
pub(super) fn read(text: &str, options: ReadOptions) -> Result<(PlanTree, Vec<Diagnostic>), Diagnostics> {
    let mut context = ReadState::new(text, options.strict);
    let mut file = File::fallback();
    match context.read(&mut file).and_then(|()| context.json.end()) {
        Ok(()) => context.finish(file.build()),
        Err(Stop) => Err(context.not_json()),
    }
}

/// The keys of the file.
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
    expectations: Vec<RawExpectation>,
    dividing: bool,
    rows: bool,
    version: u32,
}

/// The newest version of the format that this reader knows. A file without a version has version 1, and so does what is written.
const VERSION: u32 = 1;

impl Fields for File {
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
        "expectations",
        "dividing",
        "version",
        "rows",
    ];

    fn field(&mut self, key: usize, cx: &mut ReadState<'_>) -> Result<(), Stop> {
        match key {
            0 => cx.read(&mut self.name)?,
            1 => {
                cx.read(&mut self.collective)?;
                if !chunking::NAMES.contains(&self.collective.as_str()) && !self.collective.is_empty() {
                    unknown(&self.collective, "a collective", chunking::NAMES, cx);
                }
            }
            2 => cx.read(&mut self.protocol)?,
            3 => cx.read(&mut self.in_place)?,
            4 => cx.read(&mut self.reuse_resources)?,
            5 => cx.read(&mut self.ranks)?,
            6 => cx.read(&mut self.threads_per_block)?,
            7 => cx.read(&mut self.double_scratch)?,
            8 => cx.read(&mut self.buffer_alignment)?,
            9 => cx.read(&mut self.min_message_size)?,
            10 => cx.read(&mut self.max_message_size)?,
            11 => cx.read(&mut self.root)?,
            12 => cx.read(&mut self.chunk_factor)?,
            13 => cx.read(&mut self.ranks_per_node)?,
            14 => cx.read(&mut self.tags)?,
            15 => cx.read(&mut self.expectations)?,
            16 => cx.read(&mut self.dividing)?,
            18 => cx.read(&mut self.rows)?,
            _ => {
                cx.read(&mut self.version)?;
                if !(1..=VERSION).contains(&self.version) {
                    let message = format!("the file has version {} of the format, expected {VERSION}", self.version);
                    let help = "read it with the version of mscclpp that wrote it, or a later one";
                    cx.error_with_help(Code::WrongType, message, Some(help));
                }
            }
        }
        Ok(())
    }
}

impl Read for File {
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
            expectations: Vec::new(),
            dividing: false,
            rows: false,
            version: VERSION,
        }
    }

    fn read_object(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        let seen = cx.fields(self)?;
        cx.require(Self::KEYS, 0b10_1111, seen, "plan");
        Ok(true)
    }
}

/// The ranks. In a text with one rank only, that rank keeps its number of the whole file.
struct Ranks(Vec<RankPlan>);

impl Read for Ranks {
    const WANT: &'static str = "an array of ranks";

    fn fallback() -> Self {
        Self(Vec::new())
    }

    fn read_array(&mut self, cx: &mut ReadState<'_>) -> Result<bool, Stop> {
        cx.elements(&mut self.0)?;
        if self.0.is_empty() {
            cx.error(Code::WrongType, "expected at least one rank, found none");
        }
        Ok(true)
    }
}

impl File {
    fn build(self) -> PlanTree {
        let ranks = self.ranks.0;
        let number = ranks.len() as u32;
        let counts = ranks.first().map_or((0, 0), |rank| (rank.input_chunks, rank.output_chunks));
        let collective = chunking::collective(&self.collective, counts, number);
        PlanTree {
            name: self.name,
            collective: Collective {
                chunk_factor: self.chunk_factor.unwrap_or(collective.chunk_factor),
                in_place: self.in_place,
                root: self.root,
                dividing: self.dividing,
                rows: self.rows,
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
            expectations: self.expectations.into_iter().map(RawExpectation::build).collect(),
            origins: Origins::default(),
        }
    }
}
