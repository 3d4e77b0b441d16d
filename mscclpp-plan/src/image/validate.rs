//! Full validation of an image: every count, every position, every enum value.
//!
//! Every list must start where the previous one ended, so that no two lists share bytes: a malicious image cannot make
//! a decoder produce more than the image's length.

use super::Plan;
use super::encode::{WITH_CHUNK_COUNTS, kind_of_number};
use super::error::ImageError;
use super::hash::hash;
use super::layout::*;
use super::view::{BlockView, OpView, RankView, switch_buffer};
use crate::types::{ChannelKind, Protocol, ReduceOp};
use crate::{Expectation, OpKind};

/// Validates magic number, version and length.
pub(super) fn outline(image: &[u8]) -> Result<(), ImageError> {
    if !image.starts_with(&MAGIC) {
        return Err(ImageError::Magic { found: image.len() });
    }
    let found = u32_at(image, VERSION);
    if found != FORMAT {
        return Err(ImageError::Version { found, expected: FORMAT });
    }
    let (found, expected) = (image.len() as u64, u64_at(image, LENGTH));
    if found != expected || image.len() < HEADER + 8 + PADDING {
        return Err(ImageError::Length { found, expected: expected.max((HEADER + 8 + PADDING) as u64) });
    }
    Ok(())
}

/// Validates the whole image.
pub(super) fn image(plan: &Plan) -> Result<(), ImageError> {
    let image = plan.image();
    outline(image)?;
    let (found, expected) = (hash(image), plan.hash());
    if found != expected {
        return Err(ImageError::Hash { found, expected });
    }
    header(image)?;
    let ranks = u32_at(image, RANKS);
    let directory = (image.len() - HEADER) / 8;
    if index(u64::from(ranks)) >= directory {
        return Err(header_error("number of ranks", u64::from(ranks), "at most the number of directory entries"));
    }
    let first = expectations(plan, texts(image, HEADER + 8 * (ranks as usize + 1))?)?;
    let mut end = first;
    for rank in 0..ranks {
        let start = index(u64_at(image, HEADER + 8 * rank as usize));
        if start != end {
            return Err(rank_error(rank, "section at byte", start as u64, format!("{end}")));
        }
        end = index(u64_at(image, HEADER + 8 * (rank as usize + 1)));
        let view = plan.rank(rank);
        let view = view.ok_or_else(|| {
            rank_error(rank, "section up to byte", end as u64, "an end within the bounds of its tables".into())
        })?;
        section(rank, &view)?;
    }
    let found = u64_at(image, HEADER + 8 * ranks as usize);
    if found != (image.len() - PADDING) as u64 || end as u64 != found {
        return Err(header_error("end of the sections at byte", found, "the length less the padding"));
    }
    if image[image.len() - PADDING..] != [0; PADDING] {
        return Err(header_error("padding", 1, "zero bytes"));
    }
    Ok(())
}

fn header_error(what: &'static str, found: u64, expected: &'static str) -> ImageError {
    ImageError::Header { what, found, expected }
}

fn rank_error(rank: u32, what: &'static str, found: u64, expected: String) -> ImageError {
    ImageError::Rank { rank, what, found, expected }
}

fn header(image: &[u8]) -> Result<(), ImageError> {
    let kind = image[KIND];
    if kind_of_number(kind, 0, 0).is_none() {
        return Err(header_error("collective", u64::from(kind), "0 to 9"));
    }
    for (what, at) in [("input chunks", KIND_INPUT), ("output chunks", KIND_OUTPUT)] {
        let found = u64::from(u32_at(image, at));
        if !WITH_CHUNK_COUNTS.contains(&kind) && found != 0 {
            return Err(header_error(what, found, "0 for a collective without explicit chunk counts"));
        }
    }
    let protocol = image[PROTOCOL];
    if protocol > Protocol::LL as u8 {
        return Err(header_error("protocol", u64::from(protocol), "0 or 1"));
    }
    let flags = image[FLAGS];
    if flags & !(IN_PLACE | REUSE_RESOURCES | DOUBLE_SCRATCH | DIVIDING | ROWS) != 0 {
        return Err(header_error("flags", u64::from(flags), "0 to 31"));
    }
    if image[ZERO] != 0 {
        return Err(header_error("reserved byte", u64::from(image[ZERO]), "0"));
    }
    Ok(())
}

