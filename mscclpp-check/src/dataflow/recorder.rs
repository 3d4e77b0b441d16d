//! Records what the chunks of all buffers hold after each operation, for a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use mscclpp_plan::types::ReduceOp;
use mscclpp_trace::{Cell, Change, Content, Memory};

use super::Dataflow;
use super::contributions::Contributions;
use super::values::Node;
use crate::machine::Observer;
use crate::model::{Model, Space, memory_number};

/// Maximum number of chunks that are recorded, of all buffers.
const MAX_CELLS: usize = 4096;
/// Maximum number of chunks of a buffer, accessed or not.
const MAX_CHUNKS: u32 = 1 << 16;
/// Maximum number of ranges that are read, and of terms of one value.
const MAX_READS: u64 = 1 << 22;
const MAX_TERMS: u64 = 1 << 12;
/// Maximum number of inputs, or of parts of a chunk, that a description lists.
const MAX_LISTED: usize = 6;

/// Observes the abstract execution of a plan, and records what its chunks hold.
pub(crate) struct MemoryRecorder<'p> {
    dataflow: Dataflow<'p>,
    memory: Memory,
    /// Number of a cell, by buffer and chunk.
    cells: BTreeMap<(usize, u64), u32>,
    contents: BTreeMap<Content, u32>,
    /// Descriptions of values, by node and coordinate.
    described: BTreeMap<(Node, u64), (BTreeSet<u32>, String)>,
    /// Current content per cell.
    state: Vec<u32>,
    /// Whether operations access an atom; other atoms belong to other instances of the plan.
    accessed: Vec<bool>,
    is_instance: bool,
    /// Ranges that may still be read.
    budget: u64,
}

/// Returns the name of a buffer. Input and output of an in-place plan are one.
fn buffer_name(space: Space, in_place: bool) -> &'static str {
    match space {
        Space::Input | Space::Output if in_place => "input and output",
        Space::Input => "input",
        Space::Output => "output",
        Space::Scratch => "scratch",
        Space::Packets => "packets",
    }
}

impl<'p> MemoryRecorder<'p> {
    /// Creates a recorder; `None` for plans with too many chunks.
    pub(crate) fn of(model: &Model<'p>) -> Option<Self> {
        let mut accessed = vec![false; model.atoms.count()];
        let steps = model.agents.iter().flat_map(|agent| agent.steps.clone());
        for effect in steps.flat_map(|step| model.effects(step)) {
            accessed[effect.atoms()].fill(true);
        }
        let is_instance = model.view.instances() > 1;
        let mut recorder = Self {
            dataflow: Dataflow::new(model, None),
            memory: Memory { num_ranks: model.ranks, contents: vec![nothing()], ..Memory::default() },
            cells: BTreeMap::new(),
            contents: BTreeMap::from([(nothing(), 0)]),
            described: BTreeMap::new(),
            state: Vec::new(),
            accessed,
            is_instance,
            budget: MAX_READS,
        };
        let ranks = &model.plan.ranks;
        for space in Space::ALL {
            for (rank, tables) in (0..).zip(ranks) {
                let (chunks, is_shown) = match space {
                    Space::Input => (tables.input_chunks, !model.plan.collective.in_place),
                    Space::Output => (tables.output_chunks, !model.plan.collective.in_place),
                    Space::Scratch | Space::Packets => (tables.scratch_chunks, false),
                };
                if chunks > MAX_CHUNKS {
                    return None;
                }
                for chunk in 0..chunks {
                    if !(is_shown && !is_instance || recorder.is_accessed(model, (rank, space), chunk.into())) {
                        continue;
                    }
                    if recorder.memory.cells.len() >= MAX_CELLS {
                        return None;
                    }
                    let memory = memory_number(rank, space);
                    let buffer = buffer_name(space, model.plan.collective.in_place);
                    recorder.cells.insert((memory, chunk.into()), recorder.memory.cells.len() as u32);
                    recorder.memory.cells.push(Cell { buffer, rank, chunk });
                    let content = recorder.content(model, (rank, space), chunk.into());
                    let number = recorder.number(content);
                    recorder.memory.initial.push(number);
                }
            }
        }
        recorder.state.clone_from(&recorder.memory.initial);
        Some(recorder)
    }

    /// Executes a step. `slice` returns the slice of the operand at a position.
    pub(crate) fn step(&mut self, model: &Model<'p>, agent: usize, step: usize, slice: impl Fn(u32) -> u32) {
        self.dataflow.on_step(model, agent, step);
        let chunk_len = model.size.chunk().max(1);
        for effect in model.effects(step).iter().filter(|effect| effect.write && !effect.atoms().is_empty()) {
            let range = model.range(effect);
            let memory = memory_number(effect.owner, effect.memory);
            for chunk in range.start / chunk_len..range.end.div_ceil(chunk_len) {
                let Some(&cell) = self.cells.get(&(memory, chunk)).filter(|_| self.budget > 0) else { continue };
                let content = self.content(model, (effect.owner, effect.memory), chunk);
                let content = self.number(content);
                if std::mem::replace(&mut self.state[cell as usize], content) != content {
                    self.memory.changes.push(Change { slice: slice(effect.position), cell, content });
                }
            }
        }
    }

