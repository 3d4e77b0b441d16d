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
            Some(kind) => {
                let value = self.expr(kind, tok);
                self.with_type_args(path, value)
            }
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
                    self.method_as_value("Self", name, written, None, tok).unwrap_or_else(|| {
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
            Some(kind) => {
                let value = self.expr(kind, tok);
                self.with_type_args(path, value)
            }
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
                let turbofish = self.written_after(path);
                self.method_as_value(ty, name, written, turbofish, tok).unwrap_or_else(|| {
                    self.outside(tok, &names.join("::"), Outside::Function);
                    self.expr(ExprKind::Error, tok)
                })
            }
        }
    }

    /// Gives a value or call of the standard library the type that is written in its path: `Vec::<u8>::new()`,
    /// `None::<u8>`. Without it, its integers would be `i32` where nothing else determines their type.
    pub(super) fn with_type_args(&mut self, path: &syn::Path, value: Expr) -> Expr {
        let written = |segment: &&syn::PathSegment| !segment.arguments.is_none();
        let mut segments = path.segments.iter().rev();
        let (own, before) = (segments.next().filter(written), segments.next().filter(written));
        if own.is_none() && before.is_none() {
            return value;
        }
        let tok = value.tok;
        let result = match &value.kind {
            ExprKind::PathFn(function) => {
                let function = *function;
                return self.function_of(lang::PATHS[function as usize].num_params(), tok, |this, args| {
                    let call = this.expr(ExprKind::CallPath(function, args), tok);
                    this.with_type_args(path, call)
                });
            }
            ExprKind::CallPath(function, _) => lang::PATHS[*function as usize].result(),
            ExprKind::Path(PathValue::None) => Some("Option<T>"),
            _ => None,
        };
        let ty = match own {
            None => Some(self.qualifier_type(path)),
            Some(name) => result.and_then(|result| self.result_type(result, name)),
        };
        match ty {
            Some(ty) => self.expr(ExprKind::Typed(Box::new(value), ty), tok),
            None => {
                let help = "leave them out, and write the type at a variable, a parameter or a number, as in `0_u8`";
                self.refused(tok, "these type arguments are not evaluated at compile time", help)
            }
        }
    }

    /// Returns a function's result as its signature has it, with the types that are written after its name.
    fn result_type(&mut self, result: &str, name: &syn::PathSegment) -> Option<TypeExpr> {
        let mut args = self.type_args(&name.arguments);
        args.resize(2, TypeExpr::Infer);
        let (con, count) = match result {
            "T" | "Default<T>" => return args.into_iter().next(),
            "Iter<T>" => (TyCon::Iter, 1),
            "Option<T>" => (TyCon::Option, 1),
            "Reverse<T>" => (TyCon::Reverse, 1),
            "Result<T, E>" => (TyCon::Result, 2),
            _ => return None,
        };
        args.truncate(count);
        Some(TypeExpr::TyCon(con, args))
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

    /// Returns the first type that is written after a path's last segment, as in `Iterator::sum::<u8>`.
    pub(super) fn written_after(&mut self, path: &syn::Path) -> Option<TypeExpr> {
        self.type_args(&path.segments.last()?.arguments).into_iter().next()
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
