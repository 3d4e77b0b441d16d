//! Parses a text into a tree: header, ranks and their tables. `operation` parses the lines of thread blocks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::TextError;
use super::lexer::{Lexer, Token};
use super::names::Peer;
use super::operation;
use super::tables::{RankTables, Uses};
use crate::collective::{Collective, CollectiveKind};
use crate::origin::{Origin, Origins, SourceLocation};
use crate::types::{BufferKind, ChannelKind, Protocol};
use crate::{BlockTable, ChannelTable, Expectation, PlanTree, RankPlan, RemoteBuffer, ThreadBlock};

/// Source locations of the parsed operations, if the name of the file is known.
pub(super) struct Locations {
    file: Option<Arc<str>>,
    origins: Origins,
}

impl Locations {
    /// Returns the origin of the item at the current token.
    pub(super) fn current(&mut self, lexer: &Lexer<'_>) -> Origin {
        let Some(file) = &self.file else { return Origin::UNKNOWN };
        let (line, column) = lexer.line_and_column();
        let place = SourceLocation { file: file.clone(), line, column, ..SourceLocation::default() };
        self.origins.add(place)
    }
}

pub(super) fn plan(text: &str, file: Option<&str>) -> Result<PlanTree, TextError> {
    let mut locations = Locations { file: file.map(Arc::from), origins: Origins::default() };
    let mut lexer = Lexer::new(text)?;
    lexer.skip_lines()?;
    let mut header = Header::default();
    while !matches!(lexer.peek(), Token::End | Token::Word("rank")) {
        header.line(&mut lexer, &mut locations)?;
        lexer.expect_line_end()?;
    }
    let (mut plan, ranks) = header.finish(&lexer)?;
    // The text must contain all of them, so that a number alone causes no allocation.
    for number in 0..ranks {
        plan.ranks.push(rank(number, &mut lexer, &mut locations)?);
    }
    plan.origins = locations.origins;
    match lexer.peek() {
        Token::End => Ok(plan),
        _ => Err(lexer.error(format!("the end of a plan for {ranks} rank{}", if ranks == 1 { "" } else { "s" }))),
    }
}

/// The lines before the ranks.
#[derive(Default)]
struct Header<'a> {
    seen: BTreeSet<&'a str>,
    name: String,
    kind: Option<CollectiveKind>,
    /// Numbers of 32 bits by their keys.
    numbers: BTreeMap<&'a str, u32>,
    sizes: BTreeMap<&'a str, u64>,
    protocol: Protocol,
    tags: BTreeMap<String, i64>,
    expectations: Vec<Expectation>,
}

/// The words with which a line of the header may begin.
const KEYS: &str = "`rank`, or a line of the header: `plan`, `collective`, `ranks`, `ranks_per_node`, `chunk_factor`, `root`, \
    `protocol`, `threads_per_block`, `buffer_alignment`, `min_message_size`, `max_message_size`, `in_place`, \
    `double_scratch`, `reuse_resources`, `dividing`, `rows`, `tag` or `expect`";

impl<'a> Header<'a> {
    fn line(&mut self, lexer: &mut Lexer<'a>, locations: &mut Locations) -> Result<(), TextError> {
        let at = lexer.position();
        if self.seen.is_empty() && *lexer.peek() != Token::Word("plan") {
            return Err(lexer.error("`plan` and the plan's name"));
        }
        let Token::Word(key) = *lexer.peek() else { return Err(lexer.error(KEYS)) };
        let origin = if key == "expect" { locations.current(lexer) } else { Origin::UNKNOWN };
        lexer.advance()?;
        match key {
            "plan" => self.name = lexer.name("the plan's name")?,
            "collective" => self.kind = Some(collective(lexer)?),
            "ranks" | "ranks_per_node" | "chunk_factor" | "root" | "threads_per_block" | "buffer_alignment" => {
                self.numbers.insert(key, lexer.number_u32("a number")?);
            }
            "min_message_size" | "max_message_size" => {
                self.sizes.insert(key, lexer.number("a size in bytes")?);
            }
            "protocol" => self.protocol = lexer.expect_named("`Simple` or `LL`", protocol)?,
            "in_place" | "double_scratch" | "reuse_resources" | "dividing" | "rows" => {}
            "tag" => {
                let at = lexer.position();
                let name = lexer.name("the tag's name")?;
                lexer.expect_mark("=")?;
                if self.tags.insert(name, lexer.number_i64("a number")?).is_some() {
                    return Err(lexer.error_at(at, "each tag once"));
                }
            }
            "expect" => self.expectations.push(Expectation { origin, ..expectation(lexer)? }),
            _ => return Err(lexer.error_at(at, KEYS)),
        }
        if !self.seen.insert(key) && !matches!(key, "tag" | "expect") {
            return Err(lexer.error_at(at, "each line of the header once"));
        }
        Ok(())
    }

