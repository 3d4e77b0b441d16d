//! How often the first warp of a thread block executes each source line, from the basic blocks that its threads entered.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use libtest_mimic::Failed;
use mscclpp_dev::{Step, TracedObject};

use super::machine_code::Line;

/// Number of executions of each line that the simulated object has; it has none of those that only devices have.
pub(super) type Executions = BTreeMap<Line, u64>;

/// A basic block of an object without optimization: its function, and the lines of its instructions.
struct BasicBlock {
    function: String,
    lines: BTreeSet<Line>,
}

/// The basic blocks of an object, by the addresses that steps name.
pub(super) struct Object {
    blocks: BTreeMap<u64, BasicBlock>,
}

/// What each basic block reports itself to.
const TRACER: &str = "<__sanitizer_cov_trace_pc>";

impl Object {
    /// Reads an object with `objdump`.
    pub(super) fn read(object: &TracedObject) -> Result<Self, Failed> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("object.so");
        std::fs::write(&path, &object.code)?;
        let output = Command::new("objdump").args(["-d", "-l", "--no-show-raw-insn"]).arg(&path).output()?;
        if !output.status.success() {
            return Err(format!("objdump failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(Self::parse(&String::from_utf8_lossy(&output.stdout)))
    }

    fn parse(text: &str) -> Self {
        let mut blocks = BTreeMap::new();
        let (mut function, mut line, mut open, mut begins) = (String::new(), None, None, false);
        for row in text.lines() {
            if let Some(name) = row.strip_suffix(">:").and_then(|row| row.split_once(" <")) {
                function = name.1.to_owned();
                (line, open) = (None, None);
                continue;
            }
            let Some((address, instr)) = row.split_once(":\t") else {
                line = source_line(row).or(line);
                continue;
            };
            let Ok(address) = u64::from_str_radix(address.trim(), 16) else { continue };
            if std::mem::take(&mut begins) {
                let (function, lines) = (function.clone(), BTreeSet::new());
                blocks.insert(address, BasicBlock { function, lines });
                open = Some(address);
            }
            begins = instr.contains("call") && instr.contains(TRACER);
            // The call belongs to the basic block that it reports.
            if begins {
                open = None;
                continue;
            }
            if let (Some(block), Some(line)) = (open.and_then(|open| blocks.get_mut(&open)), &line) {
                block.lines.insert(line.clone());
            }
        }
        Self { blocks }
    }

    /// Returns how often a warp executes each line: as often as the thread that executes it most often. In a thread, the basic blocks of a
    /// line are parts of one execution, as are those of a function that is instantiated several times. `to_store`: until each thread has
    /// stored something that others see.
    pub(super) fn executions<'a>(&self, steps: impl Iterator<Item = &'a Step>, to_store: bool) -> Executions {
        let mut threads: BTreeMap<u32, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut stored = BTreeSet::new();
        for step in steps {
            let Some(block) = self.blocks.get(&step.address) else { continue };
            if to_store && stored.contains(&step.thread) {
                continue;
            }
            if is_store(&block.function) {
                stored.insert(step.thread);
            }
            *threads.entry(step.thread).or_default().entry(step.address).or_default() += 1;
        }
        let lines = self.blocks.values().flat_map(|block| &block.lines);
        let mut warp: Executions = lines.map(|line| (line.clone(), 0)).collect();
        for counts in threads.into_values() {
            let mut by_function: BTreeMap<(&Line, &str), u64> = BTreeMap::new();
            for (address, count) in counts {
                let block = &self.blocks[&address];
                for line in &block.lines {
                    let entry = by_function.entry((line, &block.function)).or_default();
                    *entry = count.max(*entry);
                }
            }
            let mut thread: BTreeMap<&Line, u64> = BTreeMap::new();
            by_function.into_iter().for_each(|((line, _), count)| *thread.entry(line).or_default() += count);
            for (line, count) in thread {
                let entry = warp.entry(line.clone()).or_default();
                *entry = count.max(*entry);
            }
        }
        warp
    }
}

/// Returns whether a function of the simulator's header is a store or an addition that other threads can see.
fn is_store(function: &str) -> bool {
    ["store_plain", "store_relaxed", "store_release", "add_re", "sim_store"].iter().any(|name| function.contains(name))
}

/// Parses `/a/b.h:12` and `/a/b.h:12 (discriminator 2)`.
fn source_line(row: &str) -> Option<Line> {
    let (path, number) = row.split(" (discriminator").next()?.rsplit_once(':')?;
    Some((path.rsplit('/').next()?.to_owned(), number.trim().parse().ok()?))
}
