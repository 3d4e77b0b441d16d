//! Parses the source of a specialized kernel for each thread block of the plan: every statement must be the next
//! operation of the block, with the interpreter's operands, channels, counts and slices.
//!
//! The cache of operands and ids is tracked as well: an index into it must refer to the operands and ids that the
//! operation names, in the first iteration of a loop and in every later one.

use super::ValidationError;
use mscclpp_base::interpret::program::Instr;
use mscclpp_base::interpret::{Block, Opcode, ResolvedPlan, Space, Transfer};
use mscclpp_exec::cuda::abi::{CACHED_IDS, CACHED_INSTRS, CACHED_OPERANDS, FLAG_RELAXED};

/// Contents of the cache: first and number of operands, first and number of ids.
type Cached = Option<[u32; 4]>;

/// Compares a kernel's source with the resolved plan. `shapes`: by thread block, the function that executes it. `reduce`: the
/// name of the reduction that replaces sums.
///
/// # Errors
/// [`ValidationError::Changed`].
pub(super) fn compare(
    program: &ResolvedPlan,
    source: &str,
    shapes: &[u32],
    reduce: Option<&str>,
) -> Result<(), ValidationError> {
    let wrong = |what: &str| ValidationError::changed("the specialized kernel", what);
    if shapes.len() != program.agents.len() {
        return Err(wrong("has another number of thread blocks"));
    }
    for (code, shape) in program.agents.iter().zip(shapes) {
        let instrs = &program.instrs[code.start as usize..code.end as usize];
        let first = instrs.first().ok_or_else(|| wrong("has a thread block without operations"))?;
        let call = format!("    case {shape}: mscclpp::shape_{shape}(launch); break;\n");
        let begin = format!("DEV void shape_{shape}(const LaunchParams& launch) {{\n");
        let body = source.split_once(&begin).and_then(|(_, rest)| body_of_function(rest));
        let body = body.filter(|_| source.contains(&call)).ok_or_else(|| wrong("lacks a function"))?;
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        let base = [first.operands + program.repeated_srcs(first), first.first_id];
        let ends =
            |instr: &Instr| (instr.operands + instr.srcs + instr.dsts - base[0], instr.first_id + instr.ids - base[1]);
        // The record of a thread block, which is loaded first, has as many operands and ids as the cache.
        let (operands, ids) = instrs.last().map_or((0, 0), ends);
        let fits = |instr: &&Instr| ends(instr).0 <= CACHED_OPERANDS && ends(instr).1 <= CACHED_IDS;
        let mut reader = Reader {
            program,
            code,
            reduce,
            slice: instrs.iter().map(|instr| instr.slice).find(|&(_, of)| of > 1),
            at: code.start,
            pc: None,
            cached: Some([base[0], operands.min(CACHED_OPERANDS), base[1], ids.min(CACHED_IDS)]),
            given: instrs.iter().take(CACHED_INSTRS as usize).take_while(fits).count() as u32,
            header: None,
            base,
        };
        reader.read(&lines).map_err(|what| {
            ValidationError::changed(
                program.path(reader.at.min(code.end.saturating_sub(1))),
                format!("in the specialized kernel, {what}"),
            )
        })?;
    }
    Ok(())
}

/// Returns the body of the function at whose beginning a text is.
fn body_of_function(text: &str) -> Option<&str> {
    if text.starts_with("}\n") { Some("") } else { text.split_once("\n}\n").map(|(body, _)| body) }
}

struct Reader<'p> {
    program: &'p ResolvedPlan,
    code: &'p Block,
    reduce: Option<&'p str>,
    /// The block's slice, where operations name none themselves: index and number of slices; none if it processes all of its operands.
    slice: Option<(u32, u32)>,
    /// The next instruction.
    at: u32,
    pc: Option<u32>,
    cached: Cached,
    /// Number of the first instructions whose ranges may be in the kernel parameters.
    given: u32,
    /// The current loop.
    header: Option<u32>,
    /// The block's first operand and id.
    base: [u32; 2],
}

