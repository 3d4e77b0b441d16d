//! Calls of functions and methods.

use std::sync::Arc;

use syn::spanned::Spanned;

use super::{HirBuilder, Outside};
use crate::hir::{AdtId, DEFAULT, Expr, ExprKind, IntTy, MethodCall, SpanId};
use crate::lang;

impl HirBuilder<'_> {
    pub(super) fn call(&mut self, call: &syn::ExprCall) -> Expr {
        let last = self.tok(call.paren_token.span.close());
        if let syn::Expr::Path(path) = &*call.func
            && path.qself.is_none()
        {
            return self.path_call(&path.path, call, last);
        }
        let callee = Box::new(self.expression(&call.func));
        let tok = self.spans.join(callee.tok, last);
        let args = self.args(call);
        self.expr(ExprKind::CallValue(callee, args), tok)
    }

    fn args(&mut self, call: &syn::ExprCall) -> Vec<Expr> {
        call.args.iter().map(|arg| self.expression(arg)).collect()
    }

    fn path_call(&mut self, path: &syn::Path, call: &syn::ExprCall, last: SpanId) -> Expr {
        let first = self.tok(path.segments.first().map_or_else(|| path.span(), |first| first.ident.span()));
        let tok = self.spans.join(first, last);
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let own = match names.as_slice() {
            [name] => self.variable(name).is_some() || self.find_item(name).is_some() || self.adt_named(name).is_some(),
            [module, ..] if module == "self" => true,
            [ty, _] => self.adt_named(ty).is_some(),
            _ => false,
        };
        if !own {
            if let Some(expr) = self.language_call(path, &names, call, tok) {
                return expr;
            }
            self.outside(tok, &names.join("::"), Outside::Function);
            self.args(call);
            return self.expr(ExprKind::Error, tok);
        }
        let callee = self.path(path);
        let args = self.args(call);
        let kind = match callee.kind {
            ExprKind::Function(id) => ExprKind::Call(id, args),
            ExprKind::Constructor(id, variant) => return self.construct(id, variant, args, tok),
            ExprKind::Error => ExprKind::Error,
            _ => ExprKind::CallValue(Box::new(callee), args),
        };
        self.expr(kind, tok)
    }

    /// Lowers `Name(a, b)` of a struct or variant.
    fn construct(&mut self, id: AdtId, variant: u32, args: Vec<Expr>, tok: SpanId) -> Expr {
        let Some(found) = self.adts[id as usize].variants.get(variant as usize) else {
            // A constant of the type that is being lowered.
            return self.type_error(tok, "this value is part of its own type");
        };
        let (name, expected) = (found.shape.name.to_string(), found.types.len());
        if args.len() != expected {
            return self.type_error(tok, &format!("`{name}` has {expected} fields, here are {}", args.len()));
        }
        let fields = (0..).zip(args).collect();
        self.expr(ExprKind::Struct(id, variant, fields, None), tok)
    }

    /// Lowers calls of functions of the standard library.
    fn language_call(&mut self, path: &syn::Path, names: &[String], call: &syn::ExprCall, tok: SpanId) -> Option<Expr> {
        let name = names.last()?;
        let qualifier = names.len().checked_sub(2).map_or("", |index| names[index].as_str());
        let int = IntTy::from_name(qualifier);
        let function = self.path_fn(qualifier, name);
        if function.is_none() && name == "default" && self.has_default(qualifier) {
            let ty = self.qualifier_type(path);
            let value = Box::new(self.default_call(tok));
            return Some(self.expr(ExprKind::Typed(value, ty), tok));
        }
        if let Some(int) = int.filter(|_| matches!(&**name, "from" | "try_from")) {
            return Some(self.conversion(int, name, call, tok));
        }
        if function.is_none() && !call.args.is_empty() && lang::method_of(qualifier, name).is_some() {
            let ty = self.qualifier_type(path);
            let turbofish = self.written_after(path);
            let args = self.args(call);
            return Some(self.method_by_path(name, ty, turbofish, args, tok));
        }
        let function = function?;
        let args = self.args(call);
        let value = self.expr(ExprKind::CallPath(function, args), tok);
        Some(self.with_type_args(path, value))
    }

    /// Lowers `usize::from(x)` and `i64::try_from(x)`.
    fn conversion(&mut self, int: IntTy, name: &str, call: &syn::ExprCall, tok: SpanId) -> Expr {
        let mut args = self.args(call);
        if args.len() != 1 {
            return self.type_error(tok, "a conversion takes one value");
        }
        let value = Box::new(args.remove(0));
        self.expr(ExprKind::Convert(value, int, name == "try_from"), tok)
    }

    pub(super) fn method_call(&mut self, call: &syn::ExprMethodCall) -> Expr {
        let receiver = self.expression(&call.receiver);
        let tok = self.spans.pair(call.method.span(), call.paren_token.span.close());
        let name: Arc<str> = Arc::from(call.method.to_string());
        let turbofish = call.turbofish.as_ref().and_then(|args| self.turbofish(args));
        let args: Vec<_> = call.args.iter().map(|arg| self.expression(arg)).collect();
        let whole_args = args.iter().map(|arg| self.whole(arg)).collect();
        self.method_called(&name);
        if matches!(&*name, "or_default" | "unwrap_or_default") {
            self.method_called(&Arc::from(DEFAULT));
        }
        let start = call.method.span().start();
        let (line, column) = (start.line as u32, start.column as u32 + 1);
        let call = MethodCall { receiver, name, turbofish, args, whole_args, line, column };
        self.expr(ExprKind::Method(Box::new(call)), tok)
    }

    /// Returns the position from the first to the last token of an expression.
    fn whole(&mut self, expr: &Expr) -> SpanId {
        let mut first = expr;
        while let ExprKind::Method(call) = &first.kind {
            first = &call.receiver;
        }
        if first.tok == expr.tok { expr.tok } else { self.spans.join(first.tok, expr.tok) }
    }
}
