//! The drawing: lanes over time, arrows between them, and the use of links.

use std::fmt::Write;

use super::{escaped, time};
use crate::trace::{Arrow, Lane, LinkUse, Slice, Trace, Unit};

/// Width of the drawing without its margin, least and largest width of the names of lanes and links in it, and that of a letter, in units of
/// the drawing.
const WIDTH: f64 = 1190.0;
const NAMES: (f64, f64) = (100.0, 320.0);
const LETTER: f64 = 5.6;
/// Width of the time at the end of the axis.
const LAST_TIME: f64 = 40.0;
/// Height of a lane: of few, and of many.
const LANES: (f64, f64) = (20.0, 14.0);
const FEW_LANES: usize = 16;
/// Maximum number of lanes, operations, arrows and links that are drawn.
const MAX_LANES: usize = 256;
const MAX_SLICES: usize = 20_000;
const MAX_ARROWS: usize = 4_000;
const MAX_LINKS: usize = 64;
/// Part of a link's capacity below which it counts as unused.
const UNUSED: f64 = 0.0005;

/// What is drawn of a trace.
pub(super) struct Drawing<'t> {
    trace: &'t Trace,
    /// The end of the drawing, which is not 0.
    pub(super) end: f64,
    /// Width of the names of lanes and links, and of the times beside them.
    pub(super) names: f64,
    pub(super) width: f64,
    /// Height of a lane.
    lane: f64,
    /// The most used links.
    links: Vec<&'t LinkUse>,
}

impl<'t> Drawing<'t> {
    pub(super) fn of(trace: &'t Trace) -> Self {
        let end = trace.end().max(trace.bound.unwrap_or(0.0));
        let end = if end > 0.0 { end } else { 1.0 };
        let mut links: Vec<(f64, usize)> = trace.links.iter().map(|link| link.average(end)).zip(0..).collect();
        links.retain(|(part, _)| *part > UNUSED);
        links.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        links.truncate(MAX_LINKS);
        links.sort_by_key(|(_, number)| *number);
        let lane = if trace.lanes.len() <= FEW_LANES { LANES.0 } else { LANES.1 };
        let links: Vec<_> = links.into_iter().map(|(_, number)| &trace.links[number]).collect();
        let of_links = links.iter().map(|link| link_name(link, end));
        let letters =
            trace.lanes.iter().take(MAX_LANES).map(lane_name).chain(of_links).map(|name| name.chars().count());
        let names = (letters.max().unwrap_or(0) as f64 * LETTER).clamp(NAMES.0, NAMES.1);
        Self { trace, end, names, width: WIDTH - names, lane, links }
    }

    fn num_lanes(&self) -> usize {
        self.trace.lanes.len().min(MAX_LANES)
    }

    /// Returns the number of slices of which some are drawn.
    pub(super) fn num_slices(&self) -> usize {
        self.trace.slices.len().min(MAX_SLICES)
    }

    /// Returns whether a slice is drawn.
    pub(super) fn is_drawn(&self, slice: usize) -> bool {
        slice < MAX_SLICES && self.trace.slices.get(slice).is_some_and(|slice| (slice.lane as usize) < MAX_LANES)
    }

    /// Returns the name of a slice's lane and rank.
    pub(super) fn place(&self, slice: &Slice) -> String {
        let lane = self.trace.lanes.get(slice.lane as usize);
        lane.map_or_else(String::new, lane_name)
    }

    /// Returns statements about what is not drawn.
    pub(super) fn omitted(&self) -> Vec<String> {
        let used = self.trace.links.iter().filter(|link| link.average(self.end) > UNUSED).count();
        let counts = [
            (self.num_lanes(), self.trace.lanes.len(), "lanes"),
            (self.num_slices(), self.trace.slices.len(), "operations"),
            (self.links.len(), used, "used links"),
        ];
        let omitted = counts.into_iter().filter(|(drawn, all, _)| drawn < all);
        omitted.map(|(drawn, all, what)| format!("{drawn} of {all} {what} are drawn.")).collect()
    }

    fn x(&self, time: f64) -> f64 {
        self.names + time / self.end * self.width
    }

    fn y(&self, row: usize) -> f64 {
        18.0 + row as f64 * self.lane
    }

    /// Writes the drawing as SVG.
    pub(super) fn svg(&self, out: &mut String) {
        let trace = self.trace;
        let lanes = self.num_lanes();
        // A row between lanes and links has their title.
        let rows = lanes + if self.links.is_empty() { 0 } else { 1 + self.links.len() };
        let height = self.y(rows) + 12.0;
        _ = writeln!(
            out,
            "<svg id=\"lanes\" viewBox=\"0 0 {:.0} {height:.0}\" role=\"group\" aria-label=\"Operations of each thread block over time\">",
            WIDTH + 20.0
        );
        self.grid(height, out);
        for (row, lane) in trace.lanes.iter().take(lanes).enumerate() {
            let name = escaped(&lane_name(lane));
            _ = writeln!(out, "<text x=\"0\" y=\"{:.2}\">{name}</text>", self.y(row) + self.lane - 4.0);
        }
        let mut is_first = true;
        for (number, slice) in
            trace.slices.iter().enumerate().take(MAX_SLICES).filter(|(number, _)| self.is_drawn(*number))
        {
            self.slice(number, slice, is_first, out);
            is_first = false;
        }
        self.arrows(out);
        self.links(lanes, out);
        if let Some(bound) = trace.bound {
            let (x, us) = (self.x(bound), time(Unit::Microseconds, bound));
            _ = writeln!(
                out,
                "<line class=\"bound\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"12\" y2=\"{height:.0}\"><title>no algorithm ends before {us} us</title></line>\
                 <text x=\"{x:.2}\" y=\"{:.2}\">bound {us} us</text>",
                height - 1.0
            );
        }
        _ = writeln!(
            out,
            "<g id=\"selected-arrows\"></g><line id=\"cursor\" x1=\"{0}\" x2=\"{0}\" y1=\"12\" y2=\"{height:.0}\"/></svg>",
            self.names
        );
    }

