//! Names and paths as values.

use std::sync::Arc;

use syn::spanned::Spanned;

use super::{HirBuilder, Outside};
use crate::hir::{DEFAULT, Expr, ExprKind, PathFnId, PathValue, SpanId, TyCon, TypeExpr};
use crate::lang;

impl HirBuilder<'_> {
    /// Lowers a path to a value.
    pub(super) fn path(&mut self, path: &syn::Path) -> Expr {
        let first = path.segments.first().map_or_else(|| path.span(), |first| first.ident.span());
        let last = path.segments.last().map_or(first, |last| last.ident.span());
        let tok = self.spans.pair(first, last);
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let own = names.strip_prefix(&["self".to_owned()]).filter(|rest| !rest.is_empty()).unwrap_or(&names);
        let kind = match own {
            [name] => self.name(name, own.len() == names.len(), first),
            [.., ty, name] => return self.qualified(path, own, ty, name, tok),
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

    /// Lowers a name to a value. `plain` names may be variables or names of the standard library, names after `self::`
    /// may not.
    fn name(&mut self, name: &str, plain: bool, span: proc_macro2::Span) -> Option<ExprKind> {
        if let Some(var) = self.variable(name).filter(|_| plain) {
            return Some(ExprKind::Var(var));
        }
        if let Some(kind) = self.item_expr(name, span) {
            return Some(kind);
        }
        if let Some(id) = self.adt_named(name)
            && !self.adts[id as usize].is_enum
        {
            return Some(self.constructor_expr(id, 0));
        }
        if name == "None" && plain {
            return Some(ExprKind::Path(PathValue::None));
        }
        lang::path_fn("", name).filter(|_| plain).map(ExprKind::PathFn)
    }

    fn qualified(&mut self, path: &syn::Path, names: &[String], ty: &str, name: &str, tok: SpanId) -> Expr {
        if names.len() == 2
            && let Some(id) = self.adt_named(ty)
        {
            return match self.associated(id, name) {
                Some(kind) => self.expr(kind, tok),
                // Functions that every type may derive.
                None => {
                    let written = TypeExpr::TyCon(TyCon::Adt(id), Vec::new());
                    self.method_as_value("Self", name, written, tok).unwrap_or_else(|| {
                        self.type_error(tok, &format!("`{ty}` has no variant, function or constant `{name}`"))
                    })
                }
            };
        }
        if names.len() == 2
            && let Some(scope) = self.find_type(ty)
            && let super::scope::TypeItem::Other(what) = self.scopes[scope].types[ty]
        {
            self.not_an_adt(tok, ty, what);
            return self.expr(ExprKind::Error, tok);
        }
        let kind = match lang::path_value(ty, name) {
            Some(value) => Some(ExprKind::Path(value)),
            None => self.path_fn(ty, name).map(ExprKind::PathFn),
        };
        match kind {
            Some(kind) => self.expr(kind, tok),
            // `Vec::<usize>::default` and similar paths: a default of a type that the user did not define.
            None if name == "default" && self.has_default(ty) => {
                let ty = self.qualifier_type(path);
                self.function_of(0, tok, |this, _| {
                    let value = Box::new(this.default_call(tok));
                    this.expr(ExprKind::Typed(value, ty), tok)
                })
            }
            None => {
                let written =
                    if lang::method_of(ty, name).is_some() { self.qualifier_type(path) } else { TypeExpr::Infer };
                self.method_as_value(ty, name, written, tok).unwrap_or_else(|| {
                    self.outside(tok, &names.join("::"), Outside::Function);
                    self.expr(ExprKind::Error, tok)
                })
            }
        }
    }

    /// Returns a function of the language; the types of the user that it needs are lowered as well.
    pub(super) fn path_fn(&mut self, qualifier: &str, name: &str) -> Option<PathFnId> {
        let function = lang::path_fn(qualifier, name)?;
        if lang::PATHS[function as usize].sig.contains("Default<") {
            self.method_called(&Arc::from(DEFAULT));
        }
        Some(function)
    }

    /// Returns whether a type name is one of the language or an alias, so that `Type::default` may have a meaning.
    pub(super) fn has_default(&self, ty: &str) -> bool {
        lang::has_type(ty) || matches!(ty, "bool" | "str") || self.find_type(ty).is_some()
    }

    /// Returns the type that a path names before its last segment.
    pub(super) fn qualifier_type(&mut self, path: &syn::Path) -> TypeExpr {
        if path.segments.len() > 1 && lang::is_trait(&path.segments[path.segments.len() - 2].ident.to_string()) {
            return TypeExpr::Infer;
        }
        let mut path = path.clone();
        path.segments.pop();
        path.segments.pop_punct();
        self.path_type(&path)
    }
}
