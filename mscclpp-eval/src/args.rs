//! The arguments of `#[collective]`. [`ARGUMENTS`] lists all of them: it decides what is accepted, and the page
//! is generated from it.

mod suggest;
mod value;

use std::collections::BTreeMap;

use mscclpp_core::check::{Checks, Level};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::Code;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::{Protocol, Replication};
use proc_macro2::{Ident, TokenStream};
use syn::parse::Parser;

use crate::hir::SpanId;
use crate::report::Report;
use crate::spans::Spans;
use suggest::suggest;
use value::{Given, Reader};

/// Maximum number of combinations of ranks and parameters that one collective is built for.
pub(crate) const MAX_PLANS: usize = 4096;

/// A parsed attribute.
pub(crate) struct Attribute {
    /// The specification, except for the number of ranks.
    base: AlgoSpec,
    ranks_per_node: Option<u32>,
    /// Numbers of ranks that plans are built for.
    pub(crate) ranks: Vec<u32>,
    /// Position of the argument that gives them.
    ranks_tok: SpanId,
    /// Position of each argument.
    places: BTreeMap<&'static str, SpanId>,
    /// Parameters of the function with the values that plans are built for.
    pub(crate) params: Vec<Param>,
    /// The checks of the plans.
    pub(crate) checks: Checks,
    /// Maximum number of steps of an evaluation.
    pub(crate) max_steps: Option<u64>,
    /// Path of the crate that the expansion refers to, if not `::mscclpp`.
    pub(crate) krate: Option<TokenStream>,
}

/// A parameter of the function.
pub(crate) struct Param {
    pub(crate) name: String,
    pub(crate) values: Vec<i128>,
    pub(crate) tok: SpanId,
}

/// One combination of ranks and parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Combination {
    pub(crate) ranks: u32,
    pub(crate) values: Vec<i128>,
}

