//! Functions of plain Rust: rustc compiles them, with overflow checks, and what they return must be what evaluation gives.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use mscclpp_core::diag::Code;
use mscclpp_eval::probe;

use crate::rng::Rng;
use crate::setting;

/// Functions in one file for rustc.
const BATCH: u64 = 100;

/// Types of variables: an integer, a list of one, an option of one, or a boolean.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ty {
    Int(&'static str),
    List(&'static str),
    Option(&'static str),
    Bool,
}

impl Ty {
    fn text(self) -> String {
        match self {
            Self::Int(int) => int.to_owned(),
            Self::List(int) => format!("Vec<{int}>"),
            Self::Option(int) => format!("Option<{int}>"),
            Self::Bool => "bool".to_owned(),
        }
    }
}

const INTS: [&str; 6] = ["usize", "i32", "u8", "i64", "u32", "i8"];

/// Writes one random function.
struct Writer {
    rng: Rng,
    /// Variables in scope, and whether they may change.
    vars: Vec<(String, Ty, bool)>,
    names: usize,
    out: String,
}

impl Writer {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("v{}", self.names)
    }

    fn line(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn int(&mut self) -> &'static str {
        INTS[self.rng.below(INTS.len())]
    }

    fn ty(&mut self) -> Ty {
        let int = self.int();
        match self.rng.below(8) {
            0..=3 => Ty::Int(int),
            4 | 5 => Ty::List(int),
            6 => Ty::Option(int),
            _ => Ty::Bool,
        }
    }

    /// A variable of a type.
    fn var(&mut self, ty: Ty) -> Option<String> {
        let found: Vec<String> = self.vars.iter().filter(|var| var.1 == ty).map(|var| var.0.clone()).collect();
        (!found.is_empty()).then(|| self.rng.pick(&found).clone())
    }

    /// A variable of a type that may change.
    fn changing(&mut self, ty: Ty) -> Option<String> {
        let found: Vec<String> = self.vars.iter().filter(|var| var.1 == ty && var.2).map(|var| var.0.clone()).collect();
        (!found.is_empty()).then(|| self.rng.pick(&found).clone())
    }

    /// An expression of a type, one that says what its type is.
    fn typed(&mut self, int: &'static str, depth: usize) -> String {
        match self.var(Ty::Int(int)) {
            Some(var) if !self.rng.one_in(4) => var,
            _ if depth > 0 && self.rng.one_in(3) => {
                format!("({} + {})", self.typed(int, depth - 1), self.number(int, depth - 1))
            }
            _ => format!("{}{int}", self.rng.below(9)),
        }
    }

    /// An integer expression; where its type is known anyway.
    fn number(&mut self, int: &'static str, depth: usize) -> String {
        if depth == 0 {
            return match self.var(Ty::Int(int)) {
                Some(var) if !self.rng.one_in(3) => var,
                _ => {
                    let most = *self.rng.pick(&[7, 7, 7, 7, 120]);
                    self.rng.below(most).to_string()
                }
            };
        }
        let d = depth - 1;
        match self.rng.below(22) {
            0..=4 => {
                let op = *self.rng.pick(&["+", "+", "-", "*", "&", "|", "^"]);
                format!("({} {op} {})", self.number(int, d), self.number(int, d))
            }
            5 => {
                let op = *self.rng.pick(&["/", "%"]);
                let right = if self.rng.one_in(8) { self.number(int, d) } else { (1 + self.rng.below(5)).to_string() };
                format!("({} {op} {right})", self.number(int, d))
            }
            6 => {
                let op = *self.rng.pick(&["<<", ">>"]);
                let most = *self.rng.pick(&[4, 4, 4, 4, 4, 70]);
                format!("({} {op} {})", self.typed(int, d), self.rng.below(most))
            }
            7 => {
                let from = self.int();
                format!("(({}).rem_euclid(100) as {int})", self.typed(from, d))
            }
            8 => {
                let method = *self.rng.pick(&[
                    "min",
                    "max",
                    "saturating_sub",
                    "saturating_mul",
                    "wrapping_add",
                    "wrapping_mul",
                    "rem_euclid",
                    "div_euclid",
                ]);
                format!("({}).{method}({})", self.typed(int, d), self.number(int, d))
            }
            9 => {
                let method = *self.rng.pick(&["checked_add", "checked_mul", "checked_sub", "checked_rem"]);
                format!("({}).{method}({}).unwrap_or({})", self.typed(int, d), self.number(int, d), self.number(int, 0))
            }
            10 => format!("(if {} {{ {} }} else {{ {} }})", self.bool(d), self.number(int, d), self.number(int, d)),
            11 => format!(
                "(match {} {{ 0 => {}, 1..=3 => {}, x if x % 2 == 0 => x, _ => {} }})",
                self.typed(int, d),
                self.number(int, d),
                self.number(int, d),
                self.number(int, d)
            ),
            12 => {
                let (value, name) = (self.typed(int, d), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.number(int, d);
                self.vars.pop();
                format!("{{ let {name} = {value}; {body} }}")
            }
            13 => format!("({}).pow({})", self.typed(int, d), self.rng.below(4)),
            14 => match int {
                "usize" => format!("{}.len()", self.list(self.vars.first().map_or("i32", |_| "u8"), d)),
                "u32" => format!("({}).count_ones()", self.typed("u8", d)),
                _ => self.typed(int, d),
            },
            15 => {
                let (list, name) = (self.list(int, d), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.typed(int, d);
                self.vars.pop();
                let tail = *self.rng.pick(&[
                    "sum::<T>()",
                    "max().unwrap_or(3)",
                    "min().unwrap_or(4)",
                    "last().unwrap_or_default_()",
                ]);
                let tail = tail.replace('T', int).replace("last().unwrap_or_default_()", "fold(1, |a, b| a ^ b)");
                format!("{list}.into_iter().map(|{name}| {body}).{tail}")
            }
            16 => {
                let list = self.list(int, d);
                let at = self.number("usize", 0);
                format!(
                    "{{ let l = {list}; if l.is_empty() {{ {} }} else {{ l[({at}) % l.len()] }} }}",
                    self.number(int, 0)
                )
            }
            17 => format!("{}.map_or({}, |x| x)", self.option(int, d), self.number(int, d)),
            18 => format!("({} as {int})", self.bool(d)),
            19 => {
                let (a, b) = (self.typed(int, d), self.number(int, d));
                format!("{{ let (a, b) = ({a}, {b}); if a < b {{ a }} else {{ b }} }}")
            }
            20 => format!("apply_{int}(|x: {int}| x / 2, {})", self.number(int, d)),
            _ => self.typed(int, d),
        }
    }

    fn bool(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self
                .var(Ty::Bool)
                .unwrap_or_else(|| (if self.rng.one_in(2) { "true" } else { "false" }).to_owned());
        }
        let (d, int) = (depth - 1, self.int());
        match self.rng.below(8) {
            0..=2 => {
                let op = *self.rng.pick(&["<", "<=", "==", "!=", ">", ">="]);
                format!("({} {op} {})", self.typed(int, d), self.number(int, d))
            }
            3 => format!("(!{} || {} && {})", self.bool(d), self.bool(d), self.bool(d)),
            4 => format!("{}.contains(&{})", self.list(int, d), self.number(int, 0)),
            5 => format!("{}.iter().all(|x| *x < {})", self.list(int, d), self.number(int, 0)),
            6 => format!("matches!({}, Some(x) if x > {})", self.option(int, d), self.number(int, 0)),
            _ => format!("({} ^ {})", self.bool(d), self.bool(d)),
        }
    }

    fn list(&mut self, int: &'static str, depth: usize) -> String {
        let var = self.var(Ty::List(int));
        if depth == 0 {
            return var
                .map_or_else(|| format!("vec![{}{int}, 5, 3]", self.rng.below(9)), |var| format!("{var}.clone()"));
        }
        let d = depth - 1;
        let small = |this: &mut Self| this.rng.below(5);
        match self.rng.below(12) {
            0 => format!("vec![{}; {}]", self.typed(int, d), small(self)),
            1 => format!("vec![{}, {}, {}]", self.typed(int, d), self.number(int, d), self.number(int, d)),
            2 => {
                let (start, count, name) = (small(self), small(self), self.name());
                self.vars.push((name.clone(), Ty::Int(int), false));
                let body = self.typed(int, d);
                self.vars.pop();
                let range = if self.rng.one_in(2) { ".." } else { "..=" };
                let rev = if self.rng.one_in(2) { ".rev()" } else { "" };
                format!("({start}{int}{range}{}){rev}.map(|{name}| {body}).collect::<Vec<{int}>>()", start + count)
            }
            3 => format!("{}.into_iter().filter(|x| x % 2 == 0).collect::<Vec<{int}>>()", self.list(int, d)),
            4 => format!("{}.into_iter().rev().skip({}).collect::<Vec<{int}>>()", self.list(int, d), small(self)),
            5 => format!(
                "{}.into_iter().chain({}).step_by(2).collect::<Vec<{int}>>()",
                self.list(int, d),
                self.list(int, d)
            ),
            6 => format!(
                "{}.iter().zip({}.iter()).map(|(a, b)| a ^ b).take({}).collect::<Vec<{int}>>()",
                self.list(int, d),
                self.list(int, d),
                small(self)
            ),
            7 => format!("{{ let mut l = {}; l.sort(); l.dedup(); l }}", self.list(int, d)),
            8 => format!("{{ let mut l = {}; l.push({}); l.reverse(); l }}", self.list(int, d), self.number(int, d)),
            9 => format!("{}.windows(2).map(|w| w[0].max(w[1])).collect::<Vec<{int}>>()", self.list(int, d)),
            10 => format!(
                "{{ let mut l = {}; for x in l.iter_mut() {{ *x /= 2; }} l.retain(|x| *x != 1); l }}",
                self.list(int, d)
            ),
            _ => format!(
                "{}.iter().enumerate().filter(|(i, _)| i % 2 == 0).map(|(_, x)| *x).collect::<Vec<{int}>>()",
                self.list(int, d)
            ),
        }
    }

    fn option(&mut self, int: &'static str, depth: usize) -> String {
        let var = self.var(Ty::Option(int));
        if depth == 0 {
            return var.unwrap_or_else(|| format!("Some({}{int})", self.rng.below(9)));
        }
        let d = depth - 1;
        match self.rng.below(6) {
            0 => format!("Some({})", self.typed(int, d)),
            1 => format!("{}.iter().copied().find(|x| x % 3 == 1)", self.list(int, d)),
            2 => format!("{}.and_then(|x| x.checked_sub({}))", self.option(int, d), self.number(int, 0)),
            3 => format!("({}).then_some({})", self.bool(d), self.typed(int, d)),
            4 => format!("{}.first().copied().or({})", self.list(int, d), self.option(int, d)),
            _ => format!("{}.filter(|x| *x != {})", self.option(int, d), self.number(int, 0)),
        }
    }

    fn value(&mut self, ty: Ty, depth: usize) -> String {
        match ty {
            Ty::Int(int) => self.number(int, depth),
            Ty::List(int) => self.list(int, depth),
            Ty::Option(int) => self.option(int, depth),
            Ty::Bool => self.bool(depth),
        }
    }

    fn declare(&mut self, depth: usize) {
        let ty = self.ty();
        let (value, name) = (self.value(ty, depth), self.name());
        self.line(&format!("let mut {name}: {} = {value};", ty.text()));
        self.vars.push((name, ty, true));
    }

    fn block(&mut self, depth: usize) {
        let mark = self.vars.len();
        for _ in 0..1 + self.rng.below(3) {
            self.stmt(depth);
        }
        self.vars.truncate(mark);
    }

    fn stmt(&mut self, depth: usize) {
        let int = self.int();
        match self.rng.below(if depth == 0 { 8 } else { 14 }) {
            0 | 1 => self.declare(2),
            2 | 3 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    let op = *self.rng.pick(&["=", "+=", "-=", "*=", "^=", "%=", "|="]);
                    let value = self.number(int, 2);
                    self.line(&format!("{var} {op} {value};"));
                }
            }
            4 => {
                if let Some(var) = self.changing(Ty::List(int)) {
                    let (at, value) = (self.number("usize", 1), self.number(int, 1));
                    let stmt = match self.rng.below(6) {
                        0 => format!("{var}.push({value});"),
                        1 => format!("if !{var}.is_empty() {{ let i = ({at}) % {var}.len(); {var}[i] = {value}; }}"),
                        2 => format!("{var}.swap({}, 0);", self.rng.below(2)),
                        3 => format!("{var}.extend([{value}, 1]);"),
                        4 => format!("{var}.truncate({});", self.rng.below(6)),
                        _ => format!("{{ let y = {value}; if let Some(x) = {var}.last_mut() {{ *x = y; }} }}"),
                    };
                    self.line(&stmt);
                }
            }
            5 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    let outer = self.vars.clone();
                    self.vars.retain(|other| other.0 != var);
                    let value = self.number(int, 1);
                    self.vars = outer;
                    self.line(&format!("{{ let r = &mut {var}; *r ^= {value}; *r = *r / 2 + 1; }}"));
                }
            }
            6 => {
                if let Some(var) = self.changing(Ty::Int(int)) {
                    self.line(&format!("let mut add = |x: {int}| {{ {var} = {var} / 3 + x; {var} }}; add(1); add(2);"));
                }
            }
            7 => {
                // The type of this variable is known only by what comes later.
                let name = self.name();
                let (a, b) = (self.rng.below(9), self.rng.below(9));
                self.line(&format!("let mut {name} = {a}; {name} += {b};"));
                let typed = self.typed(int, 1);
                self.line(&format!("let {name}: {int} = {name} ^ {typed};"));
                self.vars.push((name, Ty::Int(int), false));
            }
            8 => {
                let condition = self.bool(2);
                self.line(&format!("if {condition} {{"));
                self.block(depth - 1);
                self.line("} else {");
                self.block(depth - 1);
                self.line("}");
            }
            9 => {
                let (name, end) = (self.name(), self.rng.below(4));
                self.line(&format!("'l{name}: for {name} in 0{int}..={end} {{"));
                self.vars.push((name.clone(), Ty::Int(int), false));
                self.block(depth - 1);
                let condition = self.bool(1);
                let leave = *self.rng.pick(&["break", "continue"]);
                self.line(&format!("if {condition} {{ {leave} 'l{name}; }}"));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            10 => {
                let (list, name) = (self.list(int, 1), self.name());
                self.line(&format!("for {name} in {list} {{"));
                self.vars.push((name, Ty::Int(int), false));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            11 => {
                let (option, name) = (self.option(int, 2), self.name());
                self.line(&format!("if let Some({name}) = {option} {{"));
                self.vars.push((name, Ty::Int(int), false));
                self.block(depth - 1);
                self.vars.pop();
                self.line("}");
            }
            12 => {
                let (name, start) = (self.name(), self.rng.below(20));
                self.line(&format!("let mut {name}: u8 = {start}; while {name} > 0 {{ {name} /= 2;"));
                self.block(depth - 1);
                self.line("}");
            }
            _ => {
                let name = self.name();
                let condition = self.bool(1);
                self.line(&format!(
                    "let mut {name} = 0u8; loop {{ {name} += 1; if {name} > 3 || {condition} {{ break; }}"
                ));
                self.block(depth - 1);
                self.line("}");
            }
        }
    }
}

