//! Programs of the authoring API. A tree is written out as Rust text, which is evaluated, and interpreted here, calling the
//! API directly. Traces must be equal, or else what went wrong.

use std::collections::BTreeMap;
use std::fmt::Write;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::diag::{Code, Diagnostics};
use mscclpp_core::dsl::{Channel, ChannelMarker, Program, SyncCall};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::vocab::Sync;
use mscclpp_eval::probe;

use crate::rng::Rng;
use crate::setting;

/// An integer expression; all are `usize`.
#[derive(Clone, Debug)]
enum Expr {
    Number(usize),
    Ranks,
    Var(String),
    Binary(char, Box<Expr>, Box<Expr>),
    /// `helper(a, b)`
    Helper(Box<Expr>, Box<Expr>),
    /// A call of a closure in scope.
    Closure(String, Box<Expr>),
    /// `(0..n).map(|x| a).sum::<usize>()`
    Sum(Box<Expr>, String, Box<Expr>),
    /// `list[a % list.len()]`, which fails on an empty list
    Index(String, Box<Expr>),
    If(Box<Cond>, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
enum Cond {
    Less(Expr, Expr),
    Equal(Expr, Expr),
    Not(Box<Cond>),
    Both(Box<Cond>, Box<Cond>),
    Either(Box<Cond>, Box<Cond>),
    /// `(0..n).any(|x| a % 3 == 1)`
    Any(Expr, String, Box<Expr>),
}

#[derive(Clone, Debug)]
enum Stmt {
    Let(String, Expr),
    Add(String, Expr),
    /// `let name = |x: usize| a;`
    Closure(String, String, Expr),
    /// `let name: Vec<usize> = (a..b).map(|x| c).filter(|x| d).collect();`
    List(String, Expr, Expr, String, Expr, Expr),
    Push(String, Expr),
    For(String, Expr, Expr, Vec<Stmt>),
    /// `for x in p.ranks().filter(|x| x.id() != a).rev()`, the number bound to the name
    Ranks(String, Expr, bool, Vec<Stmt>),
    /// `for (i, &x) in list.iter().enumerate()`
    Over(String, String, String, Vec<Stmt>),
    While(String, Expr, Vec<Stmt>),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// `if a { break; }` and `if a { continue; }`
    Leave(Cond, bool),
    Copy([Expr; 4]),
    Reduce([Expr; 5]),
    Channel(bool, [Expr; 6]),
    Barrier(Expr, Expr),
    Scratch([Expr; 4]),
}

/// Makes random trees.
struct Maker {
    rng: Rng,
    numbers: Vec<String>,
    changing: Vec<String>,
    lists: Vec<String>,
    closures: Vec<String>,
    names: usize,
    in_loop: bool,
}

impl Maker {
    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn expr(&mut self, depth: usize) -> Expr {
        let leaf = depth == 0;
        match self.rng.below(if leaf { 4 } else { 14 }) {
            0 => Expr::Number(self.rng.below(5)),
            1 => Expr::Ranks,
            2 | 3 if !self.numbers.is_empty() => Expr::Var(self.rng.pick(&self.numbers).clone()),
            2..=4 => Expr::Number(self.rng.below(9)),
            5..=8 => {
                let op = *self.rng.pick(&['+', '+', '+', '*', '*', '%', '%', '/', '/', '^', '&', '|', '-']);
                let right = match op {
                    // Some programs shall divide by zero, but not all.
                    '%' | '/' if !self.rng.one_in(12) => Expr::Number(1 + self.rng.below(4)),
                    '-' if !self.rng.one_in(6) => Expr::Number(0),
                    _ => self.expr(depth - 1),
                };
                Expr::Binary(op, Box::new(self.expr(depth - 1)), Box::new(right))
            }
            9 => Expr::Helper(Box::new(self.expr(depth - 1)), Box::new(self.expr(depth - 1))),
            10 if !self.closures.is_empty() => {
                let name = self.rng.pick(&self.closures).clone();
                Expr::Closure(name, Box::new(self.expr(depth - 1)))
            }
            11 => {
                let (count, name) = (self.small(depth - 1), self.name("s"));
                let body = self.with(&name, |this| this.expr(depth - 1));
                Expr::Sum(Box::new(count), name, Box::new(body))
            }
            12 if !self.lists.is_empty() && self.rng.one_in(3) => {
                let name = self.rng.pick(&self.lists).clone();
                Expr::Index(name, Box::new(self.expr(depth - 1)))
            }
            _ => {
                Expr::If(Box::new(self.cond(depth - 1)), Box::new(self.expr(depth - 1)), Box::new(self.expr(depth - 1)))
            }
        }
    }

    /// A number that loops can count to.
    fn small(&mut self, depth: usize) -> Expr {
        Expr::Binary('%', Box::new(self.expr(depth)), Box::new(Expr::Number(2 + self.rng.below(3))))
    }

    /// The same, most of the time not 0.
    fn positive(&mut self) -> Expr {
        let small = self.small(1);
        if self.rng.one_in(12) { small } else { Expr::Binary('+', Box::new(small), Box::new(Expr::Number(1))) }
    }

    /// A rank, most of the time one that exists.
    fn rank(&mut self) -> Expr {
        let rank = self.expr(1);
        if self.rng.one_in(30) { rank } else { Expr::Binary('%', Box::new(rank), Box::new(Expr::Ranks)) }
    }

    fn with<T>(&mut self, name: &str, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.numbers.push(name.to_owned());
        let result = inner(self);
        self.numbers.pop();
        result
    }

    fn cond(&mut self, depth: usize) -> Cond {
        match self.rng.below(if depth == 0 { 2 } else { 6 }) {
            0 => Cond::Less(self.expr(depth), self.expr(depth)),
            1 => Cond::Equal(self.expr(depth), self.expr(depth)),
            2 => Cond::Not(Box::new(self.cond(depth - 1))),
            3 => Cond::Both(Box::new(self.cond(depth - 1)), Box::new(self.cond(depth - 1))),
            4 => Cond::Either(Box::new(self.cond(depth - 1)), Box::new(self.cond(depth - 1))),
            _ => {
                let (count, name) = (self.small(0), self.name("a"));
                let body = self.with(&name, |this| this.expr(depth - 1));
                Cond::Any(count, name, Box::new(body))
            }
        }
    }

    fn block(&mut self, depth: usize, in_loop: bool) -> Vec<Stmt> {
        let marks = (self.numbers.len(), self.changing.len(), self.lists.len(), self.closures.len());
        let outer = std::mem::replace(&mut self.in_loop, in_loop);
        let count = 1 + self.rng.below(5);
        let stmts = (0..count).map(|_| self.stmt(depth)).collect();
        self.numbers.truncate(marks.0);
        self.changing.truncate(marks.1);
        self.lists.truncate(marks.2);
        self.closures.truncate(marks.3);
        self.in_loop = outer;
        stmts
    }

    fn stmt(&mut self, depth: usize) -> Stmt {
        let kind = self.rng.below(if depth == 0 { 12 } else { 18 });
        match kind {
            0 => {
                let (value, name) = (self.expr(2), self.name("n"));
                self.numbers.push(name.clone());
                self.changing.push(name.clone());
                Stmt::Let(name, value)
            }
            1 if !self.changing.is_empty() => Stmt::Add(self.rng.pick(&self.changing).clone(), self.expr(2)),
            2 => {
                // A closure must not borrow what changes while it lives, so it sees its parameter only.
                let (name, param) = (self.name("f"), self.name("x"));
                let hidden = (std::mem::take(&mut self.numbers), std::mem::take(&mut self.lists));
                let closures = std::mem::take(&mut self.closures);
                let body = self.with(&param, |this| this.expr(2));
                (self.numbers, self.lists) = hidden;
                self.closures = closures;
                self.closures.push(name.clone());
                Stmt::Closure(name, param, body)
            }
            3 => {
                let (start, end, name, param) = (self.small(1), self.small(1), self.name("v"), self.name("x"));
                let (item, keep) = self.with(&param, |this| (this.expr(1), this.expr(1)));
                self.lists.push(name.clone());
                Stmt::List(name, start, end, param, item, keep)
            }
            4 if !self.lists.is_empty() => Stmt::Push(self.rng.pick(&self.lists).clone(), self.expr(1)),
            5 if self.in_loop => Stmt::Leave(self.cond(1), self.rng.one_in(2)),
            6 => Stmt::Copy([self.rank(), self.small(1), self.small(1), self.small(0)]),
            7 => Stmt::Reduce([self.rank(), self.small(1), self.small(0), self.positive(), self.small(0)]),
            8 | 9 => Stmt::Channel(
                self.rng.one_in(2),
                [self.rank(), self.rank(), self.small(1), self.small(1), self.small(0), self.small(0)],
            ),
            10 => Stmt::Barrier(self.rank(), self.positive()),
            11 => Stmt::Scratch([self.rank(), self.small(1), self.small(1), self.small(0)]),
            12 | 13 => {
                let (start, end, name) = (self.small(1), self.small(1), self.name("i"));
                let body = self.with(&name, |this| this.block(depth - 1, true));
                Stmt::For(name, start, end, body)
            }
            14 => {
                let (without, name) = (self.rank(), self.name("r"));
                let body = self.with(&name, |this| this.block(depth - 1, true));
                Stmt::Ranks(name, without, self.rng.one_in(2), body)
            }
            15 if !self.lists.is_empty() => {
                // The list is borrowed while the loop runs, so nothing in it may push.
                let (index, item) = (self.name("i"), self.name("x"));
                let at = self.rng.below(self.lists.len());
                let list = self.lists.remove(at);
                let body = self.with(&index, |this| this.with(&item, |this| this.block(depth - 1, true)));
                self.lists.insert(at, list.clone());
                Stmt::Over(index, item, list, body)
            }
            16 => {
                let (start, name) = (self.small(1), self.name("w"));
                let body = self.with(&name, |this| this.block(depth - 1, false));
                Stmt::While(name, start, body)
            }
            _ if depth > 0 => {
                Stmt::If(self.cond(2), self.block(depth - 1, self.in_loop), self.block(depth - 1, self.in_loop))
            }
            _ => Stmt::Copy([self.rank(), self.small(1), self.small(1), self.small(0)]),
        }
    }
}

/// Writes a tree as Rust.
fn expr_text(expr: &Expr) -> String {
    match expr {
        // With its type: `3 - 4` alone would be an `i32`, and -1.
        Expr::Number(number) => format!("{number}usize"),
        Expr::Ranks => "p.num_ranks()".to_owned(),
        Expr::Var(name) => name.clone(),
        Expr::Binary(op, a, b) => format!("({} {op} {})", expr_text(a), expr_text(b)),
        Expr::Helper(a, b) => format!("helper({}, {})", expr_text(a), expr_text(b)),
        Expr::Closure(name, a) => format!("{name}({})", expr_text(a)),
        Expr::Sum(count, name, body) => {
            format!("(0..{}).map(|{name}| {}).sum::<usize>()", expr_text(count), expr_text(body))
        }
        Expr::Index(list, at) => format!("{list}[{} % {list}.len()]", expr_text(at)),
        Expr::If(cond, a, b) => format!("(if {} {{ {} }} else {{ {} }})", cond_text(cond), expr_text(a), expr_text(b)),
    }
}

fn cond_text(cond: &Cond) -> String {
    match cond {
        Cond::Less(a, b) => format!("({} < {})", expr_text(a), expr_text(b)),
        Cond::Equal(a, b) => format!("({} == {})", expr_text(a), expr_text(b)),
        Cond::Not(a) => format!("!{}", cond_text(a)),
        Cond::Both(a, b) => format!("({} && {})", cond_text(a), cond_text(b)),
        Cond::Either(a, b) => format!("({} || {})", cond_text(a), cond_text(b)),
        Cond::Any(count, name, body) => format!("(0..{}).any(|{name}| {} % 3 == 1)", expr_text(count), expr_text(body)),
    }
}

fn block_text(stmts: &[Stmt], out: &mut String) {
    out.push_str("{\n");
    for stmt in stmts {
        stmt_text(stmt, out);
    }
    out.push_str("}\n");
}

fn stmt_text(stmt: &Stmt, out: &mut String) {
    let e = expr_text;
    match stmt {
        Stmt::Let(name, value) => writeln!(out, "let mut {name} = {};", e(value)).unwrap(),
        Stmt::Add(name, value) => writeln!(out, "{name} += {};", e(value)).unwrap(),
        Stmt::Closure(name, param, body) => writeln!(out, "let {name} = |{param}: usize| {};", e(body)).unwrap(),
        Stmt::List(name, start, end, param, item, keep) => writeln!(
            out,
            "let mut {name}: Vec<usize> = ({}..{}).map(|{param}| {}).filter(|&{param}| ({}) % 2 == 0).collect();",
            e(start),
            e(end),
            e(item),
            e(keep)
        )
        .unwrap(),
        Stmt::Push(list, value) => writeln!(out, "{list}.push({});", e(value)).unwrap(),
        Stmt::For(name, start, end, body) => {
            write!(out, "for {name} in {}..={} ", e(start), e(end)).unwrap();
            block_text(body, out);
        }
        Stmt::Ranks(name, without, back, body) => {
            let rev = if *back { ".rev()" } else { "" };
            write!(out, "for {name} in p.ranks().filter(|r| r.id() != {}){rev}.map(|r| r.id()) ", e(without)).unwrap();
            block_text(body, out);
        }
        Stmt::Over(index, item, list, body) => {
            write!(out, "for ({index}, &{item}) in {list}.iter().enumerate() ").unwrap();
            block_text(body, out);
        }
        Stmt::While(name, start, body) => {
            writeln!(out, "let mut {name} = {};\nwhile {name} > 0 {{\n{name} /= 2;", e(start)).unwrap();
            block_text(body, out);
            out.push_str("}\n");
        }
        Stmt::If(cond, then, otherwise) => {
            write!(out, "if {} ", cond_text(cond)).unwrap();
            block_text(then, out);
            out.push_str("else ");
            block_text(otherwise, out);
        }
        Stmt::Leave(cond, leave) => {
            writeln!(out, "if {} {{ {}; }}", cond_text(cond), if *leave { "break" } else { "continue" }).unwrap();
        }
        Stmt::Copy([rank, to, from, block]) => writeln!(
            out,
            "let r = p.rank({}); r.copy(r.output().chunk({}), r.input().chunk({}), {});",
            e(rank),
            e(to),
            e(from),
            e(block)
        )
        .unwrap(),
        Stmt::Reduce([rank, to, first, count, block]) => writeln!(
            out,
            "let r = p.rank({}); let o: Vec<_> = (0..{}).map(|k| r.input().chunk({} + k)).collect(); \
             r.reduce(r.output().chunk({}), &o, {}).with(ReduceOp::Max);",
            e(rank),
            e(count),
            e(first),
            e(to),
            e(block)
        )
        .unwrap(),
        Stmt::Channel(memory, [from, to, dst, src, block, kind]) => {
            let (channel, relaxed) = if *memory { ("memory", ".relaxed()") } else { ("port", "") };
            writeln!(
                out,
                "let (a, b) = (p.rank({}), p.rank({})); let c = a.{channel}_channel(b); \
                 c.put(b.output().chunk({}), a.input().chunk({}), {}); \
                 match {} {{ 0 => {{ c.signal(0){relaxed}; }} 1 | 2 => {{ c.wait(1).sync(Sync::Both); }} _ => {{}} }}",
                e(from),
                e(to),
                e(dst),
                e(src),
                e(block),
                e(kind)
            )
            .unwrap();
        }
        Stmt::Barrier(rank, count) => writeln!(out, "p.rank({}).barrier(0..{});", e(rank), e(count)).unwrap(),
        Stmt::Scratch([rank, size, from, block]) => writeln!(
            out,
            "let r = p.rank({}); let s = r.scratch({} + 1); let g = p.thread_block_group([{}, 7]); \
             r.copy(s.chunk(0), r.input().chunk({}), &g);",
            e(rank),
            e(size),
            e(block),
            e(from)
        )
        .unwrap(),
    }
}

/// Why interpretation stops.
#[derive(Debug, PartialEq)]
enum Stop {
    Break,
    Continue,
    Failed(Code),
}

type Run<T> = Result<T, Stop>;

/// Interprets a tree on the native API.
struct Native<'p> {
    p: &'p Program,
    numbers: BTreeMap<String, usize>,
    lists: BTreeMap<String, Vec<usize>>,
    closures: BTreeMap<String, (String, Expr)>,
}

const OVERFLOW: Stop = Stop::Failed(Code::Overflow);

impl Native<'_> {
    fn expr(&mut self, expr: &Expr) -> Run<usize> {
        Ok(match expr {
            Expr::Number(number) => *number,
            Expr::Ranks => self.p.num_ranks(),
            Expr::Var(name) => self.numbers[name],
            Expr::Binary(op, a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                match op {
                    '+' => a.checked_add(b).ok_or(OVERFLOW)?,
                    '-' => a.checked_sub(b).ok_or(OVERFLOW)?,
                    '*' => a.checked_mul(b).ok_or(OVERFLOW)?,
                    '%' => a.checked_rem(b).ok_or(Stop::Failed(Code::DivisionByZero))?,
                    '/' => a.checked_div(b).ok_or(Stop::Failed(Code::DivisionByZero))?,
                    '^' => a ^ b,
                    '&' => a & b,
                    _ => a | b,
                }
            }
            Expr::Helper(a, b) => {
                let (a, b) = (self.expr(a)?, self.expr(b)?);
                if a < b { b - a } else { a.min(9) }
            }
            Expr::Closure(name, a) => {
                let arg = self.expr(a)?;
                let (param, body) = self.closures[name].clone();
                self.bound(&param, arg, |this| this.expr(&body))?
            }
            Expr::Sum(count, name, body) => {
                let mut sum = 0_usize;
                for x in 0..self.expr(count)? {
                    sum = sum.checked_add(self.bound(name, x, |this| this.expr(body))?).ok_or(OVERFLOW)?;
                }
                sum
            }
            Expr::Index(list, at) => {
                let (at, list) = (self.expr(at)?, &self.lists[list]);
                let index = at.checked_rem(list.len()).ok_or(Stop::Failed(Code::DivisionByZero))?;
                list[index]
            }
            Expr::If(cond, a, b) => {
                if self.cond(cond)? {
                    self.expr(a)?
                } else {
                    self.expr(b)?
                }
            }
        })
    }

