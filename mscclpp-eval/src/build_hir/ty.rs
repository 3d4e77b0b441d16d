//! Types, without references and lifetimes.

use mscclpp_core::diag::Code;

use super::scope::TypeItem;
use super::{HirBuilder, Outside};
use crate::hir::{IntTy, SpanId, TyCon, TypeExpr};
use crate::lang;
use crate::report::AT_RUN_TIME;

/// Types and traits of the standard library that are not evaluated, and what to write instead.
const NOT_EVALUATED: &[(&[&str], &str)] = &[
    (&["Cow", "Weak"], "use the value itself"),
    (&["Cell", "RefCell", "Mutex", "RwLock"], "use `let mut` and `&mut`"),
    (&["array"], "collect into a `Vec`, as in `(0..4).map(f).collect()`, or write the array out"),
    (&["LinkedList", "BinaryHeap"], "use a `Vec`"),
];

/// Returns what to write instead of a path that names a type or module of the standard library that is not evaluated.
fn of_std(path: &str) -> Option<&'static str> {
    let of = |name| NOT_EVALUATED.iter().find(|(names, _)| names.contains(&name)).map(|&(_, instead)| instead);
    let mut names = path.rsplit("::");
    let last = names.next()?;
    of(last).or_else(|| of(names.next()?))
}

/// Returns whether a path leads to the standard library, or to a function of a type that is evaluated otherwise.
fn is_of_std(path: &str) -> bool {
    let mut names = path.split("::");
    let first = names.next().unwrap_or_default();
    ["std", "core", "alloc"].contains(&first) || path.rsplit("::").nth(1).is_some_and(lang::has_type)
}

