//! Random programs.

use super::super::rng::Rng;
use super::tree::{Cond, Expr, Stmt};

/// Makes random trees.
pub(super) struct Maker {
    rng: Rng,
    numbers: Vec<String>,
    changing: Vec<String>,
    lists: Vec<String>,
    closures: Vec<String>,
    names: usize,
    in_loop: bool,
}

impl Maker {
    pub(super) fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { rng, numbers: vec![], changing: vec![], lists: vec![], closures: vec![], names: 0, in_loop: false }
    }

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

    pub(super) fn block(&mut self, depth: usize, in_loop: bool) -> Vec<Stmt> {
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
