//! Writes the source of a plan's kernel.

use std::fmt::Write as _;

use super::super::tables::switch_opcode;
use super::shape::{Op, Shapes, Slice};
use mscclpp_cuda::abi::{CACHED_IDS, CACHED_INSTRS, CACHED_OPERANDS, FLAG_PACKED, Opcode, Reduction};
use mscclpp_cuda::jit::Source;

/// Maximum number of sources, and of destinations, of an operation: a mask has a bit for each that is packets, and all
/// fit into the cache.
pub(super) const MAX_OPERANDS: u32 = 64;

/// The only kernel of a specialized module.
pub(super) const KERNEL: &str = "mscclpp_specialized";

/// Generates the source. `names`: of the type and its accumulator. `reduce`: the reduction that replaces the plan's
/// sums. `combines`: whether switches can perform it. It depends on the shapes alone, not on the number of thread blocks.
pub(super) fn source(shapes: &Shapes, names: [&str; 2], reduce: Option<Reduction>, combines: bool) -> Source {
    let mut text = String::from("#include \"specialized.h\"\n\n");
    let [element, accumulator] = names;
    // Writing to a `String` cannot fail, so the results of `write!` are ignored.
    let _ = write!(text, "using Arith = mscclpp::Arithmetic<{element}, {accumulator}>;\n\nnamespace mscclpp {{\n");
    for (number, ops) in shapes.shapes.iter().enumerate() {
        let _ = write!(text, "\nDEV void shape_{number}(const LaunchParams& launch) {{\n");
        let mut writer = Writer { text: &mut text, ops, reduce, combines, cached: None, given: 0, indent: 1 };
        writer.begin();
        writer.block(0, ops.len(), false);
        text += "}\n";
    }
    let _ = write!(
        text,
        "\n}}  // namespace mscclpp\n\n\
         constexpr uint32_t kThreads = sizeof(Arith::A) > sizeof(Arith::T) ? mscclpp::kMaxThreadsWide : mscclpp::kMaxThreads;\n\
         KERNEL(kThreads) {KERNEL}(KERNEL_PARAM mscclpp::LaunchParams launch) {{\n  \
           mscclpp::begin_specialized(launch);\n  \
           switch (mscclpp::cache().own.shape) {{\n"
    );
    for number in 0..shapes.shapes.len() {
        let _ = writeln!(text, "    case {number}: mscclpp::shape_{number}(launch); break;");
    }
    let _ = write!(text, "  }}\n  mscclpp::finish_launch(launch);\n}}\nSIM_KERNEL({KERNEL}, mscclpp::LaunchParams)\n");
    Source::new("specialized.cu", text)
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
    reduce: Option<Reduction>,
    combines: bool,
    /// Contents of the cache at this statement, on every path to it.
    cached: Option<CachedOperands>,
    /// Number of the first operations whose ranges may be in the kernel parameters.
    given: usize,
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

    /// States what the record of a block, which is loaded first, has brought into the cache.
    fn begin(&mut self) {
        let end = |op: &Op| (op.operand + op.srcs + op.dsts, op.id + op.ids);
        let (operands, ids) = self.ops.last().map_or((0, 0), end);
        let cached = CachedOperands { operands: (0, operands.min(CACHED_OPERANDS)), ids: (0, ids.min(CACHED_IDS)) };
        let first = &self.ops[..self.ops.len().min(CACHED_INSTRS as usize)];
        self.given = first.iter().take_while(|op| holds(&cached, std::slice::from_ref(op))).count();
        self.cached = Some(cached);
    }

    /// Returns how a statement names an operation whose range may be in the kernel parameters.
    fn number(&self, at: usize) -> String {
        if at < self.given { at.to_string() } else { "kComputed".into() }
    }

    /// Writes operations `from..to`; `in_loop`: they are a loop's body.
    fn block(&mut self, from: usize, to: usize, in_loop: bool) {
        let mut at = from;
        while at < to {
            let body_end = at + 1 + self.ops[at].body as usize;
            if self.ops[at].opcode == Opcode::LOOP {
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
            let cached = self.cached_from(at + 1, end);
            let fits = holds(&cached, &self.ops[at + 1..end]);
            if fits {
                self.load(at + 1, self.ops.len());
            }
            fits
        };
        let (Op { count, unit, .. }, name) = (&self.ops[at], loop_name(at));
        let number = self.number(at);
        let begin = format!("Pipeline {name} = pipeline_of(launch, {number}, {count}, {unit}ull);");
        self.line(&begin);
        self.line("DEV_NO_UNROLL");
        self.line(&format!("for (; {name}.iteration < {name}.trips; ++{name}.iteration) {{"));
        if !fits {
            self.cached = None;
        }
        self.indent += 1;
        self.line(&format!("iteration() = {name}.iteration;"));
        self.block(at + 1, end, true);
        self.indent -= 1;
        self.line("}");
        self.line("iteration() = 0;");
        if !fits {
            // The contents of the cache depend on whether there was an iteration.
            self.cached = None;
        }
    }

    /// Returns whether the cache has all operands and ids of operations.
    fn holds(&self, from: usize, to: usize) -> bool {
        self.cached.is_some_and(|cached| holds(&cached, &self.ops[from..to]))
    }

    /// Returns the ranges of as many operations from `from` on, up to `to`, as fit; the first one in any case, as much
    /// of it as fits.
    fn cached_from(&self, from: usize, to: usize) -> CachedOperands {
        let Op { operand, id, .. } = self.ops[from];
        let mut cached = CachedOperands { operands: (operand, operand), ids: (id, id) };
        for (number, op) in self.ops[from..to].iter().enumerate() {
            let (operands_end, ids_end) = (op.operand + op.srcs + op.dsts, op.id + op.ids);
            let fits = operands_end - operand <= CACHED_OPERANDS && ids_end - id <= CACHED_IDS;
            if !fits && number > 0 {
                break;
            }
            cached.operands.1 = operands_end.min(operand + CACHED_OPERANDS);
            cached.ids.1 = ids_end.min(id + CACHED_IDS);
        }
        cached
    }

    /// Fills the cache for the operations from `from` on.
    fn load(&mut self, from: usize, to: usize) {
        let cached = self.cached_from(from, to);
        let CachedOperands { operands: (operand, operands_end), ids: (id, ids_end) } = cached;
        let (operands, ids) = (operands_end - operand, ids_end - id);
        self.line(&format!("load_cache(launch, {operand}, {operands}, {id}, {ids});"));
        self.cached = Some(cached);
    }

    fn op(&mut self, at: usize, in_loop: bool) {
        let op = &self.ops[at];
        let header = in_loop.then(|| (0..at).rev().find(|&header| self.ops[header].opcode == Opcode::LOOP));
        let cached = self.cached.unwrap_or(CachedOperands { operands: (0, 0), ids: (0, 0) });
        let (first, id) = (op.operand - cached.operands.0, op.id - cached.ids.0);
        let comment = format!("  // {}", op.kind.name());
        // Of operations that move nothing only those of the host's proxy have an effect.
        if op.size == 0 && is_transfer(op.opcode) {
            return;
        }
        if op.opcode != Opcode::NOP {
            self.line(&format!("pc() = cache().own.first + {at};"));
        }
        let line = match (op.opcode, sync_name(op.opcode)) {
            (Opcode::NOP, _) => "dev_sync();".to_owned(),
            (Opcode::BARRIER, _) => format!("barrier_wait_at(launch, {id}, {});", op.count),
            (Opcode::EXCHANGE_COUNTS, _) => {
                format!("exchange_counts(launch, sizeof(Arith::T), {});", op.flags & FLAG_PACKED != 0)
            }
            (Opcode::COPY_COUNTED, _) => "copy_counted(launch, all_instrs(launch)[pc()], sizeof(Arith::T));".to_owned(),
            (_, Some(name)) => {
                format!("synchronize_as<Opcode::{name}, {}>(launch, {id}, {});", op.flags, op.ids)
            }
            (_, None) => {
                let number = self.number(at);
                let range = match op.slice {
                    Slice::All => format!("byte_range(launch, {number}, {}, 0, 1)", op.size),
                    Slice::Own => format!("own_range(launch, {number}, {})", op.size),
                    Slice::Of(index, of) => format!("byte_range(launch, {number}, {}, {index}, {of})", op.size),
                };
                let range = match header.flatten().map(loop_name) {
                    Some(name) => format!("clipped({range}, {name})"),
                    None => range,
                };
                format!("{}{range});", self.call(op, first))
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
        let reduce = reduction_name(self.reduce.unwrap_or(op.reduce));
        let combined = format!("Arith, Reduction::{reduce}, {srcs}, {dsts}");
        let opcode = if op.switched[usize::from(self.combines)] { switch_opcode(op.opcode) } else { op.opcode };
        match opcode {
            Opcode::COPY => format!("copy_aligned<{srcs}>({first}, "),
            Opcode::PACK => format!("pack_aligned<{srcs}, {dsts}>({first}, "),
            Opcode::UNPACK => format!("unpack_aligned<{srcs}>(launch, {first}, "),
            Opcode::FORWARD => format!("forward_aligned<{dsts}>(launch, {first}, "),
            Opcode::SWITCH => format!("reduce_by_switch_aligned<{combined}>(launch, {first}, "),
            Opcode::SWITCH_FORWARD => "forward_by_switch_aligned(launch, ".to_owned(),
            Opcode::ROW_NORM => format!("norm_rows_aligned<Arith>(launch, {first}, "),
            Opcode::PORT => format!("port_aligned<false>(launch, {first}, "),
            Opcode::PORT_FORWARD => format!("port_aligned<true>(launch, {first}, "),
            // `REDUCE`: `is_supported` holds for no other opcode that is left.
            _ if op.packet_srcs => {
                format!("reduce_packets_aligned<{combined}, {}ull>(launch, {first}, ", mask(&op.packet_dsts))
            }
            _ => format!("reduce_aligned<{combined}>({first}, "),
        }
    }
}

fn holds(cached: &CachedOperands, ops: &[Op]) -> bool {
    ops.iter().all(|op| {
        let operands = op.srcs + op.dsts == 0
            || cached.operands.0 <= op.operand && op.operand + op.srcs + op.dsts <= cached.operands.1;
        operands && (op.ids == 0 || cached.ids.0 <= op.id && op.id + op.ids <= cached.ids.1)
    })
}

/// Returns the variable of the loop at an operation.
fn loop_name(at: usize) -> String {
    format!("loop_{at}")
}

/// Returns whether there is code for an opcode.
pub(super) fn is_supported(opcode: Opcode) -> bool {
    let is_other = matches!(
        opcode,
        Opcode::NOP
            | Opcode::BARRIER
            | Opcode::LOOP
            | Opcode::PORT
            | Opcode::PORT_FORWARD
            | Opcode::EXCHANGE_COUNTS
            | Opcode::COPY_COUNTED
    );
    is_other || is_transfer(opcode) || sync_name(opcode).is_some()
}

/// Returns whether an operation moves or combines data without the host's proxy.
fn is_transfer(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::COPY
            | Opcode::PACK
            | Opcode::UNPACK
            | Opcode::FORWARD
            | Opcode::REDUCE
            | Opcode::ROW_NORM
            | Opcode::SWITCH
            | Opcode::SWITCH_FORWARD
    )
}

/// Returns the name in the header of an operation on channels or semaphores.
fn sync_name(opcode: Opcode) -> Option<&'static str> {
    Some(match opcode {
        Opcode::SIGNAL => "kSignal",
        Opcode::PORT_SIGNAL => "kPortSignal",
        Opcode::WAIT => "kWait",
        Opcode::FLUSH => "kFlush",
        Opcode::ACQUIRE => "kAcquire",
        Opcode::RELEASE => "kRelease",
        _ => return None,
    })
}

/// Returns the name of a reduction in the header.
fn reduction_name(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::PROD => "kProd",
        Reduction::MIN => "kMin",
        Reduction::MAX => "kMax",
        Reduction::AVG => "kAvg",
        _ => "kSum",
    }
}
