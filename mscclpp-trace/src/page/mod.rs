//! A page that shows a trace: one file without references to others, with the same bytes each time.
//!
//! Without scripts it shows everything but the state at a chosen time. The script adds a slider over what chunks hold, the details
//! of an operation, and keys to move between operations and along what they wait for.

mod lanes;
mod memory;

use std::fmt::Write;

use mscclpp_plan::graph::Escaped;
use serde_json::{Value, json};

use self::lanes::Drawing;
use crate::trace::{Class, Slice, Trace, Unit};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Maximum number of operations of the critical path that the table lists.
const MAX_PATH_ROWS: usize = 1000;
/// Maximum number of findings that lead to operations.
const MAX_LINKS: usize = 8;

/// Escapes text.
fn escaped(text: &str) -> String {
    text.split('\n').map(|line| Escaped(line).to_string()).collect::<Vec<_>>().join("\n")
}

/// Formats a time.
fn time(unit: Unit, time: f64) -> String {
    match unit {
        Unit::Steps => format!("{time:.0}"),
        Unit::Microseconds => format!("{time:.2}"),
    }
}

/// Returns a detail as text.
fn detail<'s>(slice: &'s Slice, key: &str) -> Option<&'s str> {
    slice.details.get(key)?.as_str()
}

impl Slice {
    /// Returns the lines that describe the operation.
    fn lines(&self, unit: Unit) -> String {
        let name = if self.class == Class::Transfer { "transfer of " } else { "" };
        let (from, to) = (time(unit, self.start), time(unit, self.end));
        let mut text = match (unit, self.class) {
            (_, Class::Blocked) => format!("{} never ends, from {from} on", self.name),
            (Unit::Steps, _) => format!("{name}{}, steps {from} to {to}", self.name),
            (Unit::Microseconds, _) => format!("{name}{}, {from} to {to} us", self.name),
        };
        let known = ["finding", "op", "chunks", "waits_for"];
        for key in known {
            match self.details.get(key) {
                Some(Value::String(value)) => text += &format!("\n{value}"),
                Some(Value::Array(values)) if !values.is_empty() => {
                    let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
                    text += &format!("\n{}", values.join(", "));
                }
                _ => {}
            }
        }
        for (key, value) in self.details.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            text += &format!("\n{}: {value}", key.replace('_', " "));
        }
        text
    }
}

impl Trace {
    /// Returns the page in HTML.
    ///
    /// # Cost
    /// Linear in the trace. At most 256 lanes, 20 000 operations and 64 links are drawn; the page says what is left out.
    pub fn page(&self) -> String {
        let drawing = Drawing::of(self);
        let title = escaped(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title>\n<style>{STYLE}</style></head><body>\n<h1>{title}</h1>\n"
        );
        for note in &self.notes {
            _ = writeln!(out, "<p>{}</p>", escaped(note));
        }
        self.findings(&drawing, &mut out);
        for omitted in drawing.omitted() {
            _ = writeln!(out, "<p class=\"quiet\">{omitted}</p>");
        }
        self.key(&mut out);
        drawing.svg(&mut out);
        out += "<div id=\"details\" role=\"status\" aria-live=\"polite\">Point to an operation, or move among them with the arrow keys; \
                Enter goes to what it waits for, Shift+Enter to what waits for it.</div>\n";
        let (end, now) = (drawing.end, self.first_time());
        _ = writeln!(
            out,
            "<div id=\"time\"><label for=\"now\">Time</label><input id=\"now\" type=\"range\" min=\"0\" max=\"{end}\" step=\"{}\" value=\"{now}\">\
             <output id=\"at\" for=\"now\"></output></div>",
            if self.unit == Unit::Steps { 1.0 } else { end / 1000.0 }
        );
        if let Some(memory) = &self.memory {
            memory::tables(memory, &self.slices, now, &mut out);
        }
        self.critical_path(&mut out);
        let data = self.data(&drawing, now).to_string().replace('<', "\\u003c");
        _ = writeln!(
            out,
            "<script id=\"data\" type=\"application/json\">{data}</script>\n<script>{SCRIPT}</script></body></html>"
        );
        out
    }

    /// Returns the number of the slice that the page shows first: the first one with a finding, or the first one that never ends.
    fn first_slice(&self) -> Option<usize> {
        let blocked = || self.slices.iter().position(|slice| slice.class == Class::Blocked);
        self.slices.iter().position(|slice| slice.details.contains_key("finding")).or_else(blocked)
    }

    /// Returns the time that the page shows first.
    fn first_time(&self) -> f64 {
        self.first_slice().map_or_else(|| self.end(), |slice| self.slices[slice].end)
    }