    /// Returns the plan without its ranks, and the number of ranks.
    fn finish(self, lexer: &Lexer<'_>) -> Result<(PlanTree, u32), TextError> {
        let missing = |line: &str| lexer.error(format!("the header's line `{line}` before the ranks"));
        if !self.seen.contains("plan") {
            return Err(lexer.error("`plan` and the plan's name"));
        }
        let kind = self.kind.ok_or_else(|| missing("collective"))?;
        let number = |key, default| self.numbers.get(key).copied().unwrap_or(default);
        let ranks = self.numbers.get("ranks").copied().ok_or_else(|| missing("ranks"))?;
        let plan = PlanTree {
            name: self.name,
            collective: Collective {
                kind,
                chunk_factor: number("chunk_factor", 1),
                in_place: self.seen.contains("in_place"),
                root: number("root", 0),
                dividing: self.seen.contains("dividing"),
                rows: self.seen.contains("rows"),
            },
            protocol: self.protocol,
            reuse_resources: self.seen.contains("reuse_resources"),
            threads_per_block: number("threads_per_block", 1024),
            double_scratch: self.seen.contains("double_scratch"),
            buffer_alignment: number("buffer_alignment", kind.default_alignment()),
            min_message_size: self.sizes.get("min_message_size").copied().unwrap_or(0),
            max_message_size: self.sizes.get("max_message_size").copied().unwrap_or(u64::MAX),
            ranks_per_node: number("ranks_per_node", ranks),
            tags: self.tags,
            ranks: Vec::new(),
            expectations: self.expectations,
            origins: Origins::default(),
        };
        Ok((plan, ranks))
    }
}

fn collective(lexer: &mut Lexer<'_>) -> Result<CollectiveKind, TextError> {
    const NAMES: &str =
        "`allreduce`, `allgather`, `reducescatter`, `alltoall`, `sendrecv`, `broadcast`, `reduce`, `custom` or `test`";
    let kind = lexer.expect_named(NAMES, |name| {
        CollectiveKind::from_name(name).or(match name {
            "custom" => Some(CollectiveKind::Custom { input: 0, output: 0 }),
            "test" => Some(CollectiveKind::Test { input: 0, output: 0 }),
            _ => None,
        })
    })?;
    let counts = |lexer: &mut Lexer<'_>| {
        let input = lexer.number_u32("chunks of the input")?;
        lexer.expect_mark("->")?;
        Ok((input, lexer.number_u32("chunks of the output")?))
    };
    Ok(match kind {
        CollectiveKind::Custom { .. } => {
            counts(lexer).map(|(input, output)| CollectiveKind::Custom { input, output })?
        }
        CollectiveKind::Test { .. } => counts(lexer).map(|(input, output)| CollectiveKind::Test { input, output })?,
        kind => kind,
    })
}

fn protocol(name: &str) -> Option<Protocol> {
    [Protocol::Simple, Protocol::LL].into_iter().find(|protocol| protocol.name() == name)
}

/// Reads first chunk and number of chunks from `[3]` or `[0..4]`.
pub(super) fn range(lexer: &mut Lexer<'_>) -> Result<(u32, u32), TextError> {
    lexer.expect_mark("[")?;
    let first = lexer.number_u32("a chunk")?;
    let mut size = 1;
    if lexer.take_mark("..")? {
        let at = lexer.position();
        let end = lexer.number("the end of the chunks")?;
        let wrong = || lexer.error_at(at, format!("an end of the chunks that is at least {first}"));
        let chunks = end.checked_sub(first.into()).ok_or_else(wrong)?;
        size = u32::try_from(chunks).map_err(|_| lexer.error_at(at, format!("at most {} chunks", u32::MAX)))?;
    }
    lexer.expect_mark("]")?;
    Ok((first, size))
}

