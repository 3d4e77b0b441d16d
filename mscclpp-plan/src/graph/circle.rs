//! Draws few ranks: each as a card with its buffers, arranged in a circle, with arrows between the cards.

use std::collections::BTreeMap;
use std::f64::consts::{PI, TAU};
use std::fmt::{self, Formatter};

use super::moves::{Amount, Chunks, Moves, TransferKind};
use super::svg::{self, Escaped, Point, amount, text};
use super::{LINE, legend, legend_height, said};
use crate::types::BufferKind;
use crate::{PlanTree, RankPlan};

/// Width of a card, in pixels.
const WIDTH: f64 = 176.0;
/// Height of the head of a card, and of each of its buffers.
const HEAD: f64 = 26.0;
const ROW: f64 = 34.0;
/// Left edge of the cells of a buffer, and their total width.
const CELLS: f64 = 58.0;
const CELLS_WIDTH: f64 = WIDTH - CELLS - 10.0;
/// Maximum number of chunks of a buffer that are drawn individually.
const MOST_CELLS: u64 = 32;
/// Maximum number of arrows between single chunks, and maximum number of arrows with a label.
const MOST_CHUNK_ARROWS: usize = 24;
const MOST_LABELS: usize = 40;
/// Radius of a switch.
const HUB: f64 = 34.0;
/// Space around the circle.
const MARGIN: f64 = 28.0;
const TOP: f64 = 48.0;

/// The card of a rank.
struct Card<'a> {
    rank: u32,
    tables: &'a RankPlan,
    /// Upper left corner.
    at: Point,
    buffers: Vec<BufferKind>,
    note: String,
}

impl Card<'_> {
    fn height(&self) -> f64 {
        HEAD + self.buffers.len() as f64 * ROW + if self.note.is_empty() { 6.0 } else { 6.0 + LINE }
    }

    fn center(&self) -> Point {
        Point { x: self.at.x + WIDTH / 2.0, y: self.at.y + self.height() / 2.0 }
    }

    /// Returns the point at which the line from the center to another point leaves the card.
    fn border(&self, to: Point) -> Point {
        let center = self.center();
        let (dx, dy) = ((to.x - center.x).abs(), (to.y - center.y).abs());
        let share = ((WIDTH / 2.0 + 3.0) / dx.max(1e-9)).min((self.height() / 2.0 + 3.0) / dy.max(1e-9));
        center.towards(to, share.min(1.0))
    }

    fn row(&self, buffer: BufferKind) -> Option<f64> {
        let position = self.buffers.iter().position(|other| *other == buffer)?;
        Some(self.at.y + HEAD + position as f64 * ROW)
    }

    /// Returns the middle of some chunks, or of the whole buffer if chunks are not drawn individually.
    fn middle(&self, chunks: &Chunks) -> Option<Point> {
        let count = u64::from(self.tables.chunks(chunks.buffer));
        let share = match count {
            1..=MOST_CELLS => (chunks.start as f64 + chunks.end.min(count) as f64) / 2.0 / count as f64,
            _ => 0.5,
        };
        let x = self.at.x + CELLS + CELLS_WIDTH * share.clamp(0.0, 1.0);
        Some(Point { x, y: self.row(chunks.buffer)? + ROW / 2.0 - 4.0 })
    }
}

/// An arrow.
struct Arrow {
    from: Point,
    to: Point,
    /// Distance by which the arrow bends to its left, in pixels.
    bend: f64,
    between_ranks: bool,
    way: TransferKind,
    amount: Amount,
    about: String,
}

