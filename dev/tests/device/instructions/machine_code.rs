//! Machine code as `nvdisasm -c -gi` prints it: functions, their basic blocks, and the source lines of each instruction.

use std::collections::BTreeMap;

/// A line of a source: name of the file, and number.
pub(super) type Line = (String, u32);

/// A function, whose first basic block is its entry.
#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) blocks: Vec<BasicBlock>,
}

/// Instructions that are executed equally often.
#[derive(Debug, Default)]
pub(super) struct BasicBlock {
    /// For each instruction the line that it belongs to, after those into which that was inlined.
    pub(super) instrs: Vec<Vec<Line>>,
    /// Basic blocks of the function that may follow.
    pub(super) successors: Vec<usize>,
    /// Functions that it calls.
    pub(super) calls: Vec<String>,
}

/// A basic block, until all labels are known.
#[derive(Default)]
struct Parsed {
    block: BasicBlock,
    targets: Vec<String>,
    falls_through: bool,
    is_ended: bool,
}

/// Parses the functions of the section of a kernel, of which the first one is the kernel.
pub(super) fn functions(text: &str, kernel: &str) -> Vec<Function> {
    let section = format!(".text.{kernel}:");
    let mut functions: Vec<(String, Vec<Parsed>)> = Vec::new();
    let mut labels: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut lines, mut is_in_group) = (Vec::new(), false);
    let of_kernel = text.lines().skip_while(|line| line.trim() != section).skip(1);
    functions.push((kernel.to_owned(), vec![Parsed::default()]));
    for line in of_kernel.take_while(|line| !line.starts_with("//---") && !line.trim_start().starts_with(".section")) {
        let line = line.trim();
        if let Some(of) = line.strip_prefix("//## ") {
            if !std::mem::replace(&mut is_in_group, true) {
                lines.clear();
            }
            lines.extend(line_of(of));
            continue;
        }
        is_in_group = false;
        if let Some(label) = line.strip_suffix(':') {
            if !label.starts_with(".L") {
                functions.push((label.to_owned(), vec![Parsed::default()]));
                lines.clear();
            }
            let number = functions.len() - 1;
            let blocks = &mut functions[number].1;
            start(blocks);
            labels.insert(label.to_owned(), (number, blocks.len() - 1));
            continue;
        }
        let Some(instr) = line.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) else { continue };
        let blocks = &mut functions.last_mut().expect("the kernel").1;
        if blocks.last().expect("the entry").is_ended {
            start(blocks);
        }
        push(blocks.last_mut().expect("the entry"), instr.1.trim(), &lines);
    }
    functions
        .into_iter()
        .enumerate()
        .map(|(number, (name, parsed))| {
            let blocks = parsed.into_iter().enumerate().map(|(at, mut parsed)| {
                let of_function = |label: &String| labels.get(label).filter(|at| at.0 == number).map(|at| at.1);
                parsed.block.successors = parsed.targets.iter().filter_map(of_function).collect();
                if parsed.falls_through {
                    parsed.block.successors.push(at + 1);
                }
                parsed.block
            });
            let mut blocks: Vec<_> = blocks.collect();
            let count = blocks.len();
            blocks.iter_mut().for_each(|block| block.successors.retain(|at| *at < count));
            Function { name, blocks }
        })
        .collect()
}

/// Begins a basic block, unless the last one is empty.
fn start(blocks: &mut Vec<Parsed>) {
    let last = blocks.last_mut().expect("the entry");
    if last.block.instrs.is_empty() && !last.is_ended {
        return;
    }
    last.falls_through |= !last.is_ended;
    blocks.push(Parsed::default());
}

/// Adds an instruction, which may end its basic block.
fn push(to: &mut Parsed, instr: &str, lines: &[Line]) {
    let (text, comment) = instr.split_once("(*").unwrap_or((instr, ""));
    let mut words = text.trim_end_matches([' ', ';']).split_whitespace().peekable();
    let is_predicated = words.next_if(|word| word.starts_with('@')).is_some();
    let opcode = words.next().unwrap_or_default();
    let operands: Vec<&str> = words.collect();
    // Padding.
    if opcode.trim_end_matches(';') == "NOP" {
        return;
    }
    to.block.instrs.push(lines.to_vec());
    let kind = opcode.split('.').next().unwrap_or_default();
    let target = text.split_once("`(").and_then(|(_, rest)| rest.split(')').next());
    match kind {
        // With a second predicate before the target, a branch is conditional as well.
        "BRA" => {
            to.targets.extend(target.map(str::to_owned));
            to.falls_through = is_predicated || operands.len() > 1;
            to.is_ended = true;
        }
        "CALL" => to.block.calls.extend(target.map(str::to_owned)),
        "BRX" | "JMX" => {
            let list = comment.split_once("BRANCH_TARGETS ").map_or("", |(_, rest)| rest);
            to.targets.extend(list.split(['"', ',']).filter(|label| label.starts_with(".L")).map(str::to_owned));
            (to.falls_through, to.is_ended) = (is_predicated, true);
        }
        "EXIT" | "RET" | "BREAK" => (to.falls_through, to.is_ended) = (is_predicated || kind == "BREAK", true),
        _ => {}
    }
}

/// Parses `File "/a/b.h", line 3 inlined at …`.
fn line_of(text: &str) -> Option<Line> {
    let (path, rest) = text.strip_prefix("File \"")?.split_once("\", line ")?;
    let number = rest.split(' ').next()?.parse().ok()?;
    Some((path.rsplit('/').next()?.to_owned(), number))
}