/// Reads `expect rank 0 output[0] = rank 0 input[0] + rank 1 input[0]`, after its first word.
fn expectation(lexer: &mut Lexer<'_>) -> Result<Expectation, TextError> {
    lexer.expect_word("rank")?;
    let rank = lexer.number_u32("a rank")?;
    lexer.expect_word("output")?;
    let (chunk, len) = range(lexer)?;
    lexer.expect_mark("=")?;
    let mut inputs = Vec::new();
    while matches!(lexer.peek(), Token::Word("rank")) {
        lexer.expect_word("rank")?;
        let rank = lexer.number_u32("a rank")?;
        lexer.expect_word("input")?;
        let at = lexer.position();
        let (first, size) = range(lexer)?;
        if size != len {
            return Err(lexer.error_at(at, format!("as many chunks as of the output, {len}")));
        }
        inputs.push((rank, first));
        if !lexer.take_mark("+")? {
            break;
        }
        if !matches!(lexer.peek(), Token::Word("rank")) {
            return Err(lexer.error("`rank`"));
        }
    }
    Ok(Expectation { rank, chunk, len, inputs, origin: Origin::UNKNOWN })
}

fn rank(number: u32, lexer: &mut Lexer<'_>, locations: &mut Locations) -> Result<RankPlan, TextError> {
    let expected = |lexer: &Lexer<'_>| lexer.error(format!("`rank {number}`"));
    let Token::Word("rank") = lexer.peek() else { return Err(expected(lexer)) };
    lexer.advance()?;
    let Token::Number(found) = lexer.peek() else { return Err(expected(lexer)) };
    if *found != u64::from(number) {
        return Err(lexer.error(format!("rank number {number}")));
    }
    lexer.advance()?;
    let mut counts = [0; 3];
    for (i, (count, name)) in counts.iter_mut().zip(["input", "output", "scratch"]).enumerate() {
        lexer.expect_mark(if i == 0 { "(" } else { "," })?;
        lexer.expect_word(name)?;
        *count = lexer.number_u32("a number of chunks")?;
    }
    lexer.expect_mark(")")?;
    lexer.expect_mark("{")?;
    lexer.expect_line_end()?;
    let [input_chunks, output_chunks, scratch_chunks] = counts;
    let mut tables = RankTables::default();
    let mut rank = RankPlan { input_chunks, output_chunks, scratch_chunks, ..RankPlan::default() };
    loop {
        match *lexer.peek() {
            Token::Word("channels") => tables.state_channels(channels(lexer)?),
            Token::Word("buffers") => tables.state_buffers(buffers(lexer)?),
            Token::Word("semaphores") => {
                lexer.advance()?;
                rank.semaphores.extend(lexer.list(|lexer| lexer.number_i64("a semaphore's first value"))?);
            }
            Token::Word("block") | Token::Mark("}") => break,
            _ => return Err(lexer.error("`channels`, `buffers`, `semaphores`, `block` or `}`")),
        }
        lexer.expect_line_end()?;
    }
    while lexer.take_word("block")? {
        rank.blocks.push(block(rank.blocks.len(), &mut tables, lexer, locations)?);
    }
    lexer.expect_mark("}")?;
    lexer.expect_line_end()?;
    (rank.channels, rank.remote_buffers) = (tables.channels, tables.buffers);
    Ok(rank)
}

fn channels(lexer: &mut Lexer<'_>) -> Result<ChannelTable, TextError> {
    lexer.advance()?;
    let peer = |lexer: &mut Lexer<'_>| lexer.number_u32("a rank");
    Ok(match kind(lexer)? {
        ChannelKind::Memory => ChannelTable::Memory(lexer.list(peer)?),
        ChannelKind::Port => ChannelTable::Port(lexer.list(peer)?),
        ChannelKind::Switch => {
            let buffer = buffer(lexer)?;
            let groups = lexer.list(|lexer| {
                lexer.expect_mark("(")?;
                if lexer.take_mark(")")? {
                    return Ok(Vec::new());
                }
                let ranks = lexer.list(peer)?;
                lexer.expect_mark(")")?;
                Ok(ranks)
            })?;
            ChannelTable::Switch { buffer, groups }
        }
    })
}