impl Reader<'_> {
    fn read(&mut self, lines: &[&str]) -> Result<(), String> {
        let mut number = 0;
        while let Some(&line) = lines.get(number) {
            number += 1;
            if let Some(rest) = line.strip_prefix("Pipeline loop_") {
                number += self.a_loop(rest, &lines[number..])?;
            } else {
                self.statement(line)?;
            }
        }
        self.skip();
        if self.at == self.code.end { Ok(()) } else { Err("operations are missing".into()) }
    }

    /// Parses a loop, after its first line, and returns the number of its other lines.
    fn a_loop(&mut self, rest: &str, lines: &[&str]) -> Result<usize, String> {
        self.skip();
        let header = self.at;
        let instr = self.next(|action| action == Opcode::Loop)?;
        let name = format!("loop_{}", header - self.code.start);
        let number = self.number(header);
        let expected = format!("{} = pipeline_of(launch, {number}, {}, {}ull);", &name[5..], instr.count, instr.unit);
        let begin = [
            "DEV_NO_UNROLL".to_owned(),
            format!("for (; {name}.iteration < {name}.trips; ++{name}.iteration) {{"),
            format!("iteration() = {name}.iteration;"),
        ];
        if rest != expected || !lines.iter().take(3).eq(begin.iter()) {
            return Err("a loop has another head".into());
        }
        let end = lines.iter().position(|line| *line == "}").ok_or("a loop has no end")?;
        if lines.get(end + 1) != Some(&"iteration() = 0;") {
            return Err("a loop does not reset its iteration".into());
        }
        let before = self.cached;
        self.header = Some(header);
        // A second time as in later iterations, when the cache has the contents that the body leaves.
        for _ in 0..2 {
            self.at = header + 1;
            lines[3..end].iter().try_for_each(|line| self.statement(line))?;
            self.skip();
            if self.at != header + 1 + instr.body {
                return Err("a loop has another body".into());
            }
        }
        self.header = None;
        // There may be no iteration.
        self.cached = self.cached.filter(|cached| before == Some(*cached));
        Ok(end + 2)
    }

    /// Skips operations without an effect: transfers of no chunks, and loops without a body.
    fn skip(&mut self) {
        let end = self.header.map_or(self.code.end, |header| header + 1 + self.program.instrs[header as usize].body);
        while let Some(instr) = self.program.instrs.get(self.at as usize).filter(|_| self.at < end) {
            let empty = self.program.srcs(instr).first().is_some_and(|src| src.size == 0);
            let does_nothing = match instr.action {
                Opcode::Transfer(_) => empty,
                Opcode::Loop => instr.body == 0,
                _ => false,
            };
            if !does_nothing {
                break;
            }
            self.at += 1;
        }
    }

    /// Returns the next instruction, if it is an expected one.
    fn next(&mut self, is_it: impl Fn(Opcode) -> bool) -> Result<Instr, String> {
        self.skip();
        let instr =
            self.program.instrs.get(self.at as usize).filter(|instr| self.at < self.code.end && is_it(instr.action));
        let instr = *instr.ok_or("another operation is executed")?;
        if !matches!(instr.action, Opcode::Nop | Opcode::Loop) && self.pc != Some(self.at) {
            return Err("another operation is reported".into());
        }
        self.at += 1;
        Ok(instr)
    }

    fn statement(&mut self, line: &str) -> Result<(), String> {
        let (line, comment) = line.split_once("  // ").map_or((line, None), |(line, comment)| (line, Some(comment)));
        let found = numbers(line);
        let call = line.split_once('(').map_or(line, |(name, _)| name);
        let name = call.split_once('<').map_or(call, |(name, _)| name);
        match (name, &found[..]) {
            ("load_cache", &[operand, operands, id, ids]) => {
                if line != format!("load_cache(launch, {operand}, {operands}, {id}, {ids});") {
                    return Err("the cache is loaded from another address".into());
                }
                if operands > CACHED_OPERANDS || ids > CACHED_IDS {
                    return Err("the cache is loaded past its end".into());
                }
                self.cached = Some([self.base[0] + operand, operands, self.base[1] + id, ids]);
                return Ok(());
            }
            ("pc", &[at]) if line == format!("pc() = cache().own.first + {at};") => {
                self.pc = Some(self.code.start + at);
                return Ok(());
            }
            _ => {}
        }
        let instr = self.operation(line, name, call)?;
        if comment != Some(instr.kind.name()) { Err("an operation has another name".into()) } else { Ok(()) }
    }

    fn operation(&mut self, line: &str, name: &str, call: &str) -> Result<Instr, String> {
        if line == "dev_sync();" {
            return self.next(|action| action == Opcode::Nop);
        }
        let arguments = line.get(call.len() + 1..).unwrap_or_default().trim_end_matches(");");
        let constants = call.get(name.len()..).unwrap_or_default();
        if name == "barrier_wait_at" {
            let instr = self.next(|action| action == Opcode::Barrier)?;
            let expected = format!("launch, {}, {}", self.id(&instr)?, instr.count);
            return if arguments == expected { Ok(instr) } else { Err("a barrier differs".into()) };
        }
        if name == "exchange_counts" {
            let instr = self.next(|action| action == Opcode::ExchangeCounts)?;
            let expected = format!("launch, sizeof(Arith::T), {}", self.program.is_packed());
            return if arguments == expected { Ok(instr) } else { Err("an exchange of counts differs".into()) };
        }
        if name == "synchronize_as" {
            let instr = self.next(|action| sync_name(action).is_some())?;
            let (name, flags) = sync_name(instr.action).ok_or("another operation is executed")?;
            let expected = format!("launch, {}, {}", self.id(&instr)?, instr.ids);
            let same = arguments == expected && constants == format!("<Opcode::{name}, {flags}>");
            return if same { Ok(instr) } else { Err("a synchronization differs".into()) };
        }
        let instr = self.next(|action| {
            !matches!(action, Opcode::Nop | Opcode::Barrier | Opcode::ExchangeCounts) && sync_name(action).is_none()
        })?;
        if self.data(&instr)? == line { Ok(instr) } else { Err("a transfer differs".into()) }
    }

    /// Returns how a statement names an instruction whose range may be in the kernel parameters.
    fn number(&self, at: u32) -> String {
        let number = at - self.code.start;
        if number < self.given { number.to_string() } else { "kComputed".into() }
    }

    /// Returns the statement of an operation on data.
    fn data(&self, instr: &Instr) -> Result<String, String> {
        // Of equal sources of a copy or pack, only the last one is loaded.
        let repeated = self.program.repeated_srcs(instr);
        let (srcs, dsts) = (&self.program.srcs(instr)[repeated as usize..], self.program.dsts(instr));
        let [first, count, ..] = self.cached.ok_or("the cache is empty")?;
        let needed = srcs.len() as u32 + dsts.len() as u32;
        let index = (instr.operands + repeated).checked_sub(first).filter(|index| index + needed <= count);
        let index = index.ok_or("the cache lacks an operand")?;
        if instr.counted.is_some() {
            return Ok("copy_counted(launch, all_instrs(launch)[pc()], sizeof(Arith::T));".into());
        }
        let at = self.at - 1;
        let (number, size) = (self.number(at), srcs.first().map_or(0, |src| src.size));
        let mut slices =
            self.program.instrs[self.code.start as usize..self.code.end as usize].iter().map(|instr| instr.slice);
        let range = match instr.slice {
            (_, 0 | 1) if self.slice.is_none() => format!("own_range(launch, {number}, {size})"),
            (_, 0 | 1) => format!("byte_range(launch, {number}, {size}, 0, 1)"),
            // Where all operations have the block's slice, they do not name it.
            own if slices.all(|other| other.1 <= 1 || other == own) && Some(own) == self.slice => {
                format!("own_range(launch, {number}, {size})")
            }
            (index, of) => format!("byte_range(launch, {number}, {size}, {index}, {of})"),
        };
        let range = match self.header {
            Some(header) => format!("clipped({range}, loop_{})", header - self.code.start),
            None => range,
        };
        let is_packet = |space: Space| space == Space::Packets;
        let packets = [srcs, dsts]
            .map(|list| list.iter().rev().fold(0_u64, |mask, operand| mask * 2 + u64::from(is_packet(operand.space))));
        let (from, to) = (srcs.len(), dsts.len());
        let name = format!("{:?}", instr.reduce);
        let combined = format!("Arith, Reduction::k{}, {from}, {to}", self.reduce.unwrap_or(&name));
        let call = match instr.action {
            Opcode::Transfer(Transfer::Copy) if repeated > 0 => format!("reduce_aligned<{combined}>("),
            Opcode::Transfer(Transfer::Copy) => format!("copy_aligned<{from}>("),
            Opcode::Transfer(Transfer::Pack) => format!("pack_aligned<{from}, {to}>("),
            Opcode::Transfer(Transfer::Unpack) => format!("unpack_aligned<{from}>(launch, "),
            Opcode::Transfer(Transfer::Forward) => format!("forward_aligned<{to}>(launch, "),
            Opcode::Transfer(Transfer::RowNorm) => "norm_rows_aligned<Arith>(launch, ".to_owned(),
            Opcode::Port { .. } => "port_aligned<false>(launch, ".to_owned(),
            Opcode::PortForward => "port_aligned<true>(launch, ".to_owned(),
            Opcode::Transfer(Transfer::Reduce) => match packets.map(u64::count_ones) {
                [0, 0] => format!("reduce_aligned<{combined}>("),
                // The kernel looks for the plain source.
                [plain, _] if plain + 1 == from as u32 => {
                    format!("reduce_packets_aligned<{combined}, {}ull>(launch, ", packets[1])
                }
                _ => return Err("packets are combined with several plain sources, or with none".into()),
            },
            _ => return Err("another operation is executed".into()),
        };
        Ok(format!("{call}{index}, {range});"))
    }

    /// Returns the position in the cache of an operation's first id. All ids are in the cache if it has room for them.
    fn id(&self, instr: &Instr) -> Result<u32, String> {
        let [.., first, count] = self.cached.ok_or("the cache is empty")?;
        let index = instr.first_id.checked_sub(first).ok_or("the cache lacks an id")?;
        if index + instr.ids <= count || index == 0 && count >= CACHED_IDS {
            Ok(index)
        } else {
            Err("the cache lacks an id".into())
        }
    }
}

/// Returns the name in device code of an operation on channels or semaphores, and its flags.
fn sync_name(opcode: Opcode) -> Option<(&'static str, u8)> {
    Some(match opcode {
        Opcode::Signal { relaxed } => ("kSignal", if relaxed { FLAG_RELAXED } else { 0 }),
        Opcode::PortSignal => ("kPortSignal", 0),
        Opcode::Wait { .. } => ("kWait", 0),
        Opcode::Flush => ("kFlush", 0),
        Opcode::Acquire => ("kAcquire", 0),
        Opcode::Release => ("kRelease", 0),
        _ => return None,
    })
}

/// Returns the integers in a text that are not part of a name.
fn numbers(text: &str) -> Vec<u32> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter_map(|word| word.parse().ok()).collect()
}
