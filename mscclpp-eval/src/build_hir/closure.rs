//! Closures.

use super::HirBuilder;
use super::scope::Frame;
use crate::hir::{Closure, Expr, ExprKind, TypeExpr, Var};

impl HirBuilder<'_> {
    pub(super) fn closure(&mut self, expr: &syn::ExprClosure) -> Expr {
        let first = self.tok(expr.inputs_begin.span);
        if let Some(token) = &expr.asyncness {
            let tok = self.tok(token.span);
            self.refuse(tok, "`async` closures are not evaluated at compile time", "a collective is sequential code");
        }
        self.frames.push(Frame { closure: true, ..Frame::default() });
        let params = expr.inputs.iter().map(|input| {
            let ty = match input {
                syn::Pat::Type(typed) => self.ty(&typed.ty),
                _ => TypeExpr::Infer,
            };
            (self.pattern(input), ty)
        });
        let params = params.collect();
        let output = match &expr.output {
            syn::ReturnType::Default => TypeExpr::Infer,
            syn::ReturnType::Type(_, ty) => self.ty(ty),
        };
        let body = self.expression(&expr.body);
        let frame = self.frames.pop().unwrap_or_default();
        let captures: Vec<Var> = frame.captures.into_iter().map(|(_, var)| var).collect();
        let tok = self.spans.join(first, body.tok);
        let closure = Closure { by_value: expr.capture.is_some(), captures, params, output, body, slots: frame.slots };
        self.closures.push(closure);
        self.expr(ExprKind::Closure((self.closures.len() - 1) as u32), tok)
    }
}
