//! Expressions, except calls, closures and macros.

use std::sync::Arc;

use mscclpp_core::diag::Code;
use syn::spanned::Spanned;

use super::{HirBuilder, attributes};
use crate::hir::{Assignee, BinOp, CmpOp, Expr, ExprKind, IntTy, RangeEnd, SpanId, TyCon};
use crate::report::AT_RUN_TIME;

impl HirBuilder<'_> {
    /// Lowers an expression.
    pub(super) fn expression(&mut self, expr: &syn::Expr) -> Expr {
        if self.nesting >= super::MAX_NESTING {
            let tok = self.tok(expr.span());
            return self.nested(tok, |this| this.expr(ExprKind::Error, tok), |this| this.expr(ExprKind::Error, tok));
        }
        self.nesting += 1;
        let result = self.expression_here(expr);
        self.nesting -= 1;
        result
    }

    /// Lowers an operand.
    pub(super) fn boxed_expression(&mut self, expr: &syn::Expr) -> Box<Expr> {
        Box::new(self.expression(expr))
    }

    fn expression_here(&mut self, expr: &syn::Expr) -> Expr {
        self.attributes(attributes::of_expr(expr));
        match expr {
            syn::Expr::Paren(inner) => self.expression(&inner.expr),
            syn::Expr::Group(inner) => self.expression(&inner.expr),
            syn::Expr::Lit(inner) => {
                let tok = self.tok(inner.lit.span());
                self.literal(&inner.lit, tok)
            }
            syn::Expr::Path(inner) if inner.qself.is_none() => self.path(&inner.path),
            syn::Expr::Unary(inner) => self.unary(inner),
            syn::Expr::Binary(inner) => self.binary(inner),
            syn::Expr::Cast(inner) => {
                let value = self.boxed_expression(&inner.expr);
                let ty = self.ty(&inner.ty);
                let last = self.tok(inner.ty.span());
                let tok = self.spans.join(value.tok, last);
                self.expr(ExprKind::Cast(value, ty), tok)
            }
            syn::Expr::Reference(inner) => self.reference(inner),
            syn::Expr::Tuple(inner) => {
                let tok = self.spans.pair(inner.paren_token.span.open(), inner.paren_token.span.close());
                let list: Vec<_> = inner.elems.iter().map(|elem| self.expression(elem)).collect();
                let kind = if list.is_empty() { ExprKind::Unit } else { ExprKind::Tuple(list) };
                self.expr(kind, tok)
            }
            syn::Expr::Array(inner) => {
                let tok = self.spans.pair(inner.bracket_token.span.open(), inner.bracket_token.span.close());
                let list = inner.elems.iter().map(|elem| self.expression(elem)).collect();
                self.expr(ExprKind::List(list, TyCon::Array), tok)
            }
            syn::Expr::Repeat(inner) => {
                let tok = self.spans.pair(inner.bracket_token.span.open(), inner.bracket_token.span.close());
                let (value, count) = (self.boxed_expression(&inner.expr), self.boxed_expression(&inner.len));
                self.expr(ExprKind::Repeat(value, count, TyCon::Array), tok)
            }
            syn::Expr::Range(inner) => self.range(inner),
            syn::Expr::Struct(inner) => self.struct_literal(inner),
            syn::Expr::Field(inner) => {
                let base = self.boxed_expression(&inner.base);
                let (name, span) = match &inner.member {
                    syn::Member::Named(ident) => (ident.to_string(), ident.span()),
                    syn::Member::Unnamed(index) => (index.index.to_string(), index.span),
                };
                let last = self.tok(span);
                let tok = self.spans.join(base.tok, last);
                self.expr(ExprKind::Field(base, Arc::from(name)), tok)
            }
            syn::Expr::Index(inner) => {
                let (base, index) = (self.boxed_expression(&inner.expr), self.boxed_expression(&inner.index));
                let last = self.tok(inner.bracket_token.span.close());
                let tok = self.spans.join(base.tok, last);
                self.expr(ExprKind::Index(base, index), tok)
            }
            syn::Expr::Assign(inner) => {
                let value = self.boxed_expression(&inner.right);
                let target = self.assignee(&inner.left);
                let tok = self.tok(inner.eq_token.span);
                let kind = match target {
                    Assignee::Place(place) => ExprKind::Assign(Box::new(place), value),
                    pattern => ExprKind::AssignPattern(Box::new(pattern), value),
                };
                self.expr(kind, tok)
            }
            syn::Expr::Call(inner) => self.call(inner),
            syn::Expr::MethodCall(inner) => self.method_call(inner),
            syn::Expr::Closure(inner) => self.closure(inner),
            syn::Expr::Macro(inner) => self.macro_call(&inner.mac),
            _ => self.control(expr),
        }
    }

    pub(super) fn unsupported(&mut self, expr: &syn::Expr) -> Expr {
        let what = match expr {
            syn::Expr::Async(_) => "an `async` block",
            syn::Expr::Await(_) => "`.await`",
            syn::Expr::Unsafe(_) => "an `unsafe` block",
            syn::Expr::RawAddr(_) => "a raw pointer",
            syn::Expr::TryBlock(_) => "a `try` block",
            syn::Expr::Yield(_) => "`yield`",
            syn::Expr::Infer(_) => "`_`",
            syn::Expr::Path(_) => "a path with `<… as …>`",
            _ => "this expression",
        };
        let tok = self.spans.tokens(expr);
        let help = format!("a collective is ordinary sequential code; {AT_RUN_TIME}");
        self.refused(tok, format!("{what} is not evaluated at compile time"), help)
    }

    /// Reports an error that rustc explains better.
    pub(super) fn type_error(&mut self, tok: SpanId, what: &str) -> Expr {
        drop(self.report.error(Code::TypeError, tok, what));
        self.expr(ExprKind::Error, tok)
    }

    /// Lowers a literal, as an expression or in a pattern.
    pub(super) fn literal(&mut self, lit: &syn::Lit, tok: SpanId) -> Expr {
        let what = match lit {
            syn::Lit::Bool(lit) => return self.expr(ExprKind::Bool(lit.value), tok),
            syn::Lit::Str(lit) => return self.expr(ExprKind::Str(Arc::from(lit.value())), tok),
            syn::Lit::Int(lit) => {
                let suffix = IntTy::from_name(lit.suffix());
                return match lit.base10_parse::<i128>() {
                    Ok(value) if suffix.is_some() || lit.suffix().is_empty() => {
                        self.expr(ExprKind::Int(value, suffix), tok)
                    }
                    _ => {
                        let help = "integers of the subset are i8 to i64, u8 to u64, isize and usize";
                        self.refused(tok, format!("`{lit}` is not evaluated at compile time"), help)
                    }
                };
            }
            syn::Lit::Float(_) => "floating-point numbers are",
            syn::Lit::Char(_) | syn::Lit::Byte(_) => "characters are",
            syn::Lit::ByteStr(_) | syn::Lit::CStr(_) => "byte strings are",
            _ => "this literal is",
        };
        let help = format!("compute with integers; {AT_RUN_TIME}");
        self.refused(tok, format!("{what} not evaluated at compile time"), help)
    }

    fn unary(&mut self, expr: &syn::ExprUnary) -> Expr {
        let first = self.tok(expr.op.span());
        if let (syn::UnOp::Neg(_), syn::Expr::Lit(syn::ExprLit { lit: lit @ syn::Lit::Int(_), .. })) =
            (&expr.op, &*expr.expr)
        {
            // `-128i8` is one number: `128i8` alone would be too large.
            let last = self.tok(lit.span());
            let tok = self.spans.join(first, last);
            let mut value = self.literal(lit, tok);
            if let ExprKind::Int(value, _) = &mut value.kind {
                *value = -*value;
            }
            return self.expr(ExprKind::Neg(Box::new(value)), tok);
        }
        let value = self.boxed_expression(&expr.expr);
        let tok = self.spans.join(first, value.tok);
        let kind = match expr.op {
            syn::UnOp::Neg(_) => ExprKind::Neg(value),
            syn::UnOp::Not(_) => ExprKind::Not(value),
            syn::UnOp::Deref(_) => ExprKind::Deref(value),
            _ => return self.refused(tok, "this operator is not evaluated at compile time", AT_RUN_TIME),
        };
        self.expr(kind, tok)
    }

    fn binary(&mut self, expr: &syn::ExprBinary) -> Expr {
        use syn::BinOp as Op;
        let (left, right) = (self.boxed_expression(&expr.left), self.boxed_expression(&expr.right));
        let tok = self.spans.join(left.tok, right.tok);
        let arithmetic = |op, assign| (op, assign);
        let (op, assign) = match expr.op {
            Op::And(_) => return self.expr(ExprKind::Logic(true, left, right), tok),
            Op::Or(_) => return self.expr(ExprKind::Logic(false, left, right), tok),
            Op::Eq(_) => return self.expr(ExprKind::Compare(CmpOp::Eq, left, right), tok),
            Op::Ne(_) => return self.expr(ExprKind::Compare(CmpOp::Ne, left, right), tok),
            Op::Lt(_) => return self.expr(ExprKind::Compare(CmpOp::Lt, left, right), tok),
            Op::Le(_) => return self.expr(ExprKind::Compare(CmpOp::Le, left, right), tok),
            Op::Gt(_) => return self.expr(ExprKind::Compare(CmpOp::Gt, left, right), tok),
            Op::Ge(_) => return self.expr(ExprKind::Compare(CmpOp::Ge, left, right), tok),
            Op::Add(_) => arithmetic(BinOp::Add, false),
            Op::Sub(_) => arithmetic(BinOp::Sub, false),
            Op::Mul(_) => arithmetic(BinOp::Mul, false),
            Op::Div(_) => arithmetic(BinOp::Div, false),
            Op::Rem(_) => arithmetic(BinOp::Rem, false),
            Op::BitAnd(_) => arithmetic(BinOp::And, false),
            Op::BitOr(_) => arithmetic(BinOp::Or, false),
            Op::BitXor(_) => arithmetic(BinOp::Xor, false),
            Op::Shl(_) => arithmetic(BinOp::Shl, false),
            Op::Shr(_) => arithmetic(BinOp::Shr, false),
            Op::AddAssign(_) => arithmetic(BinOp::Add, true),
            Op::SubAssign(_) => arithmetic(BinOp::Sub, true),
            Op::MulAssign(_) => arithmetic(BinOp::Mul, true),
            Op::DivAssign(_) => arithmetic(BinOp::Div, true),
            Op::RemAssign(_) => arithmetic(BinOp::Rem, true),
            Op::BitAndAssign(_) => arithmetic(BinOp::And, true),
            Op::BitOrAssign(_) => arithmetic(BinOp::Or, true),
            Op::BitXorAssign(_) => arithmetic(BinOp::Xor, true),
            Op::ShlAssign(_) => arithmetic(BinOp::Shl, true),
            Op::ShrAssign(_) => arithmetic(BinOp::Shr, true),
            _ => return self.refused(tok, "this operator is not evaluated at compile time", AT_RUN_TIME),
        };
        let kind = if assign { ExprKind::AssignOp(op, left, right) } else { ExprKind::Binary(op, left, right) };
        self.expr(kind, tok)
    }

    fn reference(&mut self, expr: &syn::ExprReference) -> Expr {
        let value = self.expression(&expr.expr);
        if expr.mutability.is_none() {
            return value;
        }
        let first = self.tok(expr.and_token.span);
        let tok = self.spans.join(first, value.tok);
        self.expr(ExprKind::RefMut(Box::new(value)), tok)
    }

    fn range(&mut self, expr: &syn::ExprRange) -> Expr {
        let start = expr.start.as_ref().map(|start| self.boxed_expression(start));
        let end = expr.end.as_ref().map(|end| self.boxed_expression(end));
        let dots = self.tok(expr.limits.span());
        let first = start.as_ref().map_or(dots, |start| start.tok);
        let last = end.as_ref().map_or(dots, |end| end.tok);
        let tok = self.spans.join(first, last);
        let kind = match expr.limits {
            syn::RangeLimits::HalfOpen(_) => RangeEnd::Exclusive,
            syn::RangeLimits::Closed(_) => RangeEnd::Inclusive,
        };
        self.expr(ExprKind::Range(start, end, kind), tok)
    }

    fn struct_literal(&mut self, expr: &syn::ExprStruct) -> Expr {
        let first = self.tok(expr.path.span());
        let last = self.tok(expr.brace_token.span.close());
        let tok = self.spans.join(first, last);
        let Some((id, variant)) = self.constructor(&expr.path) else {
            self.outside_path(tok, &expr.path);
            return self.expr(ExprKind::Error, tok);
        };
        let fields = expr.fields.iter().filter_map(|field| {
            self.attributes(&field.attrs);
            let index = self.field_number(id, variant, &field.member)?;
            Some((index, self.expression(&field.expr)))
        });
        let fields = fields.collect();
        let rest = expr.rest.as_ref().map(|rest| self.boxed_expression(rest));
        self.expr(ExprKind::Struct(id, variant, fields, rest), tok)
    }

    fn assignee(&mut self, expr: &syn::Expr) -> Assignee {
        match expr {
            syn::Expr::Infer(_) => Assignee::Ignore,
            syn::Expr::Paren(inner) => self.assignee(&inner.expr),
            syn::Expr::Tuple(inner) => {
                let tok = self.spans.pair(inner.paren_token.span.open(), inner.paren_token.span.close());
                Assignee::Tuple(inner.elems.iter().map(|elem| self.assignee(elem)).collect(), tok)
            }
            syn::Expr::Array(inner) => {
                let tok = self.spans.pair(inner.bracket_token.span.open(), inner.bracket_token.span.close());
                Assignee::List(inner.elems.iter().map(|elem| self.assignee(elem)).collect(), tok)
            }
            syn::Expr::Struct(_) | syn::Expr::Call(_) | syn::Expr::Range(_) => {
                let tok = self.spans.tokens(expr);
                let what = "assignment to the fields of a struct, or with `..`, is not evaluated at compile time";
                Assignee::Place(self.refused(tok, what, "assign to each variable, or take the value apart with `let`"))
            }
            other => Assignee::Place(self.expression(other)),
        }
    }
}
