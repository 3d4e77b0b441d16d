//! Source locations of the operations of an image: stored separately from it, never part of its bytes or hash.
//!
//! A u64, the position after the words; the words, as in a section; [`PADDING`] zero bytes; the texts. The words are
//!
//! ```text
//! HEAD words      ranks, operations, locations, variables, strings
//! ranks           position of each rank's first operation in the next table
//! operations      location of each plus one, 0 for unknown
//! locations       PLACE words each: file, line, column, token plus one, first variable, variables
//! variables       VARIABLE words each: name, value with its sign in the lowest bit, low and high half
//! strings         STRING words each: first byte, length
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layout::{PADDING, Words, index, push_words, u64_at};
use crate::origin::{Origin, Origins, SourceLocation, Variables};
use crate::{Op, PlanTree};

const START: usize = 8;
const HEAD: usize = 5;
const PLACE: usize = 6;
const VARIABLE: usize = 3;
const STRING: usize = 2;

/// Returns the bytes of a plan's origins; empty if no operation has a known source location.
pub(super) fn encode(plan: &PlanTree) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.used.resize(plan.origins.locations().len(), 0);
    let mut starts = Vec::new();
    for rank in &plan.ranks {
        starts.push(writer.ops.len() as u64);
        rank.blocks.iter().for_each(|block| writer.ops(&plan.origins, &block.ops));
    }
    if writer.places.is_empty() {
        return Vec::new();
    }
    let mut words = vec![
        starts.len() as u64,
        writer.ops.len() as u64,
        (writer.places.len() / PLACE) as u64,
        (writer.variables.len() / VARIABLE) as u64,
        (writer.strings.len() / STRING) as u64,
    ];
    for table in [starts, writer.ops, writer.places, writer.variables, writer.strings] {
        words.extend(table);
    }
    let mut out = vec![0; START];
    push_words(&mut out, &words);
    let end = out.len() as u64;
    out[..START].copy_from_slice(&end.to_le_bytes());
    out.extend_from_slice(&[0; PADDING]);
    out.extend_from_slice(&writer.text);
    out
}

#[derive(Default)]
struct Writer<'a> {
    /// The number under which each source location of the plan is written; 0 while it is unused.
    used: Vec<u64>,
    ops: Vec<u64>,
    places: Vec<u64>,
    variables: Vec<u64>,
    strings: Vec<u64>,
    text: Vec<u8>,
    known: BTreeMap<&'a str, u64>,
}

impl<'a> Writer<'a> {
    fn ops(&mut self, origins: &'a Origins, ops: &'a [Op]) {
        for op in ops {
            let number = origins.get(op.origin).map_or(0, |place| self.place(op.origin, place));
            self.ops.push(number);
            if let Some(body) = &op.body {
                self.ops(origins, &body.ops);
            }
        }
    }

    fn place(&mut self, origin: Origin, place: &'a SourceLocation) -> u64 {
        let at = origin.0 as usize;
        if self.used[at] == 0 {
            let first = (self.variables.len() / VARIABLE) as u64;
            for (name, value) in &place.variables {
                let zigzag = ((value << 1) ^ (value >> 127)) as u128;
                let variable = [self.string(name), zigzag as u64, (zigzag >> 64) as u64];
                self.variables.extend(variable);
            }
            let file = self.string(&place.file);
            let token = u64::from(place.token.wrapping_add(1));
            let variables = place.variables.len() as u64;
            self.places.extend([file, u64::from(place.line), u64::from(place.column), token, first, variables]);
            self.used[at] = (self.places.len() / PLACE) as u64;
        }
        self.used[at]
    }

    fn string(&mut self, string: &'a str) -> u64 {
        let next = self.known.len() as u64;
        *self.known.entry(string).or_insert_with(|| {
            self.strings.extend([self.text.len() as u64, string.len() as u64]);
            self.text.extend_from_slice(string.as_bytes());
            next
        })
    }
}

/// A view of the bytes. Damaged bytes give fewer source locations, never a panic.
pub(super) struct OriginTable<'a> {
    words: Words<'a>,
    text: &'a [u8],
    /// First words of the five tables, then the end.
    starts: [usize; 6],
}