fn buffers(lexer: &mut Lexer<'_>) -> Result<Vec<RemoteBuffer>, TextError> {
    lexer.advance()?;
    lexer.list(|lexer| {
        lexer.expect_word("rank")?;
        let rank = lexer.number_u32("a rank")?;
        let buffer = buffer(lexer)?;
        let memory = lexer.take_word("memory")?;
        Ok(RemoteBuffer { rank, buffer, memory, port: lexer.take_word("port")? })
    })
}

fn kind(lexer: &mut Lexer<'_>) -> Result<ChannelKind, TextError> {
    lexer.expect_named("`memory`, `port` or `switch`", ChannelKind::from_name)
}

pub(super) fn buffer_of_name(name: &str) -> Option<BufferKind> {
    match name {
        "input" => Some(BufferKind::Input),
        "output" => Some(BufferKind::Output),
        "scratch" => Some(BufferKind::Scratch),
        _ => None,
    }
}

pub(super) fn buffer(lexer: &mut Lexer<'_>) -> Result<BufferKind, TextError> {
    lexer.expect_named("`input`, `output` or `scratch`", buffer_of_name)
}

/// Reads the peer of a channel, `1` or `1.2`, after `rank`.
pub(super) fn peer(lexer: &mut Lexer<'_>) -> Result<Peer, TextError> {
    let rank = lexer.number_u32("a rank")?;
    let nth = if lexer.take_mark(".")? { lexer.number_u32("which of the channels to that rank")? } else { 0 };
    Ok(Peer { rank, nth })
}

fn block(
    number: usize,
    rank: &mut RankTables,
    lexer: &mut Lexer<'_>,
    locations: &mut Locations,
) -> Result<ThreadBlock, TextError> {
    let Token::Number(found) = lexer.peek() else { return Err(lexer.error("the thread block's number")) };
    if *found != number as u64 {
        return Err(lexer.error(format!("thread block number {number}")));
    }
    lexer.advance()?;
    lexer.expect_mark(":")?;
    lexer.expect_line_end()?;
    let [mut channels, mut buffers] = [Uses::default(), Uses::default()];
    while lexer.take_word("uses")? {
        let of_buffers = lexer.take_word("buffers")?;
        if !of_buffers && !lexer.take_word("channels")? {
            return Err(lexer.error("`channels` or `buffers`"));
        }
        let kind = kind(lexer)?;
        let numbers = lexer.list(|lexer| used(of_buffers, kind, rank, lexer))?;
        let uses = if of_buffers { &mut buffers } else { &mut channels };
        uses.state(kind, BlockTable::from_vec(numbers));
        lexer.expect_line_end()?;
    }
    let mut scope = operation::Scope { rank, channels, buffers, locations };
    let ops = operation::all(&mut scope, lexer, 0)?;
    Ok(ThreadBlock { ops, channels: scope.channels.tables, remote_buffers: scope.buffers.tables })
}

/// Returns the number in the rank's tables of one entry of a `uses` line.
fn used(of_buffers: bool, kind: ChannelKind, rank: &mut RankTables, lexer: &mut Lexer<'_>) -> Result<u32, TextError> {
    if lexer.take_mark("#")? {
        return lexer.number_u32("a number of the rank's table");
    }
    if !of_buffers && kind == ChannelKind::Switch {
        return lexer.number_u32("a switch channel");
    }
    lexer.expect_word("rank")?;
    let at = lexer.position();
    let number = if of_buffers {
        let owner = lexer.number_u32("a rank")?;
        let buffer = buffer(lexer)?;
        rank.buffer(kind, (owner, buffer))
    } else {
        let peer = peer(lexer)?;
        rank.channel(kind, peer)
    };
    number.ok_or_else(|| lexer.error_at(at, "an entry of the rank's table"))
}
