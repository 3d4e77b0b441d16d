//! A page that shows a simulation: self-contained, without a script, and with the same bytes each time.

use std::collections::BTreeMap;
use std::fmt::Write;

use mscclpp_check::execution::{Execution, Node};
use mscclpp_plan::graph::Escaped;
use mscclpp_plan::raw::{OpClass, PlanTree};

use crate::prediction::Prediction;

/// Width of the times in the picture, and of the names of lanes, in units of the picture.
const WIDTH: f64 = 1060.0;
const NAMES: f64 = 120.0;
/// Height of a lane.
const LANE: f64 = 14.0;
/// Maximum number of lanes, and of operations, that are drawn.
const MAX_LANES: usize = 256;
const MAX_BOXES: usize = 20_000;
/// Maximum number of operations of the critical path that the table lists.
const MAX_PATH_ROWS: usize = 1000;

const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1b1b;--quiet:#6b6b6b;--line:#dcdcdc;--data:#7fb2e5;--reduce:#84c6a0;--wait:#d9d3c4;\
--sync:#c7b3dd;--transfer:#e6bd77;--critical:#c4161c}
@media(prefers-color-scheme:dark){:root{--paper:#161616;--ink:#ececec;--quiet:#a2a2a2;--line:#383838;--data:#3f77b0;--reduce:#3b8560;\
--wait:#55503f;--sync:#6d5689;--transfer:#95702c;--critical:#ff6b6b}}
body{margin:24px auto;max-width:1232px;padding:0 16px;background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
h1{font-size:20px;margin:0 0 4px}p{margin:4px 0}.quiet{color:var(--quiet)}svg{width:100%;height:auto;margin:12px 0;display:block}
text{fill:var(--quiet);font:10px system-ui,sans-serif}.grid{stroke:var(--line)}
.data{fill:var(--data)}.reduce{fill:var(--reduce)}.wait{fill:var(--wait)}.sync{fill:var(--sync)}.transfer{fill:var(--transfer)}
.critical{stroke:var(--critical);stroke-width:1.6}.path{stroke:var(--critical);stroke-width:1.2;fill:none}
.key{display:inline-block;width:12px;height:12px;margin:0 4px 0 14px;vertical-align:-1px}
table{border-collapse:collapse;margin:12px 0}th,td{padding:2px 14px 2px 0;text-align:left;border-bottom:1px solid var(--line)}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}";

/// Class of a node, which has its color.
fn class(node: &Node) -> &'static str {
    match node.kind.class() {
        _ if node.transfer => "transfer",
        OpClass::Data(..) if node.kind.is_reduce() => "reduce",
        OpClass::Data(..) => "data",
        OpClass::Wait { .. } | OpClass::Acquire | OpClass::Flush => "wait",
        OpClass::BlockSync | OpClass::Barrier | OpClass::Signal { .. } | OpClass::Release | OpClass::Pipeline => "sync",
    }
}

/// Returns the source location of a node's operation, if the plan has it.
fn source(plan: &PlanTree, run: &Execution, node: &Node) -> Option<String> {
    let blocks = &plan.ranks.get(node.rank as usize)?.blocks;
    let op = blocks.get(run.plan_block(node) as usize)?.ops.get(node.position.0 as usize)?;
    let op = match node.position.1.checked_sub(1) {
        Some(inner) => op.body.as_ref()?.ops.get(inner as usize)?,
        None => op,
    };
    plan.origins.get(op.origin).map(ToString::to_string)
}

/// Returns a round interval of which a few divide a time.
fn tick(total: f64) -> f64 {
    let raw = (total / 8.0).max(1e-6);
    let power = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|step| step * power).find(|step| *step >= raw).unwrap_or(10.0 * power)
}