impl<'a> OriginTable<'a> {
    /// Returns a view of the tables, if the bytes hold any.
    pub(super) fn new(bytes: &'a [u8]) -> Option<Self> {
        let end = index(u64_at(bytes, 0));
        let words = Words::new(bytes, START, end)?;
        let mut starts = [HEAD; 6];
        for (i, size) in [1, 1, PLACE, VARIABLE, STRING].into_iter().enumerate() {
            starts[i + 1] = starts[i].checked_add(words.index(i).checked_mul(size)?)?;
        }
        (starts[5] <= words.len()).then_some(Self { words, text: bytes.get(end + PADDING..)?, starts })
    }

    /// Returns the source location of an operation, counted over its whole rank.
    pub(super) fn place(&self, rank: u32, op: usize) -> Option<SourceLocation> {
        let [ranks, ops, places, ..] = self.starts;
        let rank = ranks.saturating_add(rank as usize);
        if rank >= ops {
            return None;
        }
        let op = ops.saturating_add(self.words.index(rank)).saturating_add(op);
        if op >= places {
            return None;
        }
        self.place_at(self.words.index(op).checked_sub(1)?, &mut |string| self.string(string).map(Arc::from))
    }

    fn place_at(&self, place: usize, string: &mut dyn FnMut(usize) -> Option<Arc<str>>) -> Option<SourceLocation> {
        let [_, _, places, table, strings, _] = self.starts;
        let at = places.saturating_add(place.saturating_mul(PLACE));
        if at >= table {
            return None;
        }
        let word = |i| self.words.index(at + i);
        let first = table.saturating_add(word(4).saturating_mul(VARIABLE)).min(strings);
        let end = first.saturating_add(word(5).saturating_mul(VARIABLE)).min(strings);
        let mut variables = Variables::new();
        for at in (first..end).step_by(VARIABLE) {
            let zigzag = u128::from(self.words.get(at + 2)) << 64 | u128::from(self.words.get(at + 1));
            let value = (zigzag >> 1) as i128 ^ -((zigzag & 1) as i128);
            variables.push((string(self.words.index(at))?, value));
        }
        Some(SourceLocation {
            file: string(word(0))?,
            line: word(1) as u32,
            column: word(2) as u32,
            variables,
            token: (word(3) as u32).wrapping_sub(1),
            ..SourceLocation::default()
        })
    }

    fn string(&self, string: usize) -> Option<&'a str> {
        let at = self.starts[4].saturating_add(string.saturating_mul(STRING));
        if at >= self.starts[5] {
            return None;
        }
        let start = self.words.index(at);
        let text = self.text.get(start..start.saturating_add(self.words.index(at + 1)))?;
        std::str::from_utf8(text).ok()
    }

    /// Returns all source locations, and per rank the origin of each operation.
    pub(super) fn decode(&self) -> (Origins, Vec<Vec<Origin>>) {
        let mut origins = Origins::default();
        let [ranks, ops, places, variables, strings, end] = self.starts;
        let known: Vec<Option<Arc<str>>> =
            (0..(end - strings) / STRING).map(|string| self.string(string).map(Arc::from)).collect();
        let mut string = |string: usize| known.get(string).cloned().flatten();
        let of_places: Vec<Origin> = (0..(variables - places) / PLACE)
            .map(|place| self.place_at(place, &mut string).map_or(Origin::UNKNOWN, |place| origins.add(place)))
            .collect();
        let of_op = |at: usize| {
            let place = self.words.index(at).checked_sub(1);
            place.and_then(|place| of_places.get(place)).copied().unwrap_or(Origin::UNKNOWN)
        };
        let start = |rank: usize| ops.saturating_add(self.words.index(rank)).min(places);
        let of_ops = (ranks..ops).map(|rank| {
            let end = if rank + 1 < ops { start(rank + 1) } else { places };
            (start(rank)..end).map(of_op).collect()
        });
        (origins, of_ops.collect())
    }
}