impl HirBuilder<'_> {
    pub(super) fn return_type(&mut self, output: &syn::ReturnType) -> TypeExpr {
        match output {
            syn::ReturnType::Default => TypeExpr::TyCon(TyCon::Unit, Vec::new()),
            syn::ReturnType::Type(_, ty) => self.ty(ty),
        }
    }

    pub(super) fn ty(&mut self, ty: &syn::Type) -> TypeExpr {
        match ty {
            syn::Type::Infer(_) => TypeExpr::Infer,
            syn::Type::Paren(ty) => self.ty(&ty.elem),
            syn::Type::Group(ty) => self.ty(&ty.elem),
            syn::Type::Reference(ty) => self.ty(&ty.elem),
            syn::Type::Slice(ty) => TypeExpr::TyCon(TyCon::List, vec![self.ty(&ty.elem)]),
            // rustc checks the length.
            syn::Type::Array(ty) => TypeExpr::TyCon(TyCon::Array, vec![self.ty(&ty.elem)]),
            syn::Type::Tuple(ty) if ty.elems.is_empty() => TypeExpr::TyCon(TyCon::Unit, Vec::new()),
            syn::Type::Tuple(ty) => TypeExpr::TyCon(TyCon::Tuple, ty.elems.iter().map(|ty| self.ty(ty)).collect()),
            syn::Type::Never(_) => TypeExpr::Infer,
            syn::Type::FnPtr(ty) => {
                let inputs = ty.inputs.iter().map(|arg| &arg.ty);
                self.fn_type(inputs, &ty.output)
            }
            syn::Type::ImplTrait(ty) => self.bounds(ty, &ty.bounds),
            syn::Type::TraitObject(ty) => self.bounds(ty, &ty.bounds),
            syn::Type::Path(path) if path.qself.is_none() => self.path_type(&path.path),
            _ => {
                let tok = self.spans.tokens(ty);
                self.refuse(tok, "this type is not evaluated at compile time", AT_RUN_TIME);
                TypeExpr::Infer
            }
        }
    }

    fn fn_type<'a>(&mut self, inputs: impl Iterator<Item = &'a syn::Type>, output: &syn::ReturnType) -> TypeExpr {
        let mut args: Vec<_> = inputs.map(|ty| self.ty(ty)).collect();
        args.push(self.return_type(output));
        TypeExpr::TyCon(TyCon::Fn, args)
    }

    /// Lowers `impl Fn(…)`, `impl Iterator<Item = T>`, `impl IntoIterator<Item = T>`, and the same with `dyn`.
    fn bounds<'a>(
        &mut self,
        whole: &impl quote::ToTokens,
        bounds: impl IntoIterator<Item = &'a syn::TypeParamBound>,
    ) -> TypeExpr {
        for bound in bounds {
            let syn::TypeParamBound::Trait(bound) = bound else { continue };
            let Some(last) = bound.path.segments.last() else { continue };
            match (last.ident.to_string().as_str(), &last.arguments) {
                ("Fn" | "FnMut" | "FnOnce", syn::PathArguments::Parenthesized(args)) => {
                    return self.fn_type(args.inputs.iter().map(|arg| &arg.ty), &args.output);
                }
                ("Iterator" | "DoubleEndedIterator" | "ExactSizeIterator", args) => {
                    return TypeExpr::TyCon(TyCon::Iter, vec![self.item_type(args)]);
                }
                ("IntoIterator", args) => return TypeExpr::Each(Box::new(self.item_type(args))),
                _ => {}
            }
        }
        let tok = self.spans.tokens(whole);
        let help =
            "traits of the subset are `Fn`, `FnMut`, `FnOnce`, `Iterator<Item = …>` and `IntoIterator<Item = …>`";
        self.refuse(tok, "values of this trait are not evaluated at compile time", help);
        TypeExpr::Infer
    }

    fn item_type(&mut self, args: &syn::PathArguments) -> TypeExpr {
        let syn::PathArguments::AngleBracketed(args) = args else { return TypeExpr::Infer };
        let item = args.args.iter().find_map(|arg| match arg {
            syn::GenericArgument::AssocType(item) if item.ident == "Item" => Some(&item.ty),
            _ => None,
        });
        item.map_or(TypeExpr::Infer, |ty| self.ty(ty))
    }

    pub(super) fn path_type(&mut self, path: &syn::Path) -> TypeExpr {
        let Some(last) = path.segments.last() else { return TypeExpr::Infer };
        let name = last.ident.to_string();
        if path.segments.len() == 1 {
            if name == "Self"
                && let Some(id) = self.self_adt
            {
                return TypeExpr::TyCon(TyCon::Adt(id), Vec::new());
            }
            if let Some(scope) = self.find_type(&name) {
                return self.own_type(scope, &name, last);
            }
        }
        let mut args = self.type_args(&last.arguments);
        let mut take = |count: usize| {
            args.resize(count, TypeExpr::Infer);
            std::mem::take(&mut args)
        };
        if let Some(int) = IntTy::from_name(&name) {
            return TypeExpr::Int(int);
        }
        let con = |con| TypeExpr::TyCon(con, Vec::new());
        match name.as_str() {
            "bool" => con(TyCon::Bool),
            "str" | "String" => con(TyCon::Str),
            "Ordering" => con(TyCon::Ordering),
            "Program" => con(TyCon::Program),
            "Vec" | "VecDeque" => TypeExpr::TyCon(TyCon::List, take(1)),
            "BTreeMap" => TypeExpr::TyCon(TyCon::Map, take(2)),
            "HashMap" => TypeExpr::TyCon(TyCon::HashMap, take(2)),
            "BTreeSet" => TypeExpr::TyCon(TyCon::Set, take(1)),
            "HashSet" => TypeExpr::TyCon(TyCon::HashSet, take(1)),
            "Option" => TypeExpr::TyCon(TyCon::Option, take(1)),
            "Result" => TypeExpr::TyCon(TyCon::Result, take(2)),
            "Reverse" => TypeExpr::TyCon(TyCon::Reverse, take(1)),
            "TryFromIntError" => con(TyCon::TryFromIntError),
            "Box" | "Rc" | "Arc" => take(1).pop().unwrap_or(TypeExpr::Infer),
            "Range" | "RangeInclusive" => TypeExpr::TyCon(TyCon::Range, take(1)),
            "Ranks" => TypeExpr::TyCon(TyCon::Iter, vec![con(TyCon::Handle("Rank"))]),
            _ => match lang::dsl::handle(&name) {
                Some(handle) => con(TyCon::Handle(handle)),
                // A type parameter, which is rejected where it is declared.
                None if self.generics.contains(&name) => TypeExpr::Infer,
                None => {
                    let tok = self.spans.tokens(path);
                    self.outside(tok, &name, Outside::Type);
                    TypeExpr::Infer
                }
            },
        }
    }

    fn own_type(&mut self, scope: usize, name: &str, segment: &syn::PathSegment) -> TypeExpr {
        match self.scopes[scope].types[name].clone() {
            TypeItem::Adt(..) => match self.adt_id(scope, name) {
                Some(id) => TypeExpr::TyCon(TyCon::Adt(id), Vec::new()),
                None => TypeExpr::Infer,
            },
            TypeItem::Alias(alias) => self.alias(scope, &alias),
            TypeItem::Other(what) => {
                let tok = self.tok(segment.ident.span());
                self.not_an_adt(tok, name, what);
                TypeExpr::Infer
            }
        }
    }

    /// Lowers the type that an alias refers to.
    pub(super) fn alias(&mut self, scope: usize, alias: &syn::ItemType) -> TypeExpr {
        let tok = self.tok(alias.ident.span());
        self.attributes(&alias.attrs);
        if self.refuse_generics(&alias.generics) {
            return TypeExpr::Infer;
        }
        let outer = std::mem::replace(&mut self.scope, scope);
        let ty = self.nested(tok, |_| TypeExpr::Infer, |this| this.ty(&alias.ty));
        self.scope = outer;
        ty
    }

    /// Rejects the type parameters of a type; returns whether there are any.
    pub(super) fn refuse_generics(&mut self, generics: &syn::Generics) -> bool {
        let mut refused = false;
        for param in generics.params.iter().filter(|param| !matches!(param, syn::GenericParam::Lifetime(_))) {
            let tok = self.spans.tokens(param);
            self.refuse(tok, "generic types are not evaluated at compile time", "write the types out");
            refused = true;
        }
        refused
    }

    pub(super) fn type_args(&mut self, args: &syn::PathArguments) -> Vec<TypeExpr> {
        let syn::PathArguments::AngleBracketed(args) = args else { return Vec::new() };
        let types = args.args.iter().filter_map(|arg| match arg {
            syn::GenericArgument::Type(ty) => Some(ty),
            _ => None,
        });
        types
            .map(|ty| match ty {
                // Markers such as `Scratch` in `Chunk<'p, Scratch>`: rustc checks them.
                syn::Type::Path(path)
                    if path.path.get_ident().is_some_and(|ident| lang::dsl::is_marker(&ident.to_string())) =>
                {
                    TypeExpr::Infer
                }
                ty => self.ty(ty),
            })
            .collect()
    }

    /// Returns the type argument of `method::<T>`.
    pub(super) fn turbofish(&mut self, args: &syn::AngleBracketedGenericArguments) -> Option<TypeExpr> {
        args.args.iter().find_map(|arg| match arg {
            syn::GenericArgument::Type(ty) => Some(self.ty(ty)),
            _ => None,
        })
    }

    /// Rejects a type that is neither a struct nor an enum.
    pub(super) fn not_an_adt(&mut self, tok: SpanId, name: &str, what: &str) {
        let help = "use a struct or an enum";
        self.refuse(tok, format!("`{name}` is {what}, which is not evaluated at compile time"), help);
    }

    /// Rejects a name that the macro cannot see.
    pub(super) fn outside(&mut self, tok: SpanId, name: &str, what: Outside) {
        let last = name.rsplit("::").next().unwrap_or(name);
        if let Some((alias, _)) = name.split_once("::")
            && self.find_type(alias).is_some_and(|scope| matches!(self.scopes[scope].types[alias], TypeItem::Alias(_)))
        {
            let help = format!("name the type that `{alias}` represents");
            self.refuse(tok, format!("functions of the alias `{alias}` are not evaluated at compile time"), help);
            return;
        }
        if let Some(scope) = self.find_type(name)
            && let TypeItem::Other(what) = self.scopes[scope].types[name]
        {
            self.not_an_adt(tok, name, what);
            return;
        }
        if matches!(what, Outside::Function | Outside::Type)
            && let Some(instead) = of_std(name)
        {
            let help = format!("{instead}; {AT_RUN_TIME}");
            self.refuse(tok, format!("`{name}` is not evaluated at compile time"), help);
            return;
        }
        if is_of_std(name) && !matches!(what, Outside::Type) {
            let help = format!("`mscclpp explain --subset` lists the functions that are; {AT_RUN_TIME}");
            self.refuse(tok, format!("`{name}` is not evaluated at compile time"), help);
            return;
        }
        if ["f32", "f64"].contains(&last) {
            self.refuse(tok, "floating-point numbers are not evaluated at compile time", "compute with integers");
            return;
        }
        // `Phase::Send` and `Phase::new()` fail because `Phase` is unknown.
        let before = name.rsplit("::").nth(1).filter(|before| before.starts_with(char::is_uppercase));
        let (kind, name) = match (what, before) {
            (_, Some(before)) => ("type", before),
            (Outside::Type, _) => ("type", last),
            (Outside::Function, None) => ("function", name),
            (Outside::Value, None) if last == last.to_uppercase() => ("constant", name),
            (Outside::Value, None) => ("name", name),
        };
        // Each name once, on its first use.
        if self.unresolved.iter().any(|other| other == name) {
            return;
        }
        self.unresolved.push(name.to_owned());
        let declared = name.rsplit("::").next().unwrap_or(name);
        let help = match kind {
            "constant" | "name" => format!(
                "declare `{declared}` in one `#[collectives]` module with the collective, or pass its value as a parameter \
                 with `params({} = […])`",
                declared.to_lowercase()
            ),
            _ => format!("declare `{declared}` in the function, or in one `#[collectives]` module with the collective"),
        };
        self.report
            .error(
                Code::UnresolvedName,
                tok,
                format!("cannot resolve {kind} `{name}`: it is defined outside the collective"),
            )
            .help(format!("{help}; {AT_RUN_TIME}"));
    }
}
