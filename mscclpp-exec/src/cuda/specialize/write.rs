//! Writes the source of a plan's kernel.

use std::fmt::Write as _;

use super::super::tables::action;
use super::shape::{Block, Op, Shapes, Slice};
use crate::cuda::jit::Source;

/// Size of the cache, as in `kernels/window.h`.
const CACHED_OPERANDS: u32 = 192;
const CACHED_IDS: u32 = 96;

/// Maximum number of sources, and of destinations, of an operation: a mask has a bit for each that is packets, and all
/// fit into the cache.
pub(super) const MAX_OPERANDS: u32 = 64;

/// The only kernel of a specialised module.
pub(super) const KERNEL: &str = "mscclpp_specialised";

/// Generates the source. `names`: of the type and its accumulator. `reduce`: number of the reduction that replaces the
/// plan's sums.
pub(super) fn source(shapes: &Shapes, names: [&str; 2], reduce: Option<u8>) -> Source {
    let mut text = String::from("#include \"specialised.h\"\n\n");
    let [element, accumulator] = names;
    // Writing to a `String` cannot fail, so the results of `write!` are ignored.
    let _ = write!(text, "using Arith = mscclpp::Arithmetic<{element}, {accumulator}>;\n\nnamespace mscclpp {{\n");
    for (number, ops) in shapes.shapes.iter().enumerate() {
        let blocks = shapes.blocks.iter().filter(|block| block.shape == number).count();
        let _ = write!(
            text,
            "\n/// {blocks} thread blocks.\n\
             DEV void shape_{number}(const Launch& launch, const Block& block, uint64_t sequence) {{\n"
        );
        Writer { text: &mut text, ops, reduce, window: None, loaded: false, indent: 1 }.block(0, ops.len(), false);
        text += "}\n";
    }
    text += "\nDEV_TABLE Block kBlocks[] = {\n";
    for Block { instr, operand, id, fifo, slice, shape } in &shapes.blocks {
        let _ = writeln!(text, "    {{{instr}, {operand}, {id}, {fifo}, {slice}, {shape}}},");
    }
    let _ = write!(
        text,
        "}};\n\n}}  // namespace mscclpp\n\n\
         constexpr uint32_t kThreads = sizeof(Arith::A) > sizeof(Arith::T) ? mscclpp::kMostThreadsWide : mscclpp::kMostThreads;\n\
         KERNEL(kThreads) {KERNEL}(KERNEL_PARAM mscclpp::Launch launch) {{\n  \
           const uint32_t number = launch.first_agent + dev_block();\n  \
           const mscclpp::Block& block = mscclpp::kBlocks[number];\n  \
           const uint64_t sequence = mscclpp::begin_launch(launch, number, block.fifo);\n  \
           switch (block.shape) {{\n"
    );
    for number in 0..shapes.shapes.len() {
        let _ = writeln!(text, "    case {number}: mscclpp::shape_{number}(launch, block, sequence); break;");
    }
    let _ = write!(text, "  }}\n  mscclpp::finish_launch(launch);\n}}\nSIM_KERNEL({KERNEL}, mscclpp::Launch)\n");
    Source::new("specialised.cu", text)
}

/// Operands and ids in the cache: ranges, relative to the block's first ones.
#[derive(Clone, Copy)]
struct CachedOperands {
    operands: (u32, u32),
    ids: (u32, u32),
}