/// An argument that attributes accept.
pub(crate) struct Argument {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its syntax.
    pub(crate) form: &'static str,
    /// Its meaning, with the default.
    pub(crate) about: &'static str,
    set: fn(&mut Attribute, &mut Reader<'_>, &Given),
}

macro_rules! arguments {
    ($($name:literal $form:literal $about:literal => $set:expr;)*) => {
        &[$(Argument { name: $name, form: $form, about: $about, set: $set }),*]
    };
}

/// Writes a number into a field if it is in the range.
macro_rules! number {
    ($range:expr, $($field:ident).+) => {
        |attribute, reader, given| {
            if let Some(value) = reader.int(given, $range) {
                attribute.$($field).+ = value as _;
            }
        }
    };
}

/// Writes a flag into a field.
macro_rules! flag {
    ($($field:ident).+) => {
        |attribute, reader, given| {
            if let Some(value) = reader.flag(given) {
                attribute.$($field).+ = value;
            }
        }
    };
}

const U32: std::ops::RangeInclusive<i128> = 0..=u32::MAX as i128;
const FROM_ONE: std::ops::RangeInclusive<i128> = 1..=u32::MAX as i128;

/// All arguments after the kind, in the order of the page.
pub(crate) const ARGUMENTS: &[Argument] = arguments! {
    "ranks" "ranks = 8, ranks = [2, 4, 8] or ranks = 2..=8" "The numbers of ranks that plans are built for. Required." => |attribute, reader, given| {
        attribute.ranks_tok = given.tok;
        attribute.ranks = reader.ints(given, FROM_ONE).into_iter().map(|ranks| ranks as u32).collect();
    };
    "in_place" "in_place" "Input and output are one buffer. Off unless given." => flag!(base.collective.in_place);
    "chunk_factor" "chunk_factor = 2" "Chunks per rank's part of the data. 1 unless given." => number!(FROM_ONE, base.collective.chunk_factor);
    "root" "root = 3" "The root of `Broadcast` and `Reduce`. 0 unless given." => number!(U32, base.collective.root);
    "name" "name = \"ring\"" "The plans' name. That of the function unless given." => |attribute, reader, given| {
        attribute.base.name = reader.text(given).unwrap_or_default();
    };
    "params" "params(tbg = [1, 2, 4])" "The function's parameters after the program, with the values that plans are built for." => |attribute, reader, given| {
        attribute.params = reader.params(given);
    };
    "ranks_per_node" "ranks_per_node = 8" "Ranks per node. All ranks are on one node unless given." => |attribute, reader, given| {
        attribute.ranks_per_node = reader.int(given, FROM_ONE).map(|value| value as u32);
    };
    "instances" "instances = 4" "Copies of the program, each working on its own part of every chunk. 1 unless given." => number!(FROM_ONE, base.instances);
    "replication" "replication = interleaved or none" "How instances share the chunks. `interleaved` unless given." => |attribute, reader, given| {
        if let Some(index) = reader.word(given, &["interleaved", "none"]) {
            attribute.base.replication = [Replication::Interleaved, Replication::None][index];
        }
    };
    "protocol" "protocol = Simple or LL" "Whether scratch is sized for plain data or for packets. `Simple` unless given." => |attribute, reader, given| {
        if let Some(index) = reader.word(given, &["Simple", "LL"]) {
            attribute.base.protocol = [Protocol::Simple, Protocol::LL][index];
        }
    };
    "threads_per_block" "threads_per_block = 512" "CUDA threads per thread block, 1 to 1024. 1024 unless given." => number!(1..=1024, base.threads_per_block);
    "message_size" "message_size = 1 << 20..=48 << 30" "The message sizes that the plans are meant for, in bytes. All unless given." => |attribute, reader, given| {
        if let Some((min, max)) = reader.range(given, u64::MAX) {
            (attribute.base.min_message_size, attribute.base.max_message_size) = (min, max);
        }
    };
    "tags" "tags = [\"nvls\"] or tags(nvls = 1)" "Labels for selectors, with the value 1 unless one is given." => |attribute, reader, given| {
        attribute.base.tags = reader.tags(given);
    };
    "fuse" "fuse = false" "Whether adjacent operations are fused. On unless given." => flag!(base.fuse);
    "auto_sync" "auto_sync = false" "Whether block syncs are inserted between dependent operations of a block. On unless given." => flag!(base.auto_sync);
    "reuse_resources" "reuse_resources" "Launches of all sizes share one scratch pool. Off unless given." => flag!(base.reuse_resources);
    "double_scratch" "double_scratch" "Launches alternate between two halves of scratch. Off unless given." => flag!(base.double_scratch);
    "dividing" "dividing" "The collective takes dividing counts only: the bytes of a rank's part are a multiple of its chunks, each a multiple of the alignment and, with packets, of 8 bytes. Other counts are an error of the call. Off unless given." => flag!(base.collective.dividing);
    "rows" "rows" "A message consists of rows, which no chunk divides, and `row_norm` normalizes the results of a reduction, the parts of an all-gather, or chunks of a custom collective. Off unless given." => flag!(base.collective.rows);
    "buffer_alignment" "buffer_alignment = 16" "Granularity of chunk boundaries, in bytes. 16 unless given; 1 for `AllToAllV` and `Custom`, whose chunks are exact to the element (with packets, to 8 bytes)." => number!(FROM_ONE, base.buffer_alignment);
    "check" "check = full, basic or off" "How much of the plan is checked. `full` unless given." => |attribute, reader, given| {
        if let Some(index) = reader.word(given, &["full", "basic", "off"]) {
            attribute.checks.level = [Level::Full, Level::Basic, Level::Off][index];
        }
    };
    "allow" "allow(unmatched_wait)" "Findings of the checks that the author has reviewed and allows, by slug (with `_` for `-`) or number. Not those without which a plan means nothing (M0202 to M0206)." => |attribute, reader, given| {
        attribute.checks.allow = reader.codes(given);
    };
    "max_steps" "max_steps = 50_000_000" "Maximum number of steps of one evaluation. 5 000 000 unless given." => |attribute, reader, given| {
        attribute.max_steps = reader.int(given, 1..=i128::from(u64::MAX)).map(|value| value as u64);
    };
    "crate" "crate = my::path" "The crate that the expansion takes its names from. `::mscclpp` unless given." => |attribute, reader, given| {
        attribute.krate = reader.path(given);
    };
};

/// The kinds of collectives.
pub(crate) const KINDS: [&str; 10] = [
    "AllReduce",
    "AllGather",
    "ReduceScatter",
    "AllToAll",
    "AllToAllV",
    "SendRecv",
    "Broadcast",
    "Reduce",
    "Custom(input = 4, output = 8)",
    "Test(input = 4, output = 8)",
];

/// Reads the arguments of an attribute on the function `name`. Errors go to `report`.
pub(crate) fn parse(tokens: TokenStream, name: &Ident, spans: &mut Spans, report: &mut Report) -> Attribute {
    let mut attribute = Attribute {
        base: AlgoSpec::new(name.to_string(), CollectiveKind::AllReduce, 0),
        ranks_per_node: None,
        ranks: Vec::new(),
        ranks_tok: spans.one(proc_macro2::Span::call_site()),
        places: BTreeMap::new(),
        params: Vec::new(),
        checks: Checks::default(),
        max_steps: None,
        krate: None,
    };
    let mut reader = Reader { spans, report };
    let Some(given) = reader.arguments(tokens) else { return attribute };
    let mut given = given.into_iter();
    match given.next() {
        Some(kind) => {
            if let Some(kind) = reader.kind(&kind) {
                attribute.base.collective.kind = kind;
                attribute.base.buffer_alignment = kind.default_alignment();
            }
        }
        None => {
            let help = format!("write `#[collective(AllGather, ranks = 8)]`; the kinds are {}", KINDS.join(", "));
            reader
                .report
                .error(Code::BadAttribute, attribute.ranks_tok, "the kind of the collective is missing")
                .help(help);
            return attribute;
        }
    }
    for given in given {
        let found = ARGUMENTS.iter().find(|argument| argument.name == given.name);
        match found {
            None => {
                let names: Vec<&str> = ARGUMENTS.iter().map(|argument| argument.name).collect();
                let message = format!("`#[collective]` has no argument `{}`", given.name);
                reader.report.error(Code::BadAttribute, given.tok, message).help(format!(
                    "{}it has {}",
                    suggest(&given.name, &names),
                    names.join(", ")
                ));
            }
            Some(argument) => {
                attribute.places.insert(argument.name, given.tok);
                (argument.set)(&mut attribute, &mut reader, &given);
            }
        }
    }
    if !attribute.places.contains_key("ranks") {
        let help = "write `ranks = 8` or `ranks = [2, 4, 8]`; for sizes known only at run time there is `compile`";
        reader.report.error(Code::BadAttribute, attribute.ranks_tok, "the number of ranks is missing").help(help);
    }
    attribute
}

impl Attribute {
    /// Returns all combinations of ranks and parameters in the order of the values; the number of ranks varies slowest.
    /// Reports an error if there are too many.
    pub(crate) fn combinations(&self, report: &mut Report) -> Vec<Combination> {
        let counts = self.params.iter().map(|param| param.values.len()).chain([self.ranks.len()]);
        let count = counts.fold(1_usize, |count, more| count.saturating_mul(more));
        if count > MAX_PLANS {
            let message = format!("this requires {count} plans, the limit is {MAX_PLANS}");
            report
                .error(Code::BadAttribute, self.ranks_tok, message)
                .help("give fewer ranks or values of parameters, or build plans at run time with `compile`");
            return Vec::new();
        }
        let mut list: Vec<Combination> =
            self.ranks.iter().map(|ranks| Combination { ranks: *ranks, values: Vec::new() }).collect();
        for param in &self.params {
            let extended = |combination: &Combination| {
                let with = |value: &i128| {
                    let mut values = combination.values.clone();
                    values.push(*value);
                    Combination { ranks: combination.ranks, values }
                };
                param.values.iter().map(with).collect::<Vec<_>>()
            };
            list = list.iter().flat_map(extended).collect();
        }
        list
    }