/// The text of a random function and its name.
fn function(seed: u64) -> (String, String) {
    let mut writer = Writer { rng: Rng::new(seed), vars: Vec::new(), names: 0, out: String::new() };
    for _ in 0..3 {
        writer.declare(1);
    }
    for _ in 0..6 {
        writer.stmt(2);
    }
    let results: Vec<(String, Ty, bool)> = writer.vars.iter().rev().take(4).cloned().collect();
    let types: Vec<String> = results.iter().map(|result| result.1.text()).collect();
    let values: Vec<String> = results.into_iter().map(|result| result.0).collect();
    let name = format!("f{seed}");
    let text = format!("fn {name}() -> ({},) {{\n{}({},)\n}}\n", types.join(", "), writer.out, values.join(", "));
    (name, text)
}

/// Functions that the random ones call.
fn helpers() -> String {
    INTS.iter()
        .map(|int| format!("fn apply_{int}(f: impl Fn({int}) -> {int}, x: {int}) -> {int} {{ f(f(x)) }}\n"))
        .collect()
}

/// What the functions return, by rustc: `panic` if they do.
fn native(functions: &[(String, String)], first: u64) -> Vec<String> {
    let mut source = String::from("#![allow(warnings, arithmetic_overflow, unconditional_panic)]\n");
    source += &helpers();
    source += "fn main() { std::panic::set_hook(Box::new(|_| {}));\n";
    for (name, _) in functions {
        writeln!(
            source,
            "match std::panic::catch_unwind({name}) {{ Ok(x) => println!(\"{{x:?}}\"), Err(_) => println!(\"panic\") }}"
        )
        .unwrap();
    }
    source += "}\n";
    source.extend(functions.iter().map(|(_, text)| text.as_str()));
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (directory.join(format!("random{first}.rs")), directory.join(format!("random{first}")));
    std::fs::write(&file, &source).expect("the source can be written");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(rustc);
    compile.args(["--edition", "2024", "-C", "overflow-checks=yes", "-C", "debug-assertions=yes", "-o"]);
    let compiled = compile.arg(&program).arg(&file).output().expect("rustc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let run = Command::new(&program).output().expect("the program runs");
    let lines = String::from_utf8_lossy(&run.stdout).lines().map(str::to_owned).collect();
    for path in [file, program] {
        std::fs::remove_file(path).expect("it was just made");
    }
    lines
}

#[test]
fn evaluated_functions_return_what_compiled_ones_do() {
    let (first, count) = (setting("MSCCLPP_SEED", 1), setting("MSCCLPP_RANDOM", 1000));
    let (mut equal, mut panics) = (0, 0);
    for start in (first..first + count).step_by(BATCH as usize) {
        let functions: Vec<_> = (start..(start + BATCH).min(first + count)).map(function).collect();
        let expected = native(&functions, start);
        assert_eq!(expected.len(), functions.len());
        for ((name, text), expected) in functions.iter().zip(expected) {
            match probe::value(&format!("{}{text}", helpers()), name) {
                Ok(found) => {
                    assert_eq!(found, expected, "{text}");
                    equal += 1;
                }
                Err(error) => {
                    let code = error.iter().next().expect("an error is not empty").code;
                    let fault =
                        matches!(code, Code::Overflow | Code::DivisionByZero | Code::NoSuchElement | Code::Panicked);
                    assert!(fault && expected == "panic", "natively {expected}\n{error}\n{text}");
                    panics += 1;
                }
            }
        }
    }
    println!("{count} functions from seed {first}: {equal} equal, {panics} panic both ways");
    assert!(equal > count / 5, "too few of the functions end well: {equal}");
}