struct Writer<'a> {
    text: &'a mut String,
    ops: &'a [Op],
    reduce: Option<u8>,
    /// Contents of the cache at this statement, on every path to it.
    window: Option<CachedOperands>,
    /// Whether the cache was ever filled.
    loaded: bool,
    indent: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        for _ in 0..self.indent {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes operations `from..to`; `in_loop`: they are a loop's body.
    fn block(&mut self, from: usize, to: usize, in_loop: bool) {
        let mut at = from;
        if !in_loop {
            self.load(from, to);
        }
        while at < to {
            let body_end = at + 1 + self.ops[at].body as usize;
            if self.ops[at].action == action::LOOP {
                self.a_loop(at, body_end);
                at = body_end;
                continue;
            }
            if !self.holds(at, at + 1) {
                self.load(at, to);
            }
            self.op(at, in_loop);
            at += 1;
        }
    }

    fn a_loop(&mut self, at: usize, end: usize) {
        if end == at + 1 {
            return;
        }
        // A body that fits is loaded once.
        let fits = self.holds(at + 1, end) || {
            let window = self.window_from(at + 1, end);
            let fits = holds(&window, &self.ops[at + 1..end]);
            if fits {
                self.load(at + 1, self.ops.len());
            }
            fits
        };
        let (Op { count, unit, .. }, name) = (&self.ops[at], loop_name(at));
        let begin = format!("Windows {name} = windows_of(launch, {count}, {unit}ull);");
        self.line(&begin);
        self.line("DEV_NO_UNROLL");
        self.line(&format!("for (; {name}.iteration < {name}.trips; ++{name}.iteration) {{"));
        if !fits {
            self.window = None;
        }
        self.indent += 1;
        self.line(&format!("iteration() = {name}.iteration;"));
        self.block(at + 1, end, true);
        self.indent -= 1;
        self.line("}");
        self.line("iteration() = 0;");
        if !fits {
            // The contents of the cache depend on whether there was an iteration.
            self.window = None;
        }
    }

    /// Returns whether the cache has all operands and ids of operations.
    fn holds(&self, from: usize, to: usize) -> bool {
        self.window.is_some_and(|window| holds(&window, &self.ops[from..to]))
    }

    /// Returns the ranges of as many operations from `from` on, up to `to`, as fit; the first one in any case, as much
    /// of it as fits.
    fn window_from(&self, from: usize, to: usize) -> CachedOperands {
        let Op { operand, id, .. } = self.ops[from];
        let mut window = CachedOperands { operands: (operand, operand), ids: (id, id) };
        for (number, op) in self.ops[from..to].iter().enumerate() {
            let (operands_end, ids_end) = (op.operand + op.srcs + op.dsts, op.id + op.ids);
            let fits = operands_end - operand <= CACHED_OPERANDS && ids_end - id <= CACHED_IDS;
            if !fits && number > 0 {
                break;
            }
            window.operands.1 = operands_end.min(operand + CACHED_OPERANDS);
            window.ids.1 = ids_end.min(id + CACHED_IDS);
        }
        window
    }

    /// Fills the cache for the operations from `from` on.
    fn load(&mut self, from: usize, to: usize) {
        let window = self.window_from(from, to);
        let CachedOperands { operands: (operand, operands_end), ids: (id, ids_end) } = window;
        let (operands, ids) = (operands_end - operand, ids_end - id);
        let what = format!("block.operand + {operand}, {operands}, block.id + {id}, {ids});");
        let first = !std::mem::replace(&mut self.loaded, true);
        self.line(&match first {
            true => format!("load_window(launch, sequence, {what}"),
            false => format!("reload_window(launch, {what}"),
        });
        self.window = Some(window);
    }

    fn op(&mut self, at: usize, in_loop: bool) {
        let op = &self.ops[at];
        let header = in_loop.then(|| (0..at).rev().find(|&header| self.ops[header].action == action::LOOP));
        let window = self.window.unwrap_or(CachedOperands { operands: (0, 0), ids: (0, 0) });
        let (first, id) = (op.operand - window.operands.0, op.id - window.ids.0);
        let comment = format!("  // {}", op.kind.name());
        // Of operations that move nothing only those of the host's proxy have an effect.
        if op.size == 0 && matches!(op.action, action::COPY..=action::REDUCE | action::SWITCH | action::SWITCH_FORWARD)
        {
            return;
        }
        if op.action != action::NOP {
            self.line(&format!("pc() = block.instr + {at};"));
        }
        let line = match op.action {
            action::NOP => "dev_sync();".to_owned(),
            action::BLOCK_SYNC => format!("meet_at(launch, {id}, {});", op.count),
            action::SIGNAL.. => {
                format!("synchronise_as<{}, {}>(launch, {id}, {});", op.action, op.flags, op.ids)
            }
            _ => {
                let piece = match op.slice {
                    Slice::All => format!("piece_of(launch, {}, 0, 1)", op.size),
                    Slice::Own(of) => format!("piece_of(launch, {}, block.slice, {of})", op.size),
                    Slice::Of(index, of) => format!("piece_of(launch, {}, {index}, {of})", op.size),
                };
                let piece = match header.flatten().map(loop_name) {
                    Some(name) => format!("narrowed({piece}, {name})"),
                    None => piece,
                };
                format!("{}{piece});", self.call(op, first))
            }
        };
        self.line(&format!("{line}{comment}"));
    }

    /// Returns the call for an operation that moves or combines data, without its slice arguments.
    fn call(&self, op: &Op, first: u32) -> String {
        let mask = |packets: &[bool]| {
            packets.iter().enumerate().fold(0_u64, |mask, (at, &packet)| mask | u64::from(packet) << at)
        };
        let (srcs, dsts) = (op.srcs, op.dsts);
        let reduce = ["Sum", "Prod", "Min", "Max", "Avg"][usize::from(self.reduce.unwrap_or(op.reduce)) % 5];
        let combined = format!("Arith, Reduction::{reduce}, {srcs}, {dsts}");
        match op.action {
            action::COPY => format!("copy_even<{srcs}>({first}, "),
            action::PACK => format!("pack_even<{srcs}>({first}, "),
            action::UNPACK => format!("unpack_even<{srcs}>(launch, {first}, "),
            action::FORWARD => format!("forward_even<{dsts}>(launch, {first}, "),
            action::SWITCH => format!("reduce_by_switch_even<{combined}>(launch, {first}, "),
            action::SWITCH_FORWARD => "forward_by_switch_even(launch, ".to_owned(),
            action::PORT => format!("port_even<false>(launch, {first}, "),
            action::PORT_FORWARD => format!("port_even<true>(launch, {first}, "),
            _ => match (mask(&op.packet_srcs), mask(&op.packet_dsts)) {
                (0, 0) => format!("reduce_even<{combined}>({first}, "),
                (from, to) => format!("reduce_packets_even<{combined}, {from}ull, {to}ull>(launch, {first}, "),
            },
        }
    }
}

fn holds(window: &CachedOperands, ops: &[Op]) -> bool {
    ops.iter().all(|op| {
        let operands = op.srcs + op.dsts == 0
            || window.operands.0 <= op.operand && op.operand + op.srcs + op.dsts <= window.operands.1;
        operands && (op.ids == 0 || window.ids.0 <= op.id && op.id + op.ids <= window.ids.1)
    })
}

/// Returns the variable of the loop at an operation.
fn loop_name(at: usize) -> String {
    format!("loop_{at}")
}