/// Checks name and tags from a position on and returns where they end.
fn texts(image: &[u8], start: usize) -> Result<usize, ImageError> {
    let (_, mut at) = text(image, start, u64_at(image, NAME_LENGTH), "name of length")?;
    let length = u64_at(image, TAGS_LENGTH);
    let end = at.saturating_add(index(length));
    if end > image.len() {
        return Err(header_error("tags of length", length, "a length within the image"));
    }
    let mut last = None;
    while at < end {
        let length = u64_at(image, at.saturating_add(8));
        let (key, next) = text(image, at.saturating_add(16), length, "tag of length")?;
        if next > end || last.is_some_and(|last| last >= key) {
            return Err(header_error("tag of length", length, "ascending keys within the tags"));
        }
        (at, last) = (next, Some(key));
    }
    Ok(at)
}

/// Checks the expectations from a position on and returns where they end.
fn expectations(plan: &Plan, start: usize) -> Result<usize, ImageError> {
    let length = u64_at(plan.image(), EXPECTED_LENGTH);
    let end = start.saturating_add(index(length));
    if length == 0 {
        return Ok(end);
    }
    let error = || header_error("expectations of length", length, "whole expectations in words of the least width");
    let words = Words::new(plan.image(), start, end).ok_or_else(error)?;
    let read = |expectation: Expectation| EXPECTATION + INPUT * expectation.inputs.len();
    let whole = words.len() > 0 && plan.expectations().map(read).sum::<usize>() == words.len();
    if whole && words.is_least_width() { Ok(end) } else { Err(error()) }
}

/// Returns a text and the position of its end.
fn text<'a>(image: &'a [u8], start: usize, length: u64, what: &'static str) -> Result<(&'a str, usize), ImageError> {
    let end = start.saturating_add(index(length));
    let text = image.get(start..end).ok_or_else(|| header_error(what, length, "a length within the image"))?;
    let text = std::str::from_utf8(text).map_err(|_| header_error(what, length, "UTF-8"))?;
    Ok((text, end))
}

/// Validates one rank's section.
pub(super) fn section(rank: u32, view: &RankView<'_>) -> Result<(), ImageError> {
    Section { rank, view, numbers: 0, refs: 0 }.check()
}

struct Section<'a> {
    rank: u32,
    view: &'a RankView<'a>,
    /// Position at which the next list must start.
    numbers: usize,
    refs: usize,
}

type Check = Result<(), ImageError>;

