//! Draws few ranks: a line for each, and from step to step arrows for what they send each other.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use super::moves::{Moves, Transfer, TransferKind};
use super::svg::{self, Escaped, Point, text};
use super::{LINE, legend, legend_height, said};
use crate::PlanTree;

/// Left edge of the first step, and distance between the lines of two ranks.
const LEFT: f64 = 84.0;
const ROW: f64 = 44.0;
const TOP: f64 = 82.0;
/// Additional distance between nodes.
const NODE_GAP: f64 = 26.0;
/// Width of a step, by the maximum number of steps that are so wide.
const WIDTHS: [(usize, f64); 3] = [(4, 230.0), (8, 150.0), (usize::MAX, 96.0)];
/// Maximum number of steps that are drawn; the last one has all further transfers.
const MAX_STEPS: usize = 48;
/// Maximum number of arrows of a step with a label.
const MAX_LABELS: usize = 6;

/// Where ranks and steps are.
struct Grid {
    /// By rank.
    rows: BTreeMap<u32, f64>,
    column: f64,
    num_steps: usize,
    bottom: f64,
}

impl Grid {
    fn of(plan: &PlanTree, moves: &Moves, ranks: &[u32]) -> Self {
        let num_steps = moves.num_steps().clamp(1, MAX_STEPS);
        let column = WIDTHS.iter().find(|(limit, _)| num_steps <= *limit).map_or(WIDTHS[2].1, |(_, width)| *width);
        let node = |rank: u32| rank / plan.ranks_per_node.max(1);
        let mut rows = BTreeMap::new();
        let mut y = TOP;
        for (position, &rank) in ranks.iter().enumerate() {
            if position > 0 {
                y += if node(rank) == node(ranks[position - 1]) { ROW } else { ROW + NODE_GAP };
            }
            rows.insert(rank, y);
        }
        Self { rows, column, num_steps, bottom: y + ROW / 2.0 }
    }

    /// Returns the left edge of a step.
    fn x(&self, step: u32) -> f64 {
        LEFT + self.column * (step as usize).min(self.num_steps - 1) as f64
    }

    fn right(&self) -> f64 {
        LEFT + self.column * self.num_steps as f64
    }
}

pub(super) fn draw(f: &mut Formatter<'_>, plan: &PlanTree, moves: &Moves, ranks: &[u32], title: &str) -> fmt::Result {
    let grid = Grid::of(plan, moves, ranks);
    // A title in 16 px takes about 9 px per letter, a line of text about 6.
    let wide = (title.chars().count().min(200) as f64 * 9.0 + 32.0).max(grid.right() + 24.0).max(560.0);
    let total = grid.bottom + legend_height(moves) + 2.0 * LINE + 16.0;
    let colors: Vec<_> = super::totals(moves).iter().map(|(way, _)| way.color()).collect();
    svg::begin(f, wide, total, title, &colors)?;
    for step in 0..moves.num_steps().min(MAX_STEPS) as u32 {
        let x = grid.x(step);
        let further = if step as usize + 1 == MAX_STEPS && moves.num_steps() > MAX_STEPS { " and later" } else { "" };
        let at = Point { x: x + grid.column / 2.0, y: TOP - 30.0 };
        text(
            f,
            at,
            "font-size=\"11\" fill=\"#555555\" text-anchor=\"middle\"",
            format_args!("step {}{further}", step + 1),
        )?;
        if step > 0 {
            let (top, height) = (TOP - 22.0, grid.bottom - TOP + 22.0);
            writeln!(f, "<path d=\"M{x:.1} {top:.1}v{height:.1}\" stroke=\"#dcdfe3\" fill=\"none\"/>")?;
        }
    }
    for (&rank, &y) in &grid.rows {
        writeln!(
            f,
            "<path d=\"M{LEFT:.1} {y:.1}H{:.1}\" stroke=\"#9aa3ad\" stroke-width=\"0.8\" fill=\"none\"/>",
            grid.right()
        )?;
        text(f, Point { x: 16.0, y: y + 4.0 }, "font-weight=\"600\"", format_args!("rank {rank}"))?;
    }
    nodes(f, plan, &grid)?;
    arrows(f, moves, &grid)?;
    for (&(step, rank), counts) in &moves.local {
        let Some(y) = grid.rows.get(&rank) else { continue };
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let at = Point { x: grid.x(step) + 8.0, y: y + 15.0 };
        text(f, at, "font-size=\"10\" fill=\"#555555\"", Escaped(&counts.join(", ")))?;
    }
    legend(f, moves, Point { x: 16.0, y: grid.bottom + LINE })?;
    let note = "a step of a thread block ends where it waits for others; below a line, what the rank reduces or moves within its own buffers";
    text(f, Point { x: 16.0, y: total - 14.0 }, "fill=\"#555555\"", note)?;
    svg::end(f)
}