    fn grid(&self, height: f64, out: &mut String) {
        let step = tick(self.end, self.trace.unit);
        for number in 0..=(self.end / step) as u32 {
            let at = f64::from(number) * step;
            let text = match self.trace.unit {
                Unit::Steps => format!("{at:.0}"),
                Unit::Microseconds if step < 1.0 => format!("{at:.2} us"),
                Unit::Microseconds => format!("{at:.0} us"),
            };
            let x = self.x(at);
            let anchor = if x > WIDTH - LAST_TIME { "end" } else { "start" };
            _ = writeln!(
                out,
                "<line class=\"grid\" x1=\"{x:.2}\" x2=\"{x:.2}\" y1=\"14\" y2=\"{height:.0}\"/>\
                 <text x=\"{x:.2}\" y=\"10\" text-anchor=\"{anchor}\">{text}</text>"
            );
        }
    }

    fn slice(&self, number: usize, slice: &Slice, is_first: bool, out: &mut String) {
        let mark = |is: bool, class: &'static str| if is { class } else { "" };
        let width = |time: f64| (time / self.end * self.width).max(0.4);
        let (x, y, height) = (self.x(slice.start), self.y(slice.lane as usize) + 1.0, self.lane - 3.0);
        let text = escaped(&slice.lines(self.trace.unit));
        let place = escaped(&self.place(slice));
        _ = writeln!(
            out,
            "<rect id=\"op{number}\" class=\"op {}{}{}\" data-n=\"{number}\" data-lane=\"{}\" data-place=\"{place}\" role=\"img\" tabindex=\"{}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.0}\"><title>{text}</title></rect>",
            slice.class.name(),
            mark(slice.critical, " critical"),
            mark(slice.details.contains_key("finding"), " found"),
            slice.lane,
            if is_first { 0 } else { -1 },
            width(slice.end - slice.start),
        );
        if slice.waited > 0.0 {
            _ = writeln!(
                out,
                "<rect class=\"waited\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{:.2}\" height=\"{height:.0}\"/>",
                width(slice.waited)
            );
        }
    }

    /// Draws the arrows between lanes, those of the critical path first.
    fn arrows(&self, out: &mut String) {
        let slices = &self.trace.slices;
        let crosses = |arrow: &&Arrow| {
            let (from, to) = (arrow.from as usize, arrow.to as usize);
            self.is_drawn(from) && self.is_drawn(to) && slices[from].lane != slices[to].lane
        };
        let mut drawn: Vec<_> = self.trace.arrows.iter().filter(crosses).collect();
        drawn.sort_by_key(|arrow| !arrow.critical);
        for arrow in drawn.into_iter().take(MAX_ARROWS) {
            let (from, to) = (&slices[arrow.from as usize], &slices[arrow.to as usize]);
            let middle = |slice: &Slice| self.y(slice.lane as usize) + self.lane / 2.0;
            _ = writeln!(
                out,
                "<path class=\"arrow{}\" d=\"M{:.2} {:.2}L{:.2} {:.2}\"/>",
                if arrow.critical { " critical" } else { "" },
                self.x(from.end),
                middle(from),
                self.x(to.start + to.waited),
                middle(to)
            );
        }
    }

    /// Draws the use of each link as a row that is the darker the more of its capacity is used.
    fn links(&self, lanes: usize, out: &mut String) {
        if self.links.is_empty() {
            return;
        }
        let title = "Use of links: the more of its capacity, the darker";
        _ = writeln!(out, "<text x=\"0\" y=\"{:.2}\">{title}</text>", self.y(lanes) + self.lane - 4.0);
        for (row, link) in (lanes + 1..).zip(&self.links) {
            let name = escaped(&link_name(link, self.end));
            _ = writeln!(out, "<text x=\"0\" y=\"{:.2}\">{name}</text>", self.y(row) + self.lane - 4.0);
            let ends = link.samples.iter().skip(1).map(|(time, _)| *time).chain([self.end]);
            for (&(start, part), end) in link.samples.iter().zip(ends).filter(|((_, part), _)| *part > UNUSED) {
                _ = writeln!(
                    out,
                    "<rect class=\"link\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.0}\" fill-opacity=\"{:.2}\"><title>{}: {:.0} % of its capacity</title></rect>",
                    self.x(start),
                    self.y(row) + 1.0,
                    ((end - start) / self.end * self.width).max(0.0),
                    self.lane - 3.0,
                    part.min(1.0),
                    escaped(&link.name),
                    100.0 * part
                );
            }
        }
    }
}

/// Returns the name of a lane, and that of a link with the part of its capacity that is used until the end.
fn lane_name(lane: &Lane) -> String {
    format!("{}, {}", lane.process_name, lane.name)
}

fn link_name(link: &LinkUse, end: f64) -> String {
    format!("{}, {:.0} %", link.name, 100.0 * link.average(end))
}

/// Returns a round interval of which a few divide a time.
fn tick(total: f64, unit: Unit) -> f64 {
    let raw = (total / 8.0).max(if unit == Unit::Steps { 1.0 } else { 1e-6 });
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= raw).unwrap_or(10.0 * power)
}
