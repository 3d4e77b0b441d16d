//! Structs and enums, with their `impl` blocks. They are lowered when they are first named.

use std::rc::Rc;
use std::sync::Arc;

use super::HirBuilder;
use super::item::Body;
use super::scope::{Item, TypeItem};
use crate::hir::{
    Adt, AdtId, ConstId, DEFAULT, Expr, ExprKind, Fields, FnId, IntTy, Shape, SpanId, TyCon, TypeExpr, Variant,
};
use crate::lang;
use crate::report::AT_RUN_TIME;

/// A struct or enum with its `impl` blocks.
pub(super) struct AdtItem {
    pub(crate) ident: syn::Ident,
    generics: syn::Generics,
    is_enum: bool,
    /// Its variants; a struct has one, of its own name.
    pub(crate) variants: Vec<VariantItem>,
    methods: Vec<(String, Rc<syn::ImplItemFn>)>,
    constants: Vec<(String, Rc<syn::ImplItemConst>)>,
    /// Its `Default`, if it has one.
    default: Option<DefaultImpl>,
    /// The attributes of all of these.
    attrs: Vec<syn::Attribute>,
    /// Another trait that is implemented manually.
    implements: Option<String>,
}

/// A variant.
pub(super) struct VariantItem {
    pub(crate) ident: syn::Ident,
    fields: syn::Fields,
    discriminant: Option<syn::Expr>,
    is_default: bool,
}

/// An implementation of `Default`.
enum DefaultImpl {
    Derived,
    Manual(Rc<syn::ImplItemFn>),
}

/// Returns the structs and enums among items.
pub(super) fn adts_of<'a>(items: impl Iterator<Item = &'a syn::Item> + Clone) -> Vec<AdtItem> {
    let mut adts: Vec<AdtItem> = items.clone().filter_map(adt_of).collect();
    for item in items {
        if let syn::Item::Impl(block) = item
            && let syn::Type::Path(path) = &*block.self_ty
            && let Some(last) = path.path.segments.last()
            && let Some(found) = adts.iter_mut().find(|found| found.ident == last.ident)
        {
            found.implement(block);
        }
    }
    adts
}

fn adt_of(item: &syn::Item) -> Option<AdtItem> {
    let (ident, generics, attrs, is_enum, variants) = match item {
        syn::Item::Struct(item) => {
            let (ident, fields) = (item.ident.clone(), item.fields.clone());
            let variant = VariantItem { ident, fields, discriminant: None, is_default: true };
            (&item.ident, &item.generics, &item.attrs, false, vec![variant])
        }
        syn::Item::Enum(item) => {
            let variants = item.variants.iter().map(|variant| VariantItem {
                ident: variant.ident.clone(),
                fields: variant.fields.clone(),
                discriminant: variant.discriminant.as_ref().map(|(_, value)| value.clone()),
                is_default: variant.attrs.iter().any(|attr| attr.path().is_ident("default")),
            });
            (&item.ident, &item.generics, &item.attrs, true, variants.collect())
        }
        _ => return None,
    };
    let default = derives(attrs, "Default").then_some(DefaultImpl::Derived);
    let mut all = attrs.clone();
    if let syn::Item::Enum(item) = item {
        all.extend(item.variants.iter().flat_map(|variant| variant.attrs.iter().cloned()));
    }
    all.extend(variants.iter().flat_map(|variant| &variant.fields).flat_map(|field| field.attrs.iter().cloned()));
    Some(AdtItem {
        ident: ident.clone(),
        generics: generics.clone(),
        is_enum,
        variants,
        methods: Vec::new(),
        constants: Vec::new(),
        default,
        attrs: all,
        implements: None,
    })
}