    /// Lists what is wrong, each with a link to its operation.
    fn findings(&self, drawing: &Drawing, out: &mut String) {
        let numbered = self.slices.iter().enumerate().filter(|(number, _)| drawing.is_drawn(*number));
        let wrong =
            numbered.filter(|(_, slice)| slice.details.contains_key("finding") || slice.class == Class::Blocked);
        for (number, slice) in wrong.take(MAX_LINKS) {
            let what = detail(slice, "finding").or(detail(slice, "waits_for")).unwrap_or("never ends");
            _ = writeln!(
                out,
                "<p><a href=\"#op{number}\" data-go=\"{number}\">{}, {}</a>: {}</p>",
                escaped(&drawing.place(slice)),
                escaped(&slice.name),
                escaped(what)
            );
        }
    }

    /// Explains the colors.
    fn key(&self, out: &mut String) {
        *out += "<p aria-hidden=\"true\">";
        let meanings = [
            (Class::Copy, "copies"),
            (Class::Reduce, "reductions"),
            (Class::Transfer, "transfers of ports"),
            (Class::Wait, "waits"),
            (Class::Sync, "signals and syncs"),
            (Class::Blocked, "never ends"),
        ];
        for (class, meaning) in
            meanings.iter().filter(|(class, _)| self.slices.iter().any(|slice| slice.class == *class))
        {
            _ = write!(out, "<span class=\"key\" style=\"background:var(--{})\"></span>{meaning}", class.name());
        }
        if self.slices.iter().any(|slice| slice.critical) {
            *out += "<span class=\"key\" style=\"background:var(--critical)\"></span>critical path";
        }
        *out += "</p>\n";
    }

    /// Lists the operations of the critical path.
    fn critical_path(&self, out: &mut String) {
        let mut path: Vec<(usize, &Slice)> =
            self.slices.iter().enumerate().filter(|(_, slice)| slice.critical).collect();
        if path.is_empty() {
            return;
        }
        path.sort_by(|(_, a), (_, b)| a.start.total_cmp(&b.start).then(a.end.total_cmp(&b.end)));
        *out += "<table><caption>Critical path</caption><thead><tr><th>operation</th><th>rank</th><th>thread block</th>\
                 <th class=\"n\">from</th><th class=\"n\">to</th><th>source</th></tr></thead><tbody>\n";
        for (_, slice) in path.iter().take(MAX_PATH_ROWS) {
            let lane = self.lanes.get(slice.lane as usize);
            _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
                escaped(&slice.name),
                escaped(lane.map_or("", |lane| &lane.process_name)),
                escaped(lane.map_or("", |lane| &lane.name)),
                time(self.unit, slice.start),
                time(self.unit, slice.end),
                escaped(detail(slice, "source").unwrap_or_default())
            );
        }
        *out += "</tbody></table>\n";
        if path.len() > MAX_PATH_ROWS {
            _ = writeln!(
                out,
                "<p class=\"quiet\">The first {MAX_PATH_ROWS} of {} operations are listed.</p>",
                path.len()
            );
        }
    }

    /// Returns what the script needs.
    fn data(&self, drawing: &Drawing, now: f64) -> Value {
        let mut changes: Vec<(f64, u32, u32)> = Vec::new();
        let (mut initial, mut contents) = (Vec::new(), Vec::new());
        if let Some(memory) = &self.memory {
            changes = memory::timed(memory, &self.slices);
            initial.clone_from(&memory.initial);
            contents = memory.contents.iter().map(|content| memory::shown(memory, content)).collect();
        }
        // The third time is that at which an operation has received what it waits for, where arrows end.
        let slices: Vec<_> = self
            .slices
            .iter()
            .take(drawing.num_slices())
            .map(|slice| json!([slice.start, slice.end, slice.start + slice.waited]))
            .collect();
        let drawn = self
            .arrows
            .iter()
            .filter(|arrow| drawing.is_drawn(arrow.from as usize) && drawing.is_drawn(arrow.to as usize));
        json!({
            "unit": if self.unit == Unit::Steps { "steps" } else { "us" },
            "x": drawing.names, "width": drawing.width, "end": drawing.end, "now": now,
            "first": self.first_slice().filter(|slice| drawing.is_drawn(*slice)),
            "slices": slices,
            "arrows": drawn.map(|arrow| json!([arrow.from, arrow.to, arrow.what])).collect::<Vec<_>>(),
            "initial": initial, "contents": contents, "changes": changes,
        })
    }
}

#[cfg(test)]
mod tests;