impl Section<'_> {
    fn expect(&self, holds: bool, what: &'static str, found: u64, expected: impl FnOnce() -> String) -> Check {
        if holds { Ok(()) } else { Err(rank_error(self.rank, what, found, expected())) }
    }

    fn below(&self, what: &'static str, found: u64, limit: u64) -> Check {
        self.expect(found < limit, what, found, || format!("less than {limit}"))
    }

    fn check(mut self) -> Check {
        let (words, tables) = (&self.view.words, &self.view.tables);
        self.expect(words.is_least_width(), "width of words", 0, || "the least one".into())?;
        for at in 0..3 {
            self.below("number of chunks", words.get(at), 1 << 32)?;
        }
        for table in [tables.blocks, tables.ops, tables.channels, tables.remote, tables.semaphores] {
            self.below("entries of a table", table.len as u64, 1 << 32)?;
        }
        for (tag, first, len) in self.view.channel_tables() {
            self.below("channel table's tag", tag, TAG_SWITCH + 3)?;
            self.numbers(first, len)?;
            if switch_buffer(tag).is_some() {
                for at in first..first + len {
                    let length = index(words.get(tables.numbers.start + at));
                    self.numbers(self.numbers, length)?;
                }
            }
        }
        for at in (0..tables.remote.len).map(|i| tables.remote.start + i * REMOTE) {
            self.below("owner of a remote buffer", words.get(at), 1 << 32)?;
            self.below("bits of a remote buffer", words.get(at + 1), 2 * ACCESS_PORT)?;
            self.below("buffer of a remote buffer", words.get(at + 1) & 3, 3)?;
        }
        let (mut op, mut table) = (0, 0);
        for (i, block) in self.view.blocks().enumerate() {
            let at = tables.blocks.start + i * BLOCK;
            self.position("first operation of a block", words.get(at), op)?;
            self.position("first table of a block", words.get(at + 2), table)?;
            op = self.advance("operations of a block", op, words.get(at + 1), tables.ops.len)?;
            table = self.advance("channel tables of a block", table, words.get(at + 3), tables.block_tables.len)?;
            table = self.advance("remote tables of a block", table, words.get(at + 4), tables.block_tables.len)?;
            self.block(&block)?;
            let first = words.index(at + 2);
            for at in (first..table).map(|i| tables.block_tables.start + i * TABLE) {
                self.below("channel kind", words.get(at), ChannelKind::ALL.len() as u64)?;
                self.numbers(words.index(at + 1), words.index(at + 2))?;
            }
        }
        self.position("operations in blocks", op as u64, tables.ops.len)?;
        self.position("tables in blocks", table as u64, tables.block_tables.len)?;
        self.position("operands in operations", self.refs as u64, tables.refs.len)?;
        self.position("numbers in lists", self.numbers as u64, tables.numbers.len)
    }

    fn position(&self, what: &'static str, found: u64, expected: usize) -> Check {
        self.expect(found == expected as u64, what, found, || expected.to_string())
    }

    /// Returns `at + count`, if it does not exceed `end`.
    fn advance(&self, what: &'static str, at: usize, count: u64, end: usize) -> Result<usize, ImageError> {
        let next = at.saturating_add(index(count));
        self.expect(next <= end, what, count, || format!("at most {}", end - at))?;
        Ok(next)
    }

    /// Takes a list of 32-bit numbers.
    fn numbers(&mut self, first: usize, len: usize) -> Check {
        let table = self.view.tables.numbers;
        self.position("first number of a list", first as u64, self.numbers)?;
        self.numbers = self.advance("numbers of a list", first, len as u64, table.len)?;
        for at in first..self.numbers {
            self.below("number", self.view.words.get(table.start + at), 1 << 32)?;
        }
        Ok(())
    }

    fn block(&mut self, block: &BlockView<'_>) -> Check {
        // Flat positions at which the open pipelines end, innermost last.
        let mut ends: Vec<usize> = Vec::new();
        for (at, op) in block.ops().enumerate() {
            while ends.last() == Some(&at) {
                ends.pop();
            }
            self.op(&op)?;
            if let Some(header) = op.pipeline() {
                let end = ends.last().copied().unwrap_or(block.num_ops() as usize);
                let end = self.advance("operations of a pipeline", at + 1, u64::from(header.body_len), end)?;
                self.below("pipelines inside pipelines", ends.len() as u64, MAX_DEPTH as u64)?;
                ends.push(end);
            }
        }
        Ok(())
    }

    fn op(&mut self, op: &OpView<'_>) -> Check {
        let attributes = op.entry.attributes;
        self.below("operation kind", op.entry.kind, OpKind::ALL.len() as u64)?;
        self.below("attributes of an operation", attributes, ATTRIBUTES_END)?;
        let reduce = attributes >> REDUCE_SHIFT & REDUCE_MASK;
        self.below("reduction of an operation", reduce, ReduceOp::ALL.len() as u64 + 1)?;
        self.position("first operand of an operation", op.entry.first_ref as u64, self.refs)?;
        for count in [op.entry.srcs, op.entry.dsts] {
            let refs = self.view.tables.refs;
            let first = self.refs;
            self.refs = self.advance("operands of an operation", first, count as u64, refs.len)?;
            for at in (first..self.refs).map(|i| refs.start + i * REF) {
                self.below("buffer of an operand", self.view.words.get(at), PLACE_REMOTE + (1 << 33))?;
                self.below("first chunk of an operand", self.view.words.get(at + 1), 1 << 32)?;
                self.below("chunks of an operand", self.view.words.get(at + 2), 1 << 32)?;
            }
        }
        self.numbers(op.entry.first_number, op.entry.ids)?;
        let pairs = [HAS_SLICE, HAS_COUNT].iter().filter(|bit| attributes & **bit != 0).count();
        let extra = 2 * pairs + usize::from(attributes & HAS_BLOCKS != 0);
        self.numbers(self.numbers, extra)?;
        let no_blocks = attributes & HAS_BLOCKS != 0 && op.num_blocks() == 0;
        self.expect(!no_blocks, "thread blocks of a barrier", 0, || "at least 1".into())?;
        if attributes & HAS_BODY != 0 {
            let numbers = self.view.tables.numbers;
            let first = self.numbers;
            self.numbers = self.advance("numbers of a pipeline", first, 3, numbers.len)?;
            for at in first + 1..self.numbers {
                self.below("number", self.view.words.get(numbers.start + at), 1 << 32)?;
            }
        }
        Ok(())
    }
}
