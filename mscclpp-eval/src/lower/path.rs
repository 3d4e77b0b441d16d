//! Names and paths as values.

use syn::spanned::Spanned;

use super::scope::TypeItem;
use super::{Lower, Outside};
use crate::ast::{Expr, ExprKind, PathValue};

impl Lower<'_> {
    /// A path as a value.
    pub(super) fn path(&mut self, path: &syn::Path) -> Expr {
        let first = path.segments.first().map_or_else(|| path.span(), |first| first.ident.span());
        let last = path.segments.last().map_or(first, |last| last.ident.span());
        let tok = self.spans.pair(first, last);
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let kind = match names.as_slice() {
            [name] => self.name(name, first),
            [.., ty, name] => self.qualified(&names, ty, name, first),
            [] => None,
        };
        match kind {
            Some(kind) => self.expr(kind, tok),
            None => {
                self.outside(tok, &names.join("::"), Outside::Value);
                self.expr(ExprKind::Error, tok)
            }
        }
    }

    fn name(&mut self, name: &str, span: proc_macro2::Span) -> Option<ExprKind> {
        if let Some(var) = self.variable(name) {
            return Some(ExprKind::Var(var));
        }
        if let Some(kind) = self.item_expr(name, span) {
            return Some(kind);
        }
        if name == "None" {
            return Some(ExprKind::Path(PathValue::None));
        }
        crate::lang::path_fn("", name).map(ExprKind::PathFn)
    }

    fn qualified(&mut self, names: &[String], ty: &str, name: &str, span: proc_macro2::Span) -> Option<ExprKind> {
        if names.len() == 2 && (ty == "self" || ty == "Self") {
            if let Some(id) = self.self_struct
                && ty == "Self"
            {
                return self.method(id, name).map(ExprKind::Function);
            }
            return self.item_expr(name, span);
        }
        if names.len() == 2
            && let Some(scope) = self.find_type(ty)
        {
            if let TypeItem::Other(what) = self.scopes[scope].types[ty] {
                let tok = self.tok(span);
                self.not_a_struct(tok, ty, what);
                return Some(ExprKind::Error);
            }
            let id = self.struct_id(scope, ty)?;
            return self.method(id, name).map(ExprKind::Function);
        }
        let value = crate::lang::path_value(ty, name).map(ExprKind::Path);
        value.or_else(|| crate::lang::path_fn(ty, name).map(ExprKind::PathFn))
    }
}
