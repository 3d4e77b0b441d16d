//! What chunks hold, as tables.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::memory::{Cell, Content, Memory, ranges_of};
use crate::trace::Slice;

/// Returns the changes by time: the end of their operations.
pub(super) fn timed(memory: &Memory, slices: &[Slice]) -> Vec<(f64, u32, u32)> {
    let end = |slice: u32| slices.get(slice as usize).map_or(0.0, |slice| slice.end);
    let mut changes: Vec<_> =
        memory.changes.iter().map(|change| (end(change.slice), change.cell, change.content)).collect();
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    changes
}

/// Returns a content as the page shows it: its ranks, the background, whether it fills the chunk, and its description.
pub(super) fn shown(memory: &Memory, content: &Content) -> Value {
    json!([content.rank_ranges(), background(memory, content), content.whole, content.text])
}

/// Number of ranks up to which each has a stripe of its own.
const MAX_STRIPES: u32 = 32;

/// Returns the background of a chunk: a stripe for each rank whose input it contains, at the place of that rank; of many ranks, one
/// stripe as wide as their part.
fn background(memory: &Memory, content: &Content) -> String {
    let (count, all) = (content.ranks.len() as u32, memory.num_ranks.max(1));
    let runs: Vec<(u32, u32)> = match all > MAX_STRIPES {
        true => vec![(0, count)],
        false => ranges_of(&content.ranks).into_iter().map(|(first, last)| (first, last + 1)).collect(),
    };
    let percent = |rank: u32| rank as f32 * 100.0 / all as f32;
    let stripe = |&(from, to): &(u32, u32)| {
        let (from, to) = (percent(from), percent(to));
        format!("transparent {from:.1}%,var(--held) {from:.1}% {to:.1}%,transparent {to:.1}%")
    };
    match count {
        0 => "none".to_owned(),
        _ => format!("linear-gradient(to right,{})", runs.iter().map(stripe).collect::<Vec<_>>().join(",")),
    }
}

/// Writes a table for each buffer with what the chunks hold at a time.
pub(super) fn tables(memory: &Memory, slices: &[Slice], now: f64, out: &mut String) {
    let mut state = memory.initial.clone();
    for (time, cell, content) in timed(memory, slices) {
        if time <= now {
            state[cell as usize] = content;
        }
    }
    *out += "<h2>What chunks hold</h2>\n<p class=\"quiet\">The ranks whose inputs are in each chunk at the time above, each with a \
             stripe: copied, or reduced if there are several; in italics where parts of the chunk differ.</p>\n";
    let numbered: Vec<(usize, &Cell)> = memory.cells.iter().enumerate().collect();
    for cells in numbered.chunk_by(|(_, a), (_, b)| a.buffer == b.buffer) {
        let buffer = cells[0].1.buffer;
        let mut chunks: Vec<u32> = cells.iter().map(|(_, cell)| cell.chunk).collect();
        chunks.sort_unstable();
        chunks.dedup();
        _ = write!(
            out,
            "<div class=\"scroll\"><table class=\"memory\"><caption>{buffer}</caption><thead><tr><th>chunk</th>"
        );
        chunks.iter().for_each(|chunk| _ = write!(out, "<th>{chunk}</th>"));
        *out += "</tr></thead><tbody>\n";
        for row in cells.chunk_by(|(_, a), (_, b)| a.rank == b.rank) {
            let rank = row[0].1.rank;
            _ = write!(out, "<tr><th>rank {rank}</th>");
            let mut left = row.iter().peekable();
            for chunk in &chunks {
                let Some((number, _)) = left.next_if(|(_, cell)| cell.chunk == *chunk) else {
                    *out += "<td></td>";
                    continue;
                };
                let content = memory.contents.get(state[*number] as usize).cloned().unwrap_or_default();
                _ = write!(
                    out,
                    "<td data-c=\"{number}\" data-name=\"{buffer} chunk {chunk} of rank {rank}\" style=\"background-image:{}\"{}>{}</td>",
                    background(memory, &content),
                    if content.whole { "" } else { " class=\"parts\"" },
                    content.rank_ranges()
                );
            }
            *out += "</tr>\n";
        }
        *out += "</tbody></table></div>\n";
    }
}
