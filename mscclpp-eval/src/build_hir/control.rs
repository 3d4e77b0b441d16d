//! Blocks, branches, loops and jumps.

use std::sync::Arc;

use super::HirBuilder;
use crate::hir::{Arm, Expr, ExprKind, For, Slot};

impl HirBuilder<'_> {
    pub(super) fn control(&mut self, expr: &syn::Expr) -> Expr {
        match expr {
            syn::Expr::Block(inner) => match &inner.label {
                None => self.block(&inner.block, None),
                Some(label) => {
                    let id = self.open_label(Some(label), false);
                    let block = self.block(&inner.block, Some(id));
                    self.close_label();
                    block
                }
            },
            syn::Expr::Const(inner) => self.block(&inner.block, None),
            syn::Expr::If(inner) => self.if_else(inner),
            syn::Expr::Let(inner) => {
                let value = self.boxed_expression(&inner.expr);
                let pattern = self.pattern(&inner.pat);
                let tok = self.spans.join(pattern.tok, value.tok);
                self.expr(ExprKind::Let(Box::new(pattern), value), tok)
            }
            syn::Expr::Match(inner) => self.match_arms(inner),
            syn::Expr::Loop(inner) => {
                let tok = self.tok(inner.loop_token.span);
                let label = self.open_label(inner.label.as_ref(), true);
                let body = Box::new(self.block(&inner.body, None));
                self.close_label();
                self.expr(ExprKind::Loop(label, body), tok)
            }
            syn::Expr::While(inner) => {
                let tok = self.tok(inner.while_token.span);
                let label = self.open_label(inner.label.as_ref(), true);
                let kind = self.scoped(|this| {
                    let condition = this.boxed_expression(&inner.cond);
                    ExprKind::While(label, condition, Box::new(this.block(&inner.body, None)))
                });
                self.close_label();
                self.expr(kind, tok)
            }
            syn::Expr::ForLoop(inner) => self.for_loop(inner),
            syn::Expr::Break(inner) => {
                let tok = self.tok(inner.break_token.span);
                let value = inner.expr.as_ref().map(|value| self.boxed_expression(value));
                match self.find_label(inner.label.as_ref()) {
                    Some(label) => self.expr(ExprKind::Break(label, value), tok),
                    None => self.type_error(tok, "there is no such loop around this `break`"),
                }
            }
            syn::Expr::Continue(inner) => {
                let tok = self.tok(inner.continue_token.span);
                match self.find_label(inner.label.as_ref()) {
                    Some(label) => self.expr(ExprKind::Continue(label), tok),
                    None => self.type_error(tok, "there is no such loop around this `continue`"),
                }
            }
            syn::Expr::Return(inner) => {
                let tok = self.tok(inner.return_token.span);
                let value = inner.expr.as_ref().map(|value| self.boxed_expression(value));
                self.expr(ExprKind::Return(value), tok)
            }
            syn::Expr::Try(inner) => {
                let value = self.boxed_expression(&inner.expr);
                let last = self.tok(inner.question_token.span);
                let tok = self.spans.join(value.tok, last);
                self.expr(ExprKind::Try(value), tok)
            }
            other => self.unsupported(other),
        }
    }
    fn if_else(&mut self, expr: &syn::ExprIf) -> Expr {
        let tok = self.tok(expr.if_token.span);
        let (condition, then) = self.scoped(|this| {
            let condition = this.boxed_expression(&expr.cond);
            (condition, Box::new(this.block(&expr.then_branch, None)))
        });
        let otherwise = expr.else_branch.as_ref().map(|(_, branch)| self.boxed_expression(branch));
        self.expr(ExprKind::If(condition, then, otherwise), tok)
    }

    fn match_arms(&mut self, expr: &syn::ExprMatch) -> Expr {
        let tok = self.tok(expr.match_token.span);
        let value = self.boxed_expression(&expr.expr);
        let mut arms = Vec::with_capacity(expr.arms.len());
        for arm in &expr.arms {
            self.attributes(&arm.attrs);
            let arm = self.scoped(|this| {
                let (pattern, guard) = match &arm.pat {
                    syn::Pat::Guard(guarded) => (&*guarded.pat, Some(&*guarded.guard)),
                    pattern => (pattern, None),
                };
                let pattern = this.pattern(pattern);
                let guard = guard.map(|guard| this.expression(guard));
                Arm { pattern, guard, body: this.expression(&arm.body) }
            });
            arms.push(arm);
        }
        self.expr(ExprKind::Match(value, arms), tok)
    }

    fn for_loop(&mut self, expr: &syn::ExprForLoop) -> Expr {
        let tok = self.tok(expr.for_token.span);
        let over = self.expression(&expr.expr);
        let label = self.open_label(expr.label.as_ref(), true);
        let (pattern, variables, body) = self.scoped(|this| {
            let depth = this.frame().vars.len();
            let pattern = this.pattern(&expr.pat);
            let variables = this.frame().vars[depth..].iter().map(|(name, slot)| (Arc::from(name.as_str()), *slot));
            let variables: Vec<(Arc<str>, Slot)> = variables.collect();
            (pattern, variables, this.block(&expr.body, None))
        });
        self.close_label();
        self.expr(ExprKind::For(Box::new(For { label, pattern, over, body, variables })), tok)
    }
}