    /// Returns the specification of a combination. Its name ends with the values of the parameters that have several.
    pub(crate) fn spec(&self, combination: &Combination) -> AlgoSpec {
        let mut spec = self.base.clone();
        spec.num_ranks = combination.ranks;
        spec.ranks_per_node = self.ranks_per_node.unwrap_or(combination.ranks);
        for (param, value) in self.params.iter().zip(&combination.values) {
            if param.values.len() > 1 {
                spec.name += &format!("_{}{value}", param.name);
            }
        }
        spec
    }

    /// Returns the position of the argument that sets a field of the specification, if it is given.
    pub(crate) fn place(&self, field: &str) -> Option<SpanId> {
        let name = match field.rsplit('.').next().unwrap_or(field) {
            "min_message_size" | "max_message_size" => "message_size",
            name => name,
        };
        self.places.get(name).copied()
    }

    /// Returns the number of ranks per node, if it is given.
    pub(crate) fn ranks_per_node(&self) -> Option<u32> {
        self.ranks_per_node
    }

    /// Returns the specification without ranks and the values of parameters.
    pub(crate) fn base(&self) -> &AlgoSpec {
        &self.base
    }
}

/// Parses tokens with a parser of `syn`.
fn parse_as<T>(tokens: TokenStream, parser: impl Parser<Output = T>) -> syn::Result<T> {
    parser.parse2(tokens)
}
