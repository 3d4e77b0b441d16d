//! Plans as drawings: which data moves between which ranks, by which kind of transfer.

mod matrix;
mod moves;
mod steps;
mod svg;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};

use self::moves::{Amount, Moves, TransferKind};
pub use self::svg::Escaped;
use self::svg::{Point, amount, counted, text};
use super::PlanTree;

/// Maximum number of ranks that are drawn individually; more ranks become a matrix.
const MOST_RANKS: usize = 16;

/// A plan, or the transfers of one rank, as an SVG document.
///
/// Up to 16 ranks are lines, one node below the other, with a column for each step: a step of a thread block ends where it
/// waits for others. An arrow represents each kind of transfer from one rank to another in a step. More ranks become a matrix
/// of how much each rank sends to each other rank. Bodies of pipelines count once; signals move no data. Tooltips have the
/// exact numbers and the chunks.
///
/// # Cost
/// Linear in the operations, their operands and the groups of switch channels; the size of the drawing is bounded for
/// any number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'a> {
    plan: &'a PlanTree,
    rank: Option<u32>,
}

impl<'a> Graph<'a> {
    /// Returns a drawing of the whole plan.
    pub const fn plan(plan: &'a PlanTree) -> Self {
        Self { plan, rank: None }
    }

    /// Returns a drawing of the transfers to and from one rank; empty if the plan has no such rank.
    pub const fn rank(plan: &'a PlanTree, rank: u32) -> Self {
        Self { plan, rank: Some(rank) }
    }
}

impl Display for Graph<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let moves = Moves::of(self.plan, self.rank);
        let ranks: Vec<u32> = match self.rank {
            None => (0..self.plan.ranks.len() as u32).collect(),
            Some(rank) => {
                let ends = moves.between.keys().flat_map(|(_, from, to, _)| [*from, *to]);
                let exists = |rank: &u32| (*rank as usize) < self.plan.ranks.len();
                BTreeSet::from_iter(ends.chain([rank])).into_iter().filter(exists).collect()
            }
        };
        let title = self.title();
        match ranks.len() <= MOST_RANKS {
            true => steps::draw(f, self.plan, &moves, &ranks, &title),
            false => matrix::draw(f, self.plan, &moves, &ranks, &title),
        }
    }
}

impl Graph<'_> {
    fn title(&self) -> String {
        let PlanTree { name, collective, ranks, .. } = self.plan;
        let place = if collective.in_place { ", in place" } else { "" };
        let only = self.rank.map_or(String::new(), |rank| format!(": what rank {rank} sends and gets"));
        format!("{name}: {} of {} ranks{place}{only}", collective.kind.name(), ranks.len())
    }
}

/// Returns the kinds of transfers that occur, with the amount of each.
fn totals(moves: &Moves) -> Vec<(TransferKind, Amount)> {
    let total = |way: TransferKind| {
        let mut sum = Amount::default();
        let of_way = moves.between.iter().filter(|((.., other), _)| *other == way);
        of_way.for_each(|(_, transfer)| sum.add(transfer.amount));
        (way, sum)
    };
    TransferKind::ALL.into_iter().map(total).filter(|(_, amount)| amount.transfers > 0).collect()
}

/// Writes one line per kind of transfer and returns the height of the legend.
fn legend(f: &mut Formatter<'_>, moves: &Moves, mut at: Point) -> fmt::Result {
    for (way, sum) in totals(moves) {
        let Point { x, y } = at;
        let color = way.color();
        writeln!(f, "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"18\" height=\"4\" fill=\"{color}\"/>", y - 6.0)?;
        text(f, Point { x: x + 26.0, y }, "", Escaped(&format!("{}: {}", way.name(), said(&sum))))?;
        at.y += LINE;
    }
    if moves.between.is_empty() {
        text(f, at, "", "nothing moves between ranks")?;
    }
    Ok(())
}

/// Returns the height of a legend.
fn legend_height(moves: &Moves) -> f64 {
    totals(moves).len().max(1) as f64 * LINE
}

/// Height of a line of text, in pixels.
const LINE: f64 = 18.0;

/// Formats an amount as `4 transfers of 8 chunks`.
fn said(sum: &Amount) -> String {
    let chunks = counted(&amount(sum.chunks), "chunk");
    format!("{} of {chunks}", counted(&sum.transfers.to_string(), "transfer"))
}

#[cfg(test)]
mod tests;
