//! Types of blocks, branches and loops, and of code that never ends normally.

use super::Infer;
use super::store::Ty;
use crate::hir::{Arm, Expr, ExprKind, SpanId, Stmt, TyCon};

impl Infer<'_> {
    pub(super) fn control(&mut self, expr: &Expr) -> Ty {
        match &expr.kind {
            ExprKind::Block(stmts, value, label) => self.block(stmts, value.as_deref(), *label),
            ExprKind::If(condition, then, otherwise) => self.if_else(condition, then, otherwise.as_deref()),
            ExprKind::Let(pattern, value) => {
                let ty = self.expr(value);
                self.pattern(pattern, ty);
                self.bool()
            }
            ExprKind::Match(value, arms) => self.match_arms(value, arms),
            ExprKind::Loop(label, body) => {
                let ty = self.store.var();
                self.frame().labels.push((*label, ty, false));
                self.statement(body);
                let broken = self.frame().labels.pop().is_some_and(|(_, _, broken)| broken);
                self.diverges = !broken;
                ty
            }
            ExprKind::While(label, condition, body) => {
                let diverges = self.diverges;
                let (unit, bool) = (self.unit(), self.bool());
                self.frame().labels.push((*label, unit, false));
                self.arg(condition, bool);
                self.statement(body);
                self.frame().labels.pop();
                self.diverges = diverges;
                unit
            }
            ExprKind::For(inner) => {
                let over = self.expr(&inner.over);
                let diverges = self.diverges;
                let item = self.store.var();
                self.each(over, item, inner.over.tok);
                self.pattern(&inner.pattern, item);
                let unit = self.unit();
                self.frame().labels.push((inner.label, unit, false));
                self.statement(&inner.body);
                self.frame().labels.pop();
                self.diverges = diverges;
                unit
            }
            ExprKind::Break(label, value) => {
                let found = match value {
                    Some(value) => self.expr(value),
                    None => self.unit(),
                };
                let target = self.frame().labels.iter_mut().find(|(other, ..)| other == label).map(|target| {
                    target.2 = true;
                    target.1
                });
                if let Some(target) = target {
                    self.unify(found, target, expr.tok);
                }
                self.diverge()
            }
            ExprKind::Return(value) => {
                let output = self.frame().output;
                match value {
                    Some(value) => self.arg(value, output),
                    None => {
                        let unit = self.unit();
                        self.unify(unit, output, expr.tok);
                    }
                }
                self.diverge()
            }
            ExprKind::Try(value) => {
                let found = self.expr(value);
                let found = self.known(found);
                self.question_mark(found, expr.tok)
            }
            // `Continue`, and nothing else.
            _ => self.diverge(),
        }
    }

    /// Returns the type of `a?`, where `a` has the type `found`.
    fn question_mark(&mut self, found: Ty, tok: SpanId) -> Ty {
        let (item, other, output) = (self.store.var(), self.store.var(), self.frame().output);
        if !matches!(self.store.parts(found), Some((TyCon::Result, _))) {
            let (wrapped, outer) = (self.store.con(TyCon::Option, [item]), self.store.con(TyCon::Option, [other]));
            self.unify(found, wrapped, tok);
            self.unify(output, outer, tok);
            return item;
        }
        let (error, converted) = (self.store.var(), self.store.var());
        let wrapped = self.store.con(TyCon::Result, [item, error]);
        self.unify(found, wrapped, tok);
        let outer = self.store.con(TyCon::Result, [other, converted]);
        self.unify(output, outer, tok);
        if !self.store.unify(error, converted) {
            let (from, to) = (self.store.show(error, &self.tree.adts), self.store.show(converted, &self.tree.adts));
            let message =
                format!("`?` converts the error from `{from}` to `{to}`, which is not evaluated at compile time");
            self.refuse(tok, message, "convert it with `map_err` before the `?`");
        }
        item
    }

    /// Returns the type of code that never ends normally: a free variable.
    pub(super) fn diverge(&mut self) -> Ty {
        self.diverges = true;
        self.store.var()
    }

    /// Infers a body of statements whose value is dropped.
    fn statement(&mut self, expr: &Expr) {
        self.expr(expr);
    }

    fn block(&mut self, stmts: &[Stmt], value: Option<&Expr>, label: Option<u32>) -> Ty {
        let outer = std::mem::replace(&mut self.diverges, false);
        let result = self.store.var();
        if let Some(label) = label {
            self.frame().labels.push((label, result, false));
        }
        for stmt in stmts {
            match stmt {
                Stmt::Expr(expr) => self.statement(expr),
                Stmt::Let(stmt) => {
                    let ty = self.store.written(&stmt.ty);
                    if let Some(value) = &stmt.value {
                        self.arg(value, ty);
                    }
                    if let Some(otherwise) = &stmt.otherwise {
                        let diverges = self.diverges;
                        self.expr(otherwise);
                        self.diverges = diverges;
                    }
                    self.pattern(&stmt.pattern, ty);
                }
            }
        }
        let found = match value {
            Some(value) => Some(self.expr(value)),
            None if self.diverges => None,
            None => Some(self.unit()),
        };
        if let Some(found) = found {
            let tok = value.map_or(0, |value| value.tok);
            self.unify(found, result, tok);
        }
        let broken = label.is_some() && self.frame().labels.pop().is_some_and(|(_, _, broken)| broken);
        self.diverges = outer || (self.diverges && !broken);
        result
    }

    fn if_else(&mut self, condition: &Expr, then: &Expr, otherwise: Option<&Expr>) -> Ty {
        let bool = self.bool();
        self.arg(condition, bool);
        let before = self.diverges;
        let result = self.expr(then);
        let after_then = std::mem::replace(&mut self.diverges, before);
        match otherwise {
            Some(otherwise) => {
                let found = self.expr(otherwise);
                self.unify(found, result, otherwise.tok);
                self.diverges = before || (after_then && self.diverges);
                result
            }
            None => self.unit(),
        }
    }

    fn match_arms(&mut self, value: &Expr, arms: &[Arm]) -> Ty {
        let ty = self.expr(value);
        let result = self.store.var();
        let before = self.diverges;
        let mut all = true;
        for arm in arms {
            self.pattern(&arm.pattern, ty);
            if let Some(guard) = &arm.guard {
                let bool = self.bool();
                self.arg(guard, bool);
            }
            self.diverges = before;
            let found = self.expr(&arm.body);
            self.unify(found, result, arm.body.tok);
            all &= self.diverges;
            self.diverges = before;
        }
        self.diverges = before || all;
        result
    }
}
