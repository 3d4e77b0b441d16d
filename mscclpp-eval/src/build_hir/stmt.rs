//! Blocks and statements.

use super::HirBuilder;
use crate::hir::{Expr, ExprKind, LabelId, Let, Stmt, TypeExpr};

impl HirBuilder<'_> {
    /// Lowers a block, with the label for breaks out of it.
    pub(super) fn block(&mut self, block: &syn::Block, label: Option<LabelId>) -> Expr {
        let tok = self.spans.pair(block.brace_token.span.open(), block.brace_token.span.close());
        let outer = self.scope;
        let items = block.stmts.iter().filter_map(|stmt| match stmt {
            syn::Stmt::Item(item) => Some(item),
            _ => None,
        });
        if items.clone().next().is_some() {
            self.scope = self.block_scope(items);
        }
        let (stmts, value) = self.scoped(|this| this.statements(&block.stmts));
        self.scope = outer;
        self.expr(ExprKind::Block(stmts, value, label), tok)
    }

    fn statements(&mut self, list: &[syn::Stmt]) -> (Vec<Stmt>, Option<Box<Expr>>) {
        let mut stmts = Vec::with_capacity(list.len());
        for (index, stmt) in list.iter().enumerate() {
            match stmt {
                syn::Stmt::Item(_) => {}
                syn::Stmt::Local(local) => {
                    let stmt = self.local(local);
                    stmts.push(stmt);
                }
                syn::Stmt::Expr(expr, None) if index + 1 == list.len() => {
                    return (stmts, Some(Box::new(self.expression(expr))));
                }
                syn::Stmt::Expr(expr, _) => stmts.push(Stmt::Expr(self.expression(expr))),
                syn::Stmt::Macro(mac) => {
                    self.attributes(&mac.attrs);
                    let value = self.macro_call(&mac.mac);
                    if mac.semi_token.is_none() && index + 1 == list.len() {
                        return (stmts, Some(Box::new(value)));
                    }
                    stmts.push(Stmt::Expr(value));
                }
            }
        }
        (stmts, None)
    }

    fn local(&mut self, local: &syn::Local) -> Stmt {
        self.attributes(&local.attrs);
        let ty = match &local.pat {
            syn::Pat::Type(typed) => self.ty(&typed.ty),
            _ => TypeExpr::Infer,
        };
        // The value and the `else` block do not see the variables of the pattern.
        let value = local.init.as_ref().map(|init| self.expression(&init.expr));
        let otherwise = local.init.as_ref().and_then(|init| init.diverge.as_ref());
        let otherwise = otherwise.map(|(_, block)| self.expression(block));
        let pattern = self.pattern(&local.pat);
        Stmt::Let(Box::new(Let { pattern, ty, value, otherwise }))
    }
}
