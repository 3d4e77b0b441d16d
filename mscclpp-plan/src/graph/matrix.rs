//! Draws many ranks: how much each rank sends to each other rank, as a matrix.

use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

use super::moves::{Amount, Moves, TransferKind};
use super::svg::{self, Point, amount, counted, text};
use super::{LINE, legend, legend_height, said};
use crate::PlanTree;

/// Maximum number of rows and columns; several ranks share one if there are more ranks.
const MOST_CELLS: usize = 64;
/// Width and height of all cells, in pixels.
const SIDE: f64 = 768.0;
/// Left and upper edge.
const LEFT: f64 = 72.0;
const TOP: f64 = 96.0;

/// What a set of ranks sends to another set.
#[derive(Default)]
struct Cell {
    sum: Amount,
    ways: BTreeMap<TransferKind, Amount>,
}

impl Cell {
    fn add(&mut self, way: TransferKind, amount: Amount) {
        self.sum.add(amount);
        self.ways.entry(way).or_default().add(amount);
    }
}

pub(super) fn draw(f: &mut Formatter<'_>, plan: &PlanTree, moves: &Moves, ranks: &[u32], title: &str) -> fmt::Result {
    let share = ranks.len().div_ceil(MOST_CELLS);
    let count = ranks.len().div_ceil(share);
    let cell = SIDE / count as f64;
    // Ranks that take no part have no row.
    let position: BTreeMap<u32, usize> = ranks.iter().enumerate().map(|(i, rank)| (*rank, i / share)).collect();
    let mut cells: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
    for ((_, from, to, way), transfer) in &moves.between {
        if let (Some(&from), Some(&to)) = (position.get(from), position.get(to)) {
            cells.entry((from, to)).or_default().add(*way, transfer.amount);
        }
    }
    let most = cells.values().map(|cell| cell.sum.chunks).fold(0.0, f64::max);
    let wide = (title.chars().count().min(200) as f64 * 9.0 + 32.0).max(LEFT + SIDE + 24.0);
    let bottom = TOP + SIDE + LINE;
    let total = bottom + legend_height(moves) + 2.0 * LINE + 16.0;
    svg::begin(f, wide, total, title, &[])?;
    text(f, Point { x: LEFT, y: TOP - 34.0 }, "fill=\"#333333\"", "to rank")?;
    text(f, Point { x: 16.0, y: TOP - 10.0 }, "fill=\"#333333\"", "from")?;
    writeln!(
        f,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" fill=\"#f6f7f9\" stroke=\"#9aa3ad\"/>"
    )?;
    nodes(f, plan, ranks, share, cell)?;
    let ranks_of = |i: usize| {
        let (first, last) = (ranks[i * share], ranks[((i + 1) * share - 1).min(ranks.len() - 1)]);
        if first == last { format!("rank {first}") } else { format!("ranks {first} to {last}") }
    };
    for ((from, to), Cell { sum, ways }) in &cells {
        let (x, y) = (LEFT + cell * *to as f64, TOP + cell * *from as f64);
        // Logarithmic, so that one chunk is visible next to a thousand chunks.
        let strength = 0.2 + 0.8 * ((1.0 + sum.chunks).log2() / (1.0 + most).log2().max(1e-9)).min(1.0);
        let color =
            ways.iter().max_by(|a, b| a.1.chunks.total_cmp(&b.1.chunks)).map_or("#ffffff", |(way, _)| way.color());
        let each: Vec<_> = ways.iter().map(|(way, amount)| format!("{} {}", way.name(), said(amount))).collect();
        writeln!(
            f,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{cell:.1}\" height=\"{cell:.1}\" fill=\"{color}\" \
             fill-opacity=\"{strength:.2}\"><title>{} to {}: {}</title></rect>",
            ranks_of(*from),
            ranks_of(*to),
            each.join(", ")
        )?;
    }
    for i in (0..count).step_by(count.div_ceil(16)) {
        let (rank, middle) = (ranks[i * share], cell * (i as f64 + 0.5));
        let style = "font-size=\"11\" text-anchor=\"middle\"";
        text(f, Point { x: LEFT + middle, y: TOP - 10.0 }, style, rank)?;
        let style = "font-size=\"11\" text-anchor=\"end\" dominant-baseline=\"middle\"";
        text(f, Point { x: LEFT - 8.0, y: TOP + middle }, style, rank)?;
    }
    legend(f, moves, Point { x: 16.0, y: bottom + LINE })?;
    let each = if share == 1 {
        "a cell is a pair of ranks, in the color of its largest transfer kind".to_owned()
    } else {
        format!("a cell is {share} by {share} ranks, in the color of its largest transfer kind")
    };
    let most = counted(&amount(most), "chunk");
    let nodes = if plan.ranks_per_node as usize >= plan.ranks.len() { "" } else { "; lines are between nodes" };
    let said = format!("{each}; the darkest represents {most}{nodes}");
    text(f, Point { x: 16.0, y: total - 14.0 }, "fill=\"#555555\"", said)?;
    svg::end(f)
}

/// Draws lines between the nodes, if there are several and no cell belongs to two of them.
fn nodes(f: &mut Formatter<'_>, plan: &PlanTree, ranks: &[u32], share: usize, cell: f64) -> fmt::Result {
    let node = |rank: u32| rank / plan.ranks_per_node.max(1);
    for i in 1..ranks.len() {
        if node(ranks[i]) != node(ranks[i - 1]) && i.is_multiple_of(share) {
            let at = cell * (i / share) as f64;
            writeln!(
                f,
                "<path d=\"M{LEFT} {0:.1}h{SIDE}M{1:.1} {TOP}v{SIDE}\" stroke=\"#9aa3ad\" fill=\"none\"/>",
                TOP + at,
                LEFT + at
            )?;
        }
    }
    Ok(())
}
