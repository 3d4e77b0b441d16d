//! Programs interpreted, by calls of the API itself.

use std::collections::BTreeMap;

use mscclpp_core::diag::Code;
use mscclpp_core::dsl::{Channel, ChannelMarker, Channels, Program, SyncCall};
use mscclpp_core::types::{BlockSync, ReduceOp};

use super::tree::{Cond, Expr, Stmt};

/// Why interpretation stops.
#[derive(Debug, PartialEq)]
pub(super) enum Stop {
    Break,
    Continue,
    Failed(Code),
}

pub(super) type Run<T> = Result<T, Stop>;

/// Interprets a tree on the native API.
pub(super) struct Native<'p> {
    p: &'p Program,
    numbers: BTreeMap<String, usize>,
    lists: BTreeMap<String, Vec<usize>>,
    closures: BTreeMap<String, (String, Expr)>,
}

const OVERFLOW: Stop = Stop::Failed(Code::Overflow);

impl<'p> Native<'p> {
    pub(super) fn new(p: &'p Program) -> Self {
        Self { p, numbers: BTreeMap::new(), lists: BTreeMap::new(), closures: BTreeMap::new() }
    }

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

    pub(super) fn block(&mut self, stmts: &[Stmt]) -> Run<()> {
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
                let others: Vec<_> = others.iter().map(|chunk| chunk.to_any()).collect();
                rank.reduce(to.to_any(), &others, self.expr(block)?).op(ReduceOp::Max);
            }
            Stmt::Channel(memory, [from, to, dst, src, block, kind]) => {
                let (a, b) = (p.rank(self.expr(from)?), p.rank(self.expr(to)?));
                if *memory {
                    let channel = a.memory_channel(b);
                    let (dst, src) = (b.output().chunk(self.expr(dst)?), a.input().chunk(self.expr(src)?));
                    channel.put(dst, src, self.expr(block)?);
                    let kind = self.expr(kind)?;
                    sync(channel, kind, SyncCall::relaxed);
                    match kind {
                        3 => drop(channel.handshake(0).relaxed()),
                        4 => drop(a.memory_channels([b, channel.peer()]).handshake(1).sync(BlockSync::After)),
                        5 => drop([channel, b.memory_channel(a)].handshake(0)),
                        _ => {}
                    }
                } else {
                    let channel = a.port_channel(b);
                    let (dst, src) = (b.output().chunk(self.expr(dst)?), a.input().chunk(self.expr(src)?));
                    channel.put(dst, src, self.expr(block)?);
                    let kind = self.expr(kind)?;
                    sync(channel, kind, |call| call);
                    match kind {
                        3 => drop(channel.handshake(0)),
                        4 => drop(a.port_channels([b, channel.peer()]).handshake(1).sync(BlockSync::After)),
                        5 => drop([channel, b.port_channel(a)].handshake(0)),
                        _ => {}
                    }
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
        1 | 2 => drop(channel.wait(1).sync(BlockSync::Both)),
        _ => {}
    }
}