/// Returns whether attributes derive a trait.
fn derives(attrs: &[syn::Attribute], name: &str) -> bool {
    let mut found = false;
    for attr in attrs.iter().filter(|attr| attr.path().is_ident("derive")) {
        let result = attr.parse_nested_meta(|meta| {
            found |= meta.path.segments.last().is_some_and(|last| last.ident == name);
            Ok(())
        });
        // rustc rejects what cannot be parsed.
        drop(result);
    }
    found
}

impl AdtItem {
    /// Adds the declarations of an `impl` block.
    fn implement(&mut self, block: &syn::ItemImpl) {
        self.attrs.extend(block.attrs.iter().cloned());
        let last = |path: &syn::Path| path.segments.last().map(|last| last.ident.to_string());
        let name = block.trait_.as_ref().map(|(path, _)| last(path).unwrap_or_default());
        for item in &block.items {
            match (item, name.as_deref()) {
                (syn::ImplItem::Fn(method), None) => {
                    self.methods.push((method.sig.ident.to_string(), Rc::new(method.clone())));
                }
                (syn::ImplItem::Const(constant), None) => {
                    self.attrs.extend(constant.attrs.iter().cloned());
                    self.constants.push((constant.ident.to_string(), Rc::new(constant.clone())));
                }
                (syn::ImplItem::Fn(method), Some("Default")) if method.sig.ident == "default" => {
                    self.default = Some(DefaultImpl::Manual(Rc::new(method.clone())));
                }
                _ => {}
            }
        }
        self.implements = name.filter(|name| name != "Default").or(self.implements.take());
    }

    fn type_params(&self) -> Vec<String> {
        self.generics.type_params().map(|param| param.ident.to_string()).collect()
    }

    /// Returns the integer type of its discriminants.
    fn repr(&self) -> IntTy {
        let mut repr = IntTy::Isize;
        for attr in self.attrs.iter().filter(|attr| attr.path().is_ident("repr")) {
            let result = attr.parse_nested_meta(|meta| {
                let int = meta.path.get_ident().and_then(|ident| IntTy::from_name(&ident.to_string()));
                repr = int.unwrap_or(repr);
                Ok(())
            });
            drop(result);
        }
        repr
    }
}