pub(super) fn draw(
    f: &mut Formatter<'_>,
    plan: &PlanTree,
    moves: &Moves,
    ranks: &[u32],
    center: Option<u32>,
    title: &str,
) -> fmt::Result {
    let mut cards: Vec<Card> = ranks.iter().filter_map(|rank| card(plan, moves, *rank)).collect();
    let (width, height) = place(&mut cards, center, title);
    // The switch is drawn in the center. If a rank is there, arrows to the switch lead to the other ranks themselves.
    let hub = middle(&cards).filter(|_| center.is_none() && cards.len() > 2 && !moves.by_switch.is_empty());
    let arrows = arrows(moves, &cards, hub);
    let marks = marks(moves);
    let total = height + legend_height(moves) + 2.0 * LINE + 16.0;
    let colors: Vec<_> = super::totals(moves).iter().map(|(way, _)| way.color()).collect();
    svg::begin(f, width, total, title, &colors)?;
    let labels = arrows.len() <= MOST_LABELS;
    // Arrows between ranks pass below the cards on their path; those between chunks end within cards.
    let (below, above): (Vec<_>, Vec<_>) = arrows.iter().partition(|arrow| arrow.between_ranks);
    below.iter().try_for_each(|arrow| draw_arrow(f, arrow, labels))?;
    cards.iter().try_for_each(|card| draw_card(f, card, &marks))?;
    if let Some(hub) = hub {
        let Point { x, y } = hub;
        writeln!(f, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{HUB}\" fill=\"#f6f7f9\" stroke=\"#9aa3ad\"/>")?;
        let style = "font-weight=\"600\" text-anchor=\"middle\" dominant-baseline=\"middle\"";
        text(f, hub, style, "switch")?;
    }
    above.iter().try_for_each(|arrow| draw_arrow(f, arrow, labels))?;
    // An arrow between two chunks that represents one transfer needs no label.
    for arrow in arrows.iter().filter(|arrow| labels && (arrow.between_ranks || arrow.amount.chunks != 1.0)) {
        draw_label(f, arrow)?;
    }
    let at = Point { x: 16.0, y: height + LINE };
    legend(f, moves, at)?;
    let said = "cells are chunks: the upper half is blue where data leaves, the lower half orange where data arrives";
    text(f, Point { x: 16.0, y: total - 14.0 }, "fill=\"#555555\"", said)?;
    svg::end(f)
}

fn card<'a>(plan: &'a PlanTree, moves: &Moves, rank: u32) -> Option<Card<'a>> {
    let tables = plan.ranks.get(rank as usize)?;
    let buffers = BufferKind::ALL.iter().copied().filter(|buffer| tables.chunks(*buffer) > 0).collect();
    let counts = moves.local.get(&rank).into_iter().flatten();
    let counts: Vec<_> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    let note = if counts.is_empty() { String::new() } else { format!("within: {}", counts.join(", ")) };
    Some(Card { rank, tables, at: Point { x: 0.0, y: 0.0 }, buffers, note })
}