    fn bound<T>(&mut self, name: &str, value: usize, inner: impl FnOnce(&mut Self) -> Run<T>) -> Run<T> {
        self.numbers.insert(name.to_owned(), value);
        inner(self)
    }

    fn cond(&mut self, cond: &Cond) -> Run<bool> {
        Ok(match cond {
            Cond::Less(a, b) => self.expr(a)? < self.expr(b)?,
            Cond::Equal(a, b) => self.expr(a)? == self.expr(b)?,
            Cond::Not(a) => !self.cond(a)?,
            Cond::Both(a, b) => self.cond(a)? && self.cond(b)?,
            Cond::Either(a, b) => self.cond(a)? || self.cond(b)?,
            Cond::Any(count, name, body) => {
                for x in 0..self.expr(count)? {
                    if self.bound(name, x, |this| this.expr(body))? % 3 == 1 {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }

    fn block(&mut self, stmts: &[Stmt]) -> Run<()> {
        stmts.iter().try_for_each(|stmt| self.stmt(stmt))
    }

    /// Runs a loop's body; whether the loop goes on.
    fn iteration(&mut self, body: &[Stmt]) -> Run<bool> {
        match self.block(body) {
            Err(Stop::Break) => Ok(false),
            Err(Stop::Continue) | Ok(()) => Ok(true),
            Err(stop) => Err(stop),
        }
    }

    fn stmt(&mut self, stmt: &Stmt) -> Run<()> {
        match stmt {
            Stmt::Let(name, value) => {
                let value = self.expr(value)?;
                self.numbers.insert(name.clone(), value);
            }
            Stmt::Add(name, value) => {
                let value = self.expr(value)?;
                let sum = self.numbers[name].checked_add(value).ok_or(OVERFLOW)?;
                self.numbers.insert(name.clone(), sum);
            }
            Stmt::Closure(name, param, body) => {
                self.closures.insert(name.clone(), (param.clone(), body.clone()));
            }
            Stmt::List(name, start, end, param, item, keep) => {
                let mut list = Vec::new();
                for x in self.expr(start)?..self.expr(end)? {
                    let item = self.bound(param, x, |this| this.expr(item))?;
                    if self.bound(param, item, |this| this.expr(keep))? % 2 == 0 {
                        list.push(item);
                    }
                }
                self.lists.insert(name.clone(), list);
            }
            Stmt::Push(list, value) => {
                let value = self.expr(value)?;
                self.lists.get_mut(list).expect("it is in scope").push(value);
            }
            Stmt::For(name, start, end, body) => {
                for x in self.expr(start)?..=self.expr(end)? {
                    if !self.bound(name, x, |this| this.iteration(body))? {
                        break;
                    }
                }
            }
            Stmt::Ranks(name, without, back, body) => {
                let count = self.p.num_ranks();
                let all: Vec<usize> = if *back { (0..count).rev().collect() } else { (0..count).collect() };
                for id in all {
                    // The filter is lazy: it sees what the body has changed.
                    if id != self.expr(without)? && !self.bound(name, id, |this| this.iteration(body))? {
                        break;
                    }
                }
            }
            Stmt::Over(index, item, list, body) => {
                for (i, x) in self.lists[list].clone().into_iter().enumerate() {
                    self.numbers.insert(index.clone(), i);
                    if !self.bound(item, x, |this| this.iteration(body))? {
                        break;
                    }
                }
            }
            Stmt::While(name, start, body) => {
                let start = self.expr(start)?;
                self.numbers.insert(name.clone(), start);
                while self.numbers[name] > 0 {
                    *self.numbers.get_mut(name).expect("it is in scope") /= 2;
                    self.block(body)?;
                }
            }
            Stmt::If(cond, then, otherwise) => {
                let branch = if self.cond(cond)? { then } else { otherwise };
                self.block(branch)?;
            }
            Stmt::Leave(cond, leave) => {
                if self.cond(cond)? {
                    return Err(if *leave { Stop::Break } else { Stop::Continue });
                }
            }
            op => self.operation(op)?,
        }
        Ok(())
    }

    fn operation(&mut self, stmt: &Stmt) -> Run<()> {
        let p = self.p;
        match stmt {
            Stmt::Copy([rank, to, from, block]) => {
                let rank = p.rank(self.expr(rank)?);
                let (to, from) = (rank.output().chunk(self.expr(to)?), rank.input().chunk(self.expr(from)?));
                rank.copy(to, from, self.expr(block)?);
            }
            Stmt::Reduce([rank, to, first, count, block]) => {
                let rank = p.rank(self.expr(rank)?);
                let mut others = Vec::new();
                for k in 0..self.expr(count)? {
                    let first = self.expr(first)?;
                    others.push(rank.input().chunk(first.checked_add(k).ok_or(OVERFLOW)?));
                }
                let to = rank.output().chunk(self.expr(to)?);
                let others: Vec<_> = others.iter().map(|chunk| chunk.any()).collect();
                rank.reduce(to.any(), &others, self.expr(block)?).with(mscclpp_core::vocab::ReduceOp::Max);
            }
            Stmt::Channel(memory, [from, to, dst, src, block, kind]) => {
                let (a, b) = (p.rank(self.expr(from)?), p.rank(self.expr(to)?));
                if *memory {
                    let channel = a.memory_channel(b);
                    let (dst, src) = (b.output().chunk(self.expr(dst)?), a.input().chunk(self.expr(src)?));
                    channel.put(dst, src, self.expr(block)?);
                    let kind = self.expr(kind)?;
                    sync(channel, kind, SyncCall::relaxed);
                } else {
                    let channel = a.port_channel(b);
                    let (dst, src) = (b.output().chunk(self.expr(dst)?), a.input().chunk(self.expr(src)?));
                    channel.put(dst, src, self.expr(block)?);
                    let kind = self.expr(kind)?;
                    sync(channel, kind, |call| call);
                }
            }
            Stmt::Barrier(rank, count) => {
                let rank = p.rank(self.expr(rank)?);
                rank.barrier(0..self.expr(count)?);
            }
            Stmt::Scratch([rank, size, from, block]) => {
                let rank = p.rank(self.expr(rank)?);
                let scratch = rank.scratch(self.expr(size)?.checked_add(1).ok_or(OVERFLOW)?);
                let group = p.thread_block_group([self.expr(block)?, 7]);
                let to = scratch.chunk(0);
                rank.copy(to, rank.input().chunk(self.expr(from)?), &group);
            }
            other => unreachable!("{other:?} is no operation"),
        }
        Ok(())
    }
}

fn sync<'p, K: ChannelMarker>(
    channel: Channel<'p, K>,
    kind: usize,
    relax: impl FnOnce(SyncCall<'p, K>) -> SyncCall<'p, K>,
) {
    match kind {
        0 => drop(relax(channel.signal(0))),
        1 | 2 => drop(channel.wait(1).sync(Sync::Both)),
        _ => {}
    }
}

/// What came of a program: its trace, or what was wrong with it. Places differ: here all calls are in one file, and the
/// same mistake in the same place is filed once.
fn outcome(result: Result<Trace, Diagnostics>) -> Result<Trace, Vec<String>> {
    result.map_err(|errors| {
        let mut messages: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
        let mut seen = std::collections::BTreeSet::new();
        messages.retain(|message| seen.insert(message.clone()));
        messages
    })
}

#[test]
fn evaluated_programs_record_what_native_ones_do() {
    let (first, count) = (setting("MSCCLPP_SEED", 1), setting("MSCCLPP_RANDOM", 1000));
    let (mut recorded, mut wrong, mut stopped, mut operations) = (0, 0, 0, 0);
    for seed in first..first + count {
        let rng = Rng::new(seed);
        let mut maker =
            Maker { rng, numbers: vec![], changing: vec![], lists: vec![], closures: vec![], names: 0, in_loop: false };
        let stmts = maker.block(3, false);
        let mut text = String::from(
            "fn helper(a: usize, b: usize) -> usize { if a < b { b - a } else { a.min(9) } }\nfn program(p: &Program) ",
        );
        block_text(&stmts, &mut text);

        let mut spec = AlgoSpec::new("random", CollectiveKind::AllReduce, 2 + (seed % 4) as u32);
        spec.collective.chunk_factor = 4;
        let program = Program::new(spec.clone());
        let mut native =
            Native { p: &program, numbers: BTreeMap::new(), lists: BTreeMap::new(), closures: BTreeMap::new() };
        let run = native.block(&stmts);
        let expected = outcome(program.finish());
        let found = probe::trace(&text, "program", spec, &[]);
        match run {
            Err(Stop::Failed(code)) => {
                let Err(error) = found else { panic!("seed {seed}: {code:?} natively\n{text}") };
                let last = error.iter().last().expect("an error is not empty");
                assert_eq!(last.code, code, "seed {seed}\n{text}\n{error}");
                stopped += 1;
            }
            other => {
                assert_eq!(other, Ok(()), "seed {seed}");
                let found = outcome(found);
                match (&found, &expected) {
                    (Ok(found), Ok(expected)) => {
                        assert!(found == expected, "seed {seed}\n{text}");
                        recorded += 1;
                        operations += found.ops.len();
                    }
                    _ => {
                        assert_eq!(found.err(), expected.err(), "seed {seed}\n{text}");
                        wrong += 1;
                    }
                }
            }
        }
    }
    println!(
        "{count} programs from seed {first}: {recorded} recorded ({operations} operations), {wrong} wrong, {stopped} stopped"
    );
    assert!(recorded > count / 10 && wrong > count / 20 && stopped > count / 20, "{recorded}, {wrong}, {stopped}");
}