/// Returns a page in HTML with the thread blocks and ports of all ranks over time, and the critical path. `lines` are shown above
/// the picture, the first one as the title.
pub fn render_html(plan: &PlanTree, found: &Prediction, lines: &[String]) -> String {
    let (run, timeline) = (&found.execution, &found.timeline);
    // A lane for each thread block, and one after them for the ports of its operations.
    let mut lanes: BTreeMap<(u32, u32, bool), usize> = BTreeMap::new();
    run.nodes.iter().for_each(|node| _ = lanes.insert((node.rank, node.block, node.transfer), 0));
    lanes.values_mut().enumerate().for_each(|(number, lane)| *lane = number);
    let drawn_lanes = lanes.len().min(MAX_LANES);
    let total = timeline.total_us.max(f64::MIN_POSITIVE);
    let x = |us: f64| NAMES + us / total * WIDTH;
    let y = |lane: usize| 18.0 + lane as f64 * LANE;
    let height = y(drawn_lanes) + 6.0;
    // The opening of a barrier takes no time and is no operation of its own.
    let path: Vec<u32> =
        timeline.critical_path().into_iter().filter(|node| !run.nodes[*node as usize].opening).collect();
    let title = lines.first().map(|line| Escaped(line).to_string()).unwrap_or_default();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title>\n<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
    );
    for line in lines.iter().skip(1) {
        _ = writeln!(out, "<p>{}</p>", Escaped(line));
    }
    let (instances, nodes) = (run.num_instances, run.nodes.len());
    let operations = run.nodes.iter().filter(|node| !node.opening).count();
    if instances > 1 {
        _ = writeln!(
            out,
            "<p class=\"quiet\">One of {instances} equal instances, which do the same at the same time: block numbers are those of the first one.</p>"
        );
    }
    if lanes.len() > drawn_lanes {
        _ = writeln!(out, "<p class=\"quiet\">The first {drawn_lanes} of {} lanes are drawn.</p>", lanes.len());
    }
    if operations > MAX_BOXES {
        _ = writeln!(out, "<p class=\"quiet\">The first {MAX_BOXES} of {operations} operations are drawn.</p>");
    }
    out += "<p aria-hidden=\"true\">";
    for (class, meaning) in [
        ("data", "copies"),
        ("reduce", "reductions"),
        ("transfer", "transfers of ports"),
        ("wait", "waits"),
        ("sync", "signals and syncs"),
    ] {
        _ = write!(out, "<span class=\"key\" style=\"background:var(--{class})\"></span>{meaning}");
    }
    out += "<span class=\"key\" style=\"background:var(--critical)\"></span>critical path</p>\n";
    _ = writeln!(
        out,
        "<svg viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"Operations of each thread block over time; the table below lists the critical path\">",
        NAMES + WIDTH + 20.0
    );
    let step = tick(total);
    for number in 0..=(total / step) as u32 {
        let at = f64::from(number) * step;
        let digits = if step < 1.0 { 2 } else { 0 };
        _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{0:.2}\" x2=\"{0:.2}\" y1=\"14\" y2=\"{height:.0}\"/><text x=\"{0:.2}\" y=\"10\">{at:.digits$} us</text>",
            x(at)
        );
    }
    for (&(rank, block, transfer), &lane) in lanes.iter().filter(|(_, lane)| **lane < MAX_LANES) {
        let what = if transfer { "ports of " } else { "" };
        let block = block.saturating_mul(instances.max(1));
        _ = writeln!(out, "<text x=\"0\" y=\"{:.2}\">rank {rank}, {what}block {block}</text>", y(lane) + LANE - 4.0);
    }
    let mut is_critical = vec![false; nodes];
    path.iter().for_each(|node| is_critical[*node as usize] = true);
    let drawn = run.nodes.iter().zip(&timeline.spans).enumerate().filter(|(_, (node, _))| !node.opening);
    for (number, (node, span)) in drawn.take(MAX_BOXES) {
        let lane = lanes[&(node.rank, node.block, node.transfer)];
        if lane >= MAX_LANES {
            continue;
        }
        let critical = if is_critical[number] { " critical" } else { "" };
        let at = source(plan, run, node).map(|place| format!(", {place}")).unwrap_or_default();
        let bytes: u64 = run.accesses(number).iter().filter(|access| access.write).map(|access| access.bytes).sum();
        let moved = if bytes > 0 { format!(", writes {bytes} bytes") } else { String::new() };
        _ = writeln!(
            out,
            "<rect class=\"{}{critical}\" x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.0}\"><title>{}</title></rect>",
            class(node),
            x(span.start),
            y(lane) + 1.0,
            ((span.end - span.start) / total * WIDTH).max(0.4),
            LANE - 3.0,
            Escaped(&format!("{}, {:.2} to {:.2} us{moved}{at}", node.kind.name(), span.start, span.end))
        );
    }
    // From the end of what a node of the critical path waits for to its start.
    for pair in path.windows(2) {
        let lane = |node: u32| {
            let node = &run.nodes[node as usize];
            lanes[&(node.rank, node.block, node.transfer)]
        };
        let (from, to) = (lane(pair[0]), lane(pair[1]));
        if from != to && from.max(to) < MAX_LANES {
            let (start, end) = (timeline.spans[pair[0] as usize].end, timeline.spans[pair[1] as usize].start);
            let middle = LANE / 2.0;
            _ = writeln!(
                out,
                "<path class=\"path\" d=\"M{:.2} {:.2}L{:.2} {:.2}\"/>",
                x(start),
                y(from) + middle,
                x(end),
                y(to) + middle
            );
        }
    }
    out += "</svg>\n<table><caption>Critical path</caption><thead><tr><th>operation</th><th class=\"n\">rank</th><th class=\"n\">block</th>\
            <th class=\"n\">from (us)</th><th class=\"n\">to (us)</th><th>source</th></tr></thead><tbody>\n";
    for &number in path.iter().take(MAX_PATH_ROWS) {
        let (node, span) = (&run.nodes[number as usize], &timeline.spans[number as usize]);
        let place = source(plan, run, node).unwrap_or_default();
        _ = writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{:.2}</td><td class=\"n\">{:.2}</td><td>{}</td></tr>",
            node.kind.name(),
            node.rank,
            run.plan_block(node),
            span.start,
            span.end,
            Escaped(&place)
        );
    }
    out += "</tbody></table>\n";
    if path.len() > MAX_PATH_ROWS {
        _ = writeln!(out, "<p class=\"quiet\">The first {MAX_PATH_ROWS} of {} operations are listed.</p>", path.len());
    }
    out += "</body></html>\n";
    out
}
