//! Methods of the language that are named by a path: `usize::max(a, b)`, and as a value `Vec::len`.

use std::sync::Arc;

use super::HirBuilder;
use super::scope::Frame;
use crate::hir::{Closure, Expr, ExprKind, IntTy, MethodCall, Pattern, PatternKind, SpanId, TypeExpr, Var};
use crate::lang;

impl HirBuilder<'_> {
    /// Lowers a call of a method by a path; `ty` is the type before its name.
    pub(super) fn method_by_path(
        &mut self,
        name: &str,
        ty: TypeExpr,
        turbofish: Option<TypeExpr>,
        mut args: Vec<Expr>,
        tok: SpanId,
    ) -> Expr {
        let first = args.remove(0);
        let receiver_tok = first.tok;
        // The receiver already has that type; the annotation types a literal.
        let receiver = match ty {
            TypeExpr::Infer => first,
            ty => self.expr(ExprKind::Typed(Box::new(first), ty), receiver_tok),
        };
        let start = self.spans.get(tok).0.start();
        let (line, column) = (start.line as u32, start.column as u32 + 1);
        let whole_args = args.iter().map(|arg| arg.tok).collect();
        let call = MethodCall { receiver, name: Arc::from(name), turbofish, args, whole_args, line, column };
        self.expr(ExprKind::Method(Box::new(call)), tok)
    }

    /// Returns a method or conversion of the language as a value: a closure that calls it.
    pub(super) fn method_as_value(
        &mut self,
        qualifier: &str,
        name: &str,
        ty: TypeExpr,
        turbofish: Option<TypeExpr>,
        tok: SpanId,
    ) -> Option<Expr> {
        if let Some(int) = IntTy::from_name(qualifier).filter(|_| matches!(name, "from" | "try_from")) {
            return Some(self.function_of(1, tok, |this, mut args| {
                let value = Box::new(args.remove(0));
                this.expr(ExprKind::Convert(value, int, name == "try_from"), tok)
            }));
        }
        let num_params = lang::method_of(qualifier, name)?.num_params();
        Some(self.function_of(num_params + 1, tok, |this, args| this.method_by_path(name, ty, turbofish, args, tok)))
    }

    /// Returns a closure with parameters that only `body` names.
    pub(super) fn function_of(
        &mut self,
        num_params: usize,
        tok: SpanId,
        body: impl FnOnce(&mut Self, Vec<Expr>) -> Expr,
    ) -> Expr {
        self.frames.push(Frame { closure: true, ..Frame::default() });
        let slots: Vec<_> = (0..num_params).map(|_| self.fresh_slot()).collect();
        let params: Vec<(Pattern, TypeExpr)> =
            slots.iter().map(|slot| (self.pat(PatternKind::Bind(*slot, None), tok), TypeExpr::Infer)).collect();
        let args = slots.iter().map(|slot| self.expr(ExprKind::Var(Var::Local(*slot)), tok)).collect();
        let body = body(self, args);
        let slots = self.frames.pop().map_or(0, |frame| frame.slots);
        let (captures, output) = (Vec::new(), TypeExpr::Infer);
        self.closures.push(Closure { by_value: false, captures, params, output, body, slots });
        self.expr(ExprKind::Closure((self.closures.len() - 1) as u32), tok)
    }
}