/// Names the nodes, if there are several.
fn nodes(f: &mut Formatter<'_>, plan: &PlanTree, grid: &Grid) -> fmt::Result {
    let per_node = plan.ranks_per_node.max(1);
    let mut last = None;
    for (&rank, &y) in grid.rows.iter().filter(|_| plan.ranks.len() > per_node as usize) {
        if last.replace(rank / per_node) != Some(rank / per_node) {
            let at = Point { x: 16.0, y: y - 14.0 };
            text(f, at, "font-size=\"10\" fill=\"#555555\"", format_args!("node {}", rank / per_node))?;
        }
    }
    Ok(())
}

fn arrows(f: &mut Formatter<'_>, moves: &Moves, grid: &Grid) -> fmt::Result {
    let mut in_step: BTreeMap<u64, usize> = BTreeMap::new();
    let column = |step: u32| grid.x(step).to_bits();
    moves.between.keys().for_each(|(step, ..)| *in_step.entry(column(*step)).or_default() += 1);
    // Kinds of transfers of one pair are drawn beside each other.
    let mut beside: BTreeMap<(u32, u32, u32), f64> = BTreeMap::new();
    for (&(step, from, to, way), transfer) in &moves.between {
        let (Some(start), Some(end)) = (grid.rows.get(&from), grid.rows.get(&to)) else { continue };
        let shift = beside.entry((step, from, to)).or_default();
        let (from_y, to_y) = (start + *shift, end + *shift);
        *shift += 5.0;
        let x = grid.x(step);
        let ends = (Point { x: x + 8.0, y: from_y }, Point { x: x + grid.column - 8.0, y: to_y });
        let few = in_step.get(&column(step)).is_some_and(|count| *count <= MAX_LABELS);
        arrow(f, ends, (from, to, way), transfer, few)?;
    }
    Ok(())
}

fn arrow(
    f: &mut Formatter<'_>,
    (start, end): (Point, Point),
    (from, to, way): (u32, u32, TransferKind),
    transfer: &Transfer,
    has_label: bool,
) -> fmt::Result {
    let (color, width) = (way.color(), (1.0 + (1.0 + transfer.amount.chunks.max(0.0)).log2() * 0.5).min(5.0));
    let opacity = if has_label { 0.9 } else { 0.55 };
    let chunks = transfer.text();
    let about = format!("{} from rank {from} to rank {to}: {}{chunks}", way.name(), said(&transfer.amount));
    writeln!(
        f,
        "<path d=\"M{start}L{end}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width:.1}\" \
         stroke-opacity=\"{opacity}\" marker-end=\"url(#{})\"><title>{}</title></path>",
        svg::head(color),
        Escaped(&about)
    )?;
    if let Some(label) = transfer.label().filter(|_| has_label) {
        let style = format!(
            "fill=\"{color}\" font-size=\"10\" text-anchor=\"middle\" dominant-baseline=\"middle\" stroke=\"#ffffff\" \
             stroke-width=\"3\" paint-order=\"stroke\""
        );
        text(f, start.towards(end, 0.32), &style, Escaped(label))?;
    }
    Ok(())
}
