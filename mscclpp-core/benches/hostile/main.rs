//! What plans cost to read and to check that are made to take long, from 1 KiB of JSON to 1 MiB.
//!
//! `cargo bench -p mscclpp-core --bench hostile`, with parts of the names of families as arguments to run only these, and
//! with files of plan JSON to run those. Every plan is checked in a process of its own, so that its peak of memory is its
//! own; of a family that takes more than ten seconds larger plans are left out. Time per operation that grows with the size
//! is what to look for: `growth` is the exponent between this size and the last one, 1.0 if the cost is linear.
#![allow(missing_docs, reason = "a benchmark has no readers of documentation")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it measures time, and takes arguments")]

mod plans;

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use mscclpp_core::check::check;
use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use mscclpp_core::plan::raw::{OpKind, PlanTree};
use plans::FAMILIES;

/// Sizes of the plans in bytes of JSON, about.
const SIZES: [usize; 6] = [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20];

/// Checks that take less are repeated.
const SHORT: Duration = Duration::from_millis(50);
const REPEATS: usize = 20;

/// The largest number of a family's plan.
const MOST: u32 = 1 << 20;

/// Beyond this a family's larger plans are left out.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let [mark, name, size] = &arguments[..]
        && mark == "--one"
    {
        return one(name, size.parse().expect("a size"));
    }
    println!(
        "{:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8}",
        "JSON", "ops", "read ms", "check ms", "ns/op", "peak MiB", "growth"
    );
    let (files, parts): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.ends_with(".json"));
    for file in &files {
        println!("{file}");
        report(file, 0, None);
    }
    if !files.is_empty() && parts.is_empty() {
        return;
    }
    for (name, _) in
        FAMILIES.iter().filter(|(name, _)| parts.is_empty() || parts.iter().any(|part| name.contains(*part)))
    {
        println!("{name}");
        let mut last = None;
        for size in SIZES {
            let Some(figures) = report(name, size, last) else { break };
            if figures.2 > PATIENCE {
                break;
            }
            last = Some(figures);
        }
    }
}

/// Operations, bytes, and the time of the check.
type Figures = (f64, usize, Duration);

/// Has one plan checked in a process, and prints what that took.
fn report(name: &str, size: usize, last: Option<Figures>) -> Option<Figures> {
    let own = std::env::current_exe().expect("the path of this program");
    let output = Command::new(own).args(["--one", name, &size.to_string()]).output().expect("a process");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.lines().next()?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    let [bytes, ops, read, check, peak] = numbers[..] else {
        println!("  ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
        return None;
    };
    let time = Duration::from_secs_f64(check);
    let growth = last
        .filter(|last| last.1 as f64 * 1.5 < bytes)
        .map(|(_, size, before)| (check / before.as_secs_f64()).ln() / (bytes / size as f64).ln());
    println!(
        "{bytes:>9} {ops:>9} {:>9.2} {:>9.2} {:>10.0} {:>8.1} {:>8} {}",
        read * 1e3,
        check * 1e3,
        check * 1e9 / ops,
        peak / f64::from(1 << 20),
        growth.map_or(String::new(), |growth| format!("{growth:.2}")),
        text.lines().nth(1).unwrap_or_default(),
    );
    Some((ops, bytes as usize, time))
}

/// Checks one plan, and prints the figures and what was found first.
fn one(name: &str, size: usize) {
    let text = match FAMILIES.iter().find(|(family, _)| *family == name) {
        Some((_, family)) => text(family, size),
        None => std::fs::read_to_string(name).expect("a file of plan JSON"),
    };
    let begin = Instant::now();
    let (plan, _) = read(&text, ReadOptions::default()).unwrap_or_else(|errors| panic!("{errors}"));
    let read = begin.elapsed();
    let before = memory("VmRSS:");
    let begin = Instant::now();
    let found = check(&plan);
    let mut time = begin.elapsed();
    let peak = memory("VmHWM:") - before;
    // What is short is measured again: the first time is that of cold caches.
    for _ in 0..if time < SHORT { REPEATS } else { 0 } {
        let begin = Instant::now();
        let _ = black_box(check(&plan));
        time = time.min(begin.elapsed());
    }
    println!("{} {} {} {} {peak}", text.len(), operations(&plan), read.as_secs_f64(), time.as_secs_f64());
    let first = found.iter().next().map_or(String::new(), |first| {
        format!("{} findings: {:?} {:.60}", found.len(), first.code, first.message.replace('\n', " "))
    });
    println!("{first}");
}

/// A family's plan of at most the given number of bytes, as text.
fn text(family: &fn(u32) -> PlanTree, size: usize) -> String {
    let text = |n| write(&family(n), Style::Compact);
    let (mut n, mut next) = (2, text(2));
    // Some grow with the square of their number.
    loop {
        let scale = (size as f64 / next.len() as f64).min(4.0);
        let more = ((f64::from(n) * scale) as u32).max(n + 1);
        if more > MOST {
            return next;
        }
        let larger = text(more);
        if larger.len() > size + size / 4 {
            return next;
        }
        (n, next) = (more, larger);
        if next.len() * 4 > size * 3 {
            return next;
        }
    }
}

fn operations(plan: &PlanTree) -> usize {
    let inside = |op: &mscclpp_core::plan::raw::Op| op.body.as_ref().map_or(0, |body| body.ops.len());
    let ops = plan.ranks.iter().flat_map(|rank| &rank.blocks).flat_map(|block| &block.ops);
    ops.map(|op| 1 + if op.kind == OpKind::Pipeline { inside(op) } else { 0 }).sum()
}

/// A line of what the kernel says of this process's memory, in bytes; 0 where it says nothing.
fn memory(line: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line)?.split_whitespace().next()?.parse::<f64>().ok());
    found.unwrap_or(0.0) * 1024.0
}