impl HirBuilder<'_> {
    /// Returns the number of the struct or enum that a type name refers to in a scope, if it is one.
    pub(super) fn adt_id(&mut self, scope: usize, name: &str) -> Option<AdtId> {
        let Some(TypeItem::Adt(found, known)) = self.scopes[scope].types.get(name).cloned() else { return None };
        if known.is_some() {
            return known;
        }
        let id = self.adts.len() as AdtId;
        self.adts.push(Adt {
            name: Arc::from(name),
            is_enum: found.is_enum,
            variants: Vec::new(),
            methods: Vec::new(),
        });
        self.declared.push((scope, Rc::clone(&found)));
        self.scopes[scope].types.insert(name.to_owned(), TypeItem::Adt(Rc::clone(&found), Some(id)));
        self.attributes(&found.attrs);
        self.refuse_generics(&found.generics);
        if let Some(implemented) = &found.implements {
            let tok = self.tok(found.ident.span());
            let what =
                format!("`{implemented}` is implemented manually for `{name}`, which is not evaluated at compile time");
            let help = format!("derive it, or write functions and methods instead; {AT_RUN_TIME}");
            self.refuse(tok, what, help);
        }
        let tok = self.tok(found.ident.span());
        let generics = std::mem::replace(&mut self.generics, found.type_params());
        let numbered = found.variants.iter().zip(0..);
        self.adts[id as usize].variants = self.nested(
            tok,
            |_| Vec::new(),
            |this| numbered.map(|(variant, index)| this.variant(id, scope, variant, index, found.repr())).collect(),
        );
        self.generics = generics;
        for name in self.called.clone() {
            self.method(id, &name);
        }
        Some(id)
    }

    fn variant(&mut self, id: AdtId, scope: usize, item: &VariantItem, index: u32, repr: IntTy) -> Variant {
        let fields = match &item.fields {
            syn::Fields::Unit => Fields::Unit,
            syn::Fields::Unnamed(fields) => Fields::Tuple(fields.unnamed.len()),
            syn::Fields::Named(fields) => {
                let names = fields.named.iter().filter_map(|field| field.ident.as_ref());
                Fields::Named(names.map(|name| Arc::from(name.to_string())).collect())
            }
        };
        let outer = (std::mem::replace(&mut self.scope, scope), self.self_adt.replace(id));
        let types = item.fields.iter().map(|field| self.ty(&field.ty)).collect();
        (self.scope, self.self_adt) = outer;
        let discriminant = item.discriminant.as_ref().map(|value| {
            let constant = self.new_constant();
            let ty = syn::Ident::new(repr.name(), item.ident.span());
            self.constant(constant, scope, Some(id), &syn::parse_quote!(#ty), value);
            constant
        });
        let name = Arc::from(item.ident.to_string());
        Variant { shape: Arc::new(Shape { name, index, fields }), types, discriminant }
    }

    /// Returns the type parameters of the type whose items are lowered.
    pub(super) fn own_type_params(&self) -> Vec<String> {
        self.self_adt.map_or_else(Vec::new, |id| self.declared[id as usize].1.type_params())
    }

    /// Returns the struct or enum that a type name refers to here.
    pub(super) fn adt_named(&mut self, name: &str) -> Option<AdtId> {
        if name == "Self" && self.self_adt.is_some() {
            return self.self_adt;
        }
        let scope = self.find_type(name)?;
        match self.scopes[scope].types[name].clone() {
            TypeItem::Adt(..) => self.adt_id(scope, name),
            TypeItem::Alias(alias) => match self.alias(scope, &alias) {
                TypeExpr::TyCon(TyCon::Adt(id), _) => Some(id),
                _ => None,
            },
            TypeItem::Other(_) => None,
        }
    }

    /// Returns the variant or struct that a path names, if the user defined it.
    pub(super) fn constructor(&mut self, path: &syn::Path) -> Option<(AdtId, u32)> {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        let names = names.strip_prefix(&["self".to_owned()]).unwrap_or(&names);
        match names {
            [name] => {
                if let Some(scope) = self.find_item(name)
                    && let Item::Variant(scope, ty, variant) = self.scopes[scope].values[name].clone()
                {
                    return Some((self.adt_id(scope, &ty)?, variant));
                }
                let id = self.adt_named(name)?;
                (!self.adts[id as usize].is_enum).then_some((id, 0))
            }
            [ty, name] => {
                let id = self.adt_named(ty)?;
                Some((id, self.variant_named(id, name)?))
            }
            _ => None,
        }
    }

    /// Returns the number of an enum's variant.
    fn variant_named(&self, id: AdtId, name: &str) -> Option<u32> {
        let (_, item) = &self.declared[id as usize];
        let index = item.variants.iter().position(|variant| item.is_enum && variant.ident == name)?;
        Some(index as u32)
    }

    /// Returns a variant by its name alone: the value if it has no fields, otherwise its constructor.
    pub(super) fn constructor_expr(&mut self, id: AdtId, variant: u32) -> ExprKind {
        // The fields of a type that is being lowered are not known yet.
        match self.declared[id as usize].1.variants[variant as usize].fields {
            syn::Fields::Unit => ExprKind::Struct(id, variant, Vec::new(), None),
            _ => ExprKind::Constructor(id, variant),
        }
    }

    /// Returns what `Type::name` refers to for a struct or enum of the user.
    pub(super) fn associated(&mut self, id: AdtId, name: &str) -> Option<ExprKind> {
        if let Some(variant) = self.variant_named(id, name) {
            return Some(self.constructor_expr(id, variant));
        }
        if let Some(constant) = self.associated_constant(id, name) {
            return Some(ExprKind::Constant(constant));
        }
        let function = self.method(id, name);
        let function = function.or_else(|| if name == "default" { self.method(id, DEFAULT) } else { None });
        function.map(ExprKind::Function)
    }

    fn associated_constant(&mut self, id: AdtId, name: &str) -> Option<ConstId> {
        if let Some(known) = self.adt_constants.get(&(id, name.to_owned())) {
            return Some(*known);
        }
        let (scope, item) = &self.declared[id as usize];
        let (_, item) = item.constants.iter().find(|(other, _)| other == name)?;
        let (scope, item) = (*scope, Rc::clone(item));
        let constant = self.new_constant();
        self.adt_constants.insert((id, name.to_owned()), constant);
        self.constant(constant, scope, Some(id), &item.ty, &item.expr);
        Some(constant)
    }

    /// Records that a method of this name is called somewhere.
    pub(super) fn method_called(&mut self, name: &Arc<str>) {
        if !self.called.contains(name) {
            self.called.push(Arc::clone(name));
            for id in 0..self.declared.len() as AdtId {
                self.method(id, name);
            }
        }
    }

    /// Returns a method or associated function with a name, which is lowered later; [`DEFAULT`] names that of
    /// `Default`.
    pub(super) fn method(&mut self, id: AdtId, name: &str) -> Option<FnId> {
        let known = self.adts[id as usize].methods.iter().find(|(other, _)| &**other == name);
        if let Some((_, function)) = known {
            return Some(*function);
        }
        let (scope, item) = &self.declared[id as usize];
        let body = match &item.default {
            Some(DefaultImpl::Derived) if name == DEFAULT => Body::Default(id),
            Some(DefaultImpl::Manual(function)) if name == DEFAULT => Body::Method(Rc::clone(function)),
            _ => Body::Method(Rc::clone(&item.methods.iter().find(|(other, _)| other == name)?.1)),
        };
        let function = self.enqueue(body, *scope, Some(id));
        self.adts[id as usize].methods.push((Arc::from(name), function));
        Some(function)
    }

    /// Returns the value of a derived `Default`.
    pub(super) fn derived_default(&mut self, id: AdtId) -> Expr {
        let item = Rc::clone(&self.declared[id as usize].1);
        let tok = self.tok(item.ident.span());
        let Some(index) = item.variants.iter().position(|variant| variant.is_default) else {
            return self.type_error(tok, "this enum has no default variant");
        };
        let fields = item.variants[index].fields.iter().zip(0..);
        let fields = fields.map(|(field, number)| (number, self.default_of(&field.ty, tok))).collect();
        self.expr(ExprKind::Struct(id, index as u32, fields, None), tok)
    }

    /// Returns the default value of a type.
    pub(super) fn default_of(&mut self, ty: &syn::Type, tok: SpanId) -> Expr {
        let kind = match ty {
            syn::Type::Paren(ty) => return self.default_of(&ty.elem, tok),
            syn::Type::Group(ty) => return self.default_of(&ty.elem, tok),
            syn::Type::Tuple(ty) if !ty.elems.is_empty() => {
                ExprKind::Tuple(ty.elems.iter().map(|ty| self.default_of(ty, tok)).collect())
            }
            // The length of an array is not known from its type here.
            syn::Type::Array(ty) => {
                let (item, len) = (self.default_of(&ty.elem, tok), self.boxed_expression(&ty.len));
                ExprKind::Repeat(Box::new(item), len, TyCon::Array)
            }
            ty => {
                let ty = self.ty(ty);
                let value = self.default_call(tok);
                ExprKind::Typed(Box::new(value), ty)
            }
        };
        self.expr(kind, tok)
    }

    /// Returns `Default::default()`, of the type that inference finds.
    pub(super) fn default_call(&mut self, tok: SpanId) -> Expr {
        self.method_called(&Arc::from(DEFAULT));
        let kind = lang::path_fn("Default", "default").map_or(ExprKind::Error, |f| ExprKind::CallPath(f, Vec::new()));
        self.expr(kind, tok)
    }
}