    /// Returns the recorded contents; `None` if they were too many.
    pub(crate) fn finish(self) -> Option<Memory> {
        let is_complete = self.budget > 0 && !self.dataflow.contents.is_spent();
        is_complete.then_some(self.memory)
    }

    fn number(&mut self, content: Content) -> u32 {
        let next = self.memory.contents.len() as u32;
        *self.contents.entry(content).or_insert_with_key(|content| {
            self.memory.contents.push(content.clone());
            next
        })
    }

    /// Visits the atoms of a chunk: their numbers, and their addresses in the chunk.
    fn atoms(model: &Model, (rank, space): (u32, Space), chunk: u64, mut visit: impl FnMut(usize, Range<u64>)) {
        let len = model.size.chunk().max(1);
        let (start, end) = (chunk * len, chunk.saturating_add(1).saturating_mul(len));
        let (cuts, first) = (model.atoms.cuts(rank, space), model.atoms.of(rank, space).start);
        let from = cuts.partition_point(|cut| *cut <= start).saturating_sub(1);
        for (number, pair) in (first + from..).zip(cuts[from.min(cuts.len())..].windows(2)) {
            if pair[0] >= end {
                break;
            }
            visit(number, pair[0].max(start)..pair[1].min(end));
        }
    }

    /// Returns whether operations access a chunk.
    fn is_accessed(&self, model: &Model, of: (u32, Space), chunk: u64) -> bool {
        let mut found = false;
        Self::atoms(model, of, chunk, |atom, _| found |= self.accessed[atom]);
        found
    }

    /// Returns what a chunk holds.
    fn content(&mut self, model: &Model, of: (u32, Space), chunk: u64) -> Content {
        let memory = memory_number(of.0, of.1);
        // Values, as a node and the distance of its coordinate from the address, each with a coordinate; and whether a part has none.
        let (mut values, mut has_gap) = (BTreeMap::new(), false);
        let (memories, accessed, is_instance) = (&self.dataflow.contents.memories, &self.accessed, self.is_instance);
        let mut reads = 0;
        Self::atoms(model, of, chunk, |atom, range| {
            if is_instance && !accessed[atom] {
                return;
            }
            memories.read(memory, range, |range, piece| {
                reads += 1;
                match piece {
                    Some(piece) => {
                        _ = values.entry((piece.node, piece.at.wrapping_sub(range.start))).or_insert(piece.at)
                    }
                    None => has_gap = true,
                }
            });
        });
        self.budget = self.budget.saturating_sub(reads);
        let (mut ranks, mut texts) = (BTreeSet::new(), Vec::new());
        for ((node, _), at) in &values {
            let (of, text) = self.describe(*node, *at, model.size.chunk().max(1));
            ranks.extend(of);
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        if texts.is_empty() {
            return nothing();
        }
        let whole = texts.len() == 1 && !has_gap;
        let more = texts.len().saturating_sub(MAX_LISTED);
        texts.truncate(MAX_LISTED);
        let mut text = texts.join("; ");
        if more > 0 {
            text += &format!("; and {more} more");
        }
        if has_gap {
            text += "; a part is uninitialized";
        }
        Content { ranks: ranks.into_iter().collect(), whole, text }
    }

    /// Returns the ranks whose inputs are in a value, and its description.
    fn describe(&mut self, node: Node, at: u64, chunk: u64) -> (BTreeSet<u32>, String) {
        if let Some(known) = self.described.get(&(node, at)) {
            return known.clone();
        }
        let mut terms = MAX_TERMS;
        let found = Contributions::within(&self.dataflow.contents.values, node, at, &mut terms);
        self.budget = self.budget.saturating_sub(MAX_TERMS - terms);
        let ranks: BTreeSet<u32> = found.counts.keys().map(|(rank, _)| *rank).collect();
        // Inputs by chunk and multiplicity.
        let mut inputs: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        for (&(rank, coordinate), &count) in &found.counts {
            inputs.entry((coordinate / chunk, count)).or_default().push(rank);
        }
        let mut texts: Vec<String> = inputs.iter().take(MAX_LISTED).map(input_text).collect();
        if inputs.len() > MAX_LISTED {
            texts.push(format!("{} more", inputs.len() - MAX_LISTED));
        }
        if found.unknown {
            texts.push("uninitialized memory".to_owned());
        }
        let prefix = match found.how.map(|how| how.op) {
            None => "",
            Some(ReduceOp::Sum) => "sum of ",
            Some(ReduceOp::Min) => "minimum of ",
            Some(ReduceOp::Max) => "maximum of ",
            Some(_) => "reduction of ",
        };
        let text = (ranks, format!("{prefix}{}", texts.join(" and ")));
        self.described.insert((node, at), text.clone());
        text
    }
}

fn nothing() -> Content {
    Content { ranks: Vec::new(), whole: true, text: "nothing yet".to_owned() }
}

/// Returns a text such as `input chunk 3 of ranks 0-7`.
fn input_text((&(chunk, count), ranks): (&(u64, u64), &Vec<u32>)) -> String {
    let of = match ranks[..] {
        [rank] => format!("rank {rank}"),
        _ => {
            format!("ranks {}", Content { ranks: ranks.clone(), ..Content::default() }.rank_ranges().replace(' ', ", "))
        }
    };
    let times = if count > 1 { format!(", {count} times") } else { String::new() };
    format!("input chunk {chunk} of {of}{times}")
}