/// Arranges the cards in a circle, the first one at the top (two cards side by side), around the selected rank if there
/// is one. Returns the total width and height without the legend.
fn place(cards: &mut [Card<'_>], center: Option<u32>, title: &str) -> (f64, f64) {
    let tallest = cards.iter().map(Card::height).fold(HEAD, f64::max);
    let apart = WIDTH.hypot(tallest) * 1.2;
    let center = center.filter(|_| cards.len() > 3);
    let outer = cards.len() - usize::from(center.is_some());
    let radius = match outer {
        0 | 1 => 0.0,
        2 => WIDTH * 1.1,
        count => (apart / (2.0 * (PI / count as f64).sin())).max(if center.is_some() { apart } else { 0.0 }),
    };
    let start = if outer == 2 { -PI } else { -PI / 2.0 };
    let mut turn = 0;
    for card in cards.iter_mut() {
        let mut middle = Point { x: 0.0, y: 0.0 };
        if center != Some(card.rank) {
            let (sin, cos) = (start + TAU * f64::from(turn) / outer.max(1) as f64).sin_cos();
            middle = Point { x: radius * cos, y: radius * sin };
            turn += 1;
        }
        card.at = Point { x: middle.x - WIDTH / 2.0, y: middle.y - card.height() / 2.0 };
    }
    let least = |of: fn(&Card<'_>) -> f64| cards.iter().map(of).fold(f64::INFINITY, f64::min);
    let most = |of: fn(&Card<'_>) -> f64| cards.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let bounds = match cards {
        [] => [0.0; 4],
        _ => [
            least(|card| card.at.x),
            least(|card| card.at.y),
            most(|card| card.at.x + WIDTH),
            most(|card| card.at.y + card.height()),
        ],
    };
    // A title in 16 px takes about 9 px per letter. The line about cells is a title as well.
    let wide = (title.chars().count().min(200) as f64 * 9.0).max(660.0) + 32.0;
    let width = (bounds[2] - bounds[0] + 2.0 * MARGIN).max(wide);
    let shift = Point { x: (width - bounds[2] - bounds[0]) / 2.0, y: TOP + MARGIN - bounds[1] };
    for card in cards {
        card.at = Point { x: card.at.x + shift.x, y: card.at.y + shift.y };
    }
    (width, bounds[3] - bounds[1] + TOP + 2.0 * MARGIN)
}

/// Returns the center of a circle of cards.
fn middle(cards: &[Card<'_>]) -> Option<Point> {
    let count = cards.len() as f64;
    let sum = |of: fn(Point) -> f64| cards.iter().map(|card| of(card.center())).sum::<f64>();
    (!cards.is_empty()).then(|| Point { x: sum(|point| point.x) / count, y: sum(|point| point.y) / count })
}

/// Returns arrows between chunks if there are few, otherwise arrows between ranks, and between ranks and a switch.
fn arrows(moves: &Moves, cards: &[Card<'_>], hub: Option<Point>) -> Vec<Arrow> {
    let by_rank: BTreeMap<u32, &Card<'_>> = cards.iter().map(|card| (card.rank, card)).collect();
    let between_ranks = moves.chunks.keys().all(|(from, to, _)| from.rank != to.rank);
    if moves.chunks.len() <= MOST_CHUNK_ARROWS && cards.len() <= 4 && between_ranks {
        let arrow = |((from, to, way), amount): (&(Chunks, Chunks, TransferKind), &Amount)| {
            let ends = (by_rank.get(&from.rank)?.middle(from)?, by_rank.get(&to.rank)?.middle(to)?);
            let about = format!("{} from {} to {}", way.name(), called(from), called(to));
            let bend = ends.0.distance(ends.1) * 0.12;
            Some(Arrow { from: ends.0, to: ends.1, bend, between_ranks: false, way: *way, amount: *amount, about })
        };
        return moves.chunks.iter().filter_map(arrow).collect();
    }
    let mut beside = BTreeMap::new();
    let arrow = |((from, to, way), amount): (&(u32, u32, TransferKind), &Amount)| {
        let (source, target) = (*by_rank.get(from)?, *by_rank.get(to)?);
        let before: &mut u32 = beside.entry((*from, *to)).or_default();
        let length = source.center().distance(target.center());
        // Transfer kinds of one pair are drawn side by side, and so are the two directions: both bend to their left.
        let bend = (length * 0.06).min(30.0) + (length * 0.08).min(22.0) * f64::from(*before);
        *before += 1;
        let about = format!("{} from rank {from} to rank {to}", way.name());
        let (from, to) = (source.border(target.center()), target.border(source.center()));
        Some(Arrow { from, to, bend, between_ranks: true, way: *way, amount: *amount, about })
    };
    let direct = moves.between.iter().filter(|((.., way), _)| hub.is_none() || !way.by_switch());
    let mut arrows: Vec<Arrow> = direct.filter_map(arrow).collect();
    let mut beside: BTreeMap<(u32, bool), u32> = BTreeMap::new();
    for ((rank, gives, way), amount) in &moves.by_switch {
        let (Some(hub), Some(card)) = (hub, by_rank.get(rank)) else { continue };
        let before = beside.entry((*rank, *gives)).or_default();
        let bend = 12.0 + 16.0 * f64::from(*before);
        *before += 1;
        let (border, length) = (card.border(hub), card.center().distance(hub).max(1.0));
        let switch = hub.towards(card.center(), (HUB + 3.0) / length);
        let (from, to) = if *gives { (border, switch) } else { (switch, border) };
        let where_to = if *gives { "to the switch from" } else { "from the switch to" };
        let about = format!("{} {where_to} rank {rank}", way.name());
        arrows.push(Arrow { from, to, bend, between_ranks: true, way: *way, amount: *amount, about });
    }
    arrows
}

fn called(chunks: &Chunks) -> String {
    let Chunks { rank, buffer, start, end } = chunks;
    match end - start {
        1 => format!("rank {rank} {buffer}[{start}]"),
        _ => format!("rank {rank} {buffer}[{start}..{end}]"),
    }
}

impl Arrow {
    /// Returns the control point of the curve.
    fn control(&self) -> Point {
        let middle = self.from.towards(self.to, 0.5);
        let length = self.from.distance(self.to).max(1.0);
        let (dx, dy) = ((self.to.x - self.from.x) / length, (self.to.y - self.from.y) / length);
        Point { x: middle.x + dy * self.bend * 2.0, y: middle.y - dx * self.bend * 2.0 }
    }

    /// Returns the position of the curve's label: nearer to its start, so that the labels of crossing arrows do not
    /// overlap.
    fn label(&self) -> Point {
        let (share, control) = (0.3, self.control());
        self.from.towards(control, share).towards(control.towards(self.to, share), share)
    }
}

fn draw_arrow(f: &mut Formatter<'_>, arrow: &Arrow, strong: bool) -> fmt::Result {
    let Arrow { from, to, way, amount, about, .. } = arrow;
    let (color, width) = (way.color(), (1.0 + (1.0 + amount.chunks.max(0.0)).log2() * 0.5).min(5.0));
    let opacity = if strong { 0.9 } else { 0.5 };
    writeln!(
        f,
        "<path d=\"M{from}Q{} {to}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{width:.1}\" \
         stroke-opacity=\"{opacity}\" marker-end=\"url(#{})\"><title>{}</title></path>",
        arrow.control(),
        svg::head(color),
        Escaped(&format!("{about}: {}", said(amount))),
    )
}

fn draw_label(f: &mut Formatter<'_>, arrow: &Arrow) -> fmt::Result {
    let style = format!(
        "fill=\"{}\" font-size=\"11\" text-anchor=\"middle\" dominant-baseline=\"middle\" stroke=\"#ffffff\" \
         stroke-width=\"4\" paint-order=\"stroke\"",
        arrow.way.color()
    );
    text(f, arrow.label(), &style, amount(arrow.amount.chunks))
}

/// The chunks that data leaves and arrives at, per rank and buffer.
#[derive(Default)]
struct Marks {
    leaves: [bool; MOST_CELLS as usize],
    arrives: [bool; MOST_CELLS as usize],
}

fn marks(moves: &Moves) -> BTreeMap<(u32, BufferKind), Marks> {
    let mut marks: BTreeMap<_, Marks> = BTreeMap::new();
    for (from, to, _) in moves.chunks.keys() {
        for (chunks, leaves) in [(from, true), (to, false)] {
            let marks = marks.entry((chunks.rank, chunks.buffer)).or_default();
            let cells = if leaves { &mut marks.leaves } else { &mut marks.arrives };
            let end = chunks.range().end.min(MOST_CELLS) as usize;
            let start = (chunks.range().start as usize).min(end);
            cells[start..end].fill(true);
        }
    }
    marks
}

fn draw_card(f: &mut Formatter<'_>, card: &Card<'_>, marks: &BTreeMap<(u32, BufferKind), Marks>) -> fmt::Result {
    let Point { x, y } = card.at;
    writeln!(
        f,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{WIDTH}\" height=\"{:.1}\" rx=\"6\" fill=\"#f6f7f9\" stroke=\"#9aa3ad\"/>",
        card.height()
    )?;
    let at = Point { x: x + 10.0, y: y + 17.0 };
    text(f, at, "font-weight=\"600\"", format_args!("rank {}", card.rank))?;
    for &buffer in &card.buffers {
        let Some(top) = card.row(buffer) else { continue };
        text(f, Point { x: x + 10.0, y: top + 17.0 }, "fill=\"#333333\"", buffer)?;
        let count = u64::from(card.tables.chunks(buffer));
        let left = x + CELLS;
        if count > MOST_CELLS {
            writeln!(
                f,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{CELLS_WIDTH:.1}\" height=\"20\" fill=\"#ffffff\" stroke=\"#9aa3ad\"/>",
                top + 3.0
            )?;
            let at = Point { x: left + CELLS_WIDTH / 2.0, y: top + 17.0 };
            text(f, at, "font-size=\"11\" text-anchor=\"middle\"", format_args!("{count} chunks"))?;
            continue;
        }
        let none = Marks::default();
        let marks = marks.get(&(card.rank, buffer)).unwrap_or(&none);
        let width = CELLS_WIDTH / count as f64;
        for cell in 0..count as usize {
            let left = left + width * cell as f64;
            for (half, marked, color) in [(0.0, marks.leaves[cell], "#9ecae8"), (10.0, marks.arrives[cell], "#f6c08a")]
            {
                let fill = if marked { color } else { "#ffffff" };
                writeln!(
                    f,
                    "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"10\" fill=\"{fill}\"/>",
                    top + 3.0 + half
                )?;
            }
            writeln!(
                f,
                "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"20\" fill=\"none\" stroke=\"#9aa3ad\" \
                 stroke-width=\"0.7\"><title>rank {} {buffer}[{cell}]</title></rect>",
                top + 3.0,
                card.rank
            )?;
        }
    }
    if !card.note.is_empty() {
        let at = Point { x: x + 10.0, y: y + card.height() - 9.0 };
        text(f, at, "font-size=\"11\" fill=\"#555555\"", Escaped(&card.note))?;
    }
    Ok(())
}
