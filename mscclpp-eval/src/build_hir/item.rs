//! Functions, constants and imports. Functions and constants are lowered when they are first named, so that a module
//! may also contain items that cannot be evaluated, as long as no collective uses them.

use std::rc::Rc;

use mscclpp_core::diag::Code;
use proc_macro2::Span;

use super::HirBuilder;
use super::scope::{Frame, Import, Item, Scope, TypeItem};
use crate::hir::{AdtId, ConstId, Constant, ExprKind, FnId, Function, Pattern, TyCon, TypeExpr};
use crate::report::AT_RUN_TIME;

/// The items around a collective: those of its `#[collectives]` module, or none.
#[derive(Clone, Default)]
pub(crate) struct Items {
    scope: Scope,
}

impl Items {
    /// Returns the items of a module.
    pub(crate) fn of_module(list: &[syn::Item]) -> Self {
        Self { scope: scope_of(list.iter()) }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope.clone()
    }
}

/// A function that has been named and is lowered later.
pub(super) struct Pending {
    id: FnId,
    body: Body,
    scope: usize,
    self_adt: Option<AdtId>,
}

/// Source of a function.
pub(super) enum Body {
    Fn(Rc<syn::ItemFn>),
    Method(Rc<syn::ImplItemFn>),
    /// The function of a derived `Default`.
    Default(AdtId),
}

/// Returns the names that items declare.
fn scope_of<'a>(items: impl Iterator<Item = &'a syn::Item> + Clone) -> Scope {
    let mut scope = Scope::default();
    for item in items.clone() {
        let mut value = |ident: &syn::Ident, item| drop(scope.values.insert(ident.to_string(), item));
        let mut ty = |ident: &syn::Ident, item| drop(scope.types.insert(ident.to_string(), item));
        match item {
            syn::Item::Fn(item) => value(&item.sig.ident, Item::Fn(Rc::new(item.clone()), None)),
            syn::Item::Const(item) => value(&item.ident, Item::Const(Rc::new(item.clone()), None)),
            syn::Item::Static(item) => value(&item.ident, Item::Other("statics are not evaluated, make it a `const`")),
            syn::Item::Type(item) => ty(&item.ident, TypeItem::Alias(Rc::new(item.clone()))),
            syn::Item::Union(item) => ty(&item.ident, TypeItem::Other("a union")),
            syn::Item::Use(item) => imports_of(&item.tree, &mut Vec::new(), &mut scope.imports),
            _ => {}
        }
    }
    for found in super::adt::adts_of(items) {
        scope.types.insert(found.ident.to_string(), TypeItem::Adt(Rc::new(found), None));
    }
    scope
}

/// Collects the imports of a tree below `path`, except those under another name.
fn imports_of(tree: &syn::UseTree, path: &mut Vec<String>, imports: &mut Vec<Import>) {
    match tree {
        syn::UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            imports_of(&inner.tree, path, imports);
            path.pop();
        }
        syn::UseTree::Name(name) => imports.push(Import { path: path.clone(), name: Some(name.ident.to_string()) }),
        syn::UseTree::Glob(_) => imports.push(Import { path: path.clone(), name: None }),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| imports_of(tree, path, imports)),
        _ => {}
    }
}

/// Returns whether a receiver is `&mut self`.
fn changes(receiver: &syn::Receiver) -> bool {
    match &receiver.kind {
        syn::ReceiverKind::Reference(_, _, Some(_)) => true,
        syn::ReceiverKind::Typed(_, ty) => matches!(&**ty, syn::Type::Reference(ty) if ty.mutability.is_some()),
        _ => false,
    }
}

impl HirBuilder<'_> {
    /// Lowers the collective and everything that it names.
    pub(super) fn run(&mut self, collective: &Rc<syn::ItemFn>) {
        self.resolve_imports(0);
        self.enqueue(Body::Fn(Rc::clone(collective)), 0, None);
        while let Some(pending) = self.queue.pop() {
            self.function(&pending);
        }
    }

    /// Adds a scope with the items of a block.
    pub(super) fn block_scope<'a>(&mut self, items: impl Iterator<Item = &'a syn::Item> + Clone) -> usize {
        for item in items.clone() {
            self.refuse_item(item);
        }
        self.scopes.push(Scope { parent: Some(self.scope), ..scope_of(items.clone()) });
        let index = self.scopes.len() - 1;
        items.for_each(|item| self.refuse_distant_impl(item, index));
        self.resolve_imports(index);
        index
    }

    /// Makes visible the variants that a scope imports from enums that are declared where the macro sees them.
    fn resolve_imports(&mut self, index: usize) {
        for Import { path, name } in std::mem::take(&mut self.scopes[index].imports) {
            let ([ty] | [_, ty]) = path.as_slice() else { continue };
            if path.len() == 2 && path[0] != "self" {
                continue;
            }
            let outer = std::mem::replace(&mut self.scope, index);
            let found = self.find_type(ty);
            self.scope = outer;
            let Some(found) = found else { continue };
            let TypeItem::Adt(item, _) = &self.scopes[found].types[ty] else { continue };
            let variants: Vec<_> = item.variants.iter().map(|variant| variant.ident.to_string()).zip(0..).collect();
            for (variant, number) in variants {
                let wanted = name.as_ref().is_none_or(|name| *name == variant);
                // Declarations of a scope take precedence over its imports by `*`.
                if wanted && (name.is_some() || !self.scopes[index].values.contains_key(&variant)) {
                    self.scopes[index].values.insert(variant, Item::Variant(found, ty.clone(), number));
                }
            }
        }
    }

    /// Rejects items within a body that could change what is evaluated.
    fn refuse_item(&mut self, item: &syn::Item) {
        match item {
            syn::Item::Use(item) => self.imports(&item.tree, true),
            syn::Item::Macro(item) => {
                let tok = self.spans.tokens(&item.mac.path);
                self.refuse(tok, "macros declared in a body are not evaluated at compile time", "write a function");
            }
            _ => {}
        }
    }

    /// Rejects an `impl` block in a body for a type that is declared around it: the type is lowered without the block.
    fn refuse_distant_impl(&mut self, item: &syn::Item, scope: usize) {
        let syn::Item::Impl(block) = item else { return };
        let syn::Type::Path(path) = &*block.self_ty else { return };
        let Some(name) = path.path.get_ident().map(ToString::to_string) else { return };
        let declared = self.find_type(&name).map(|found| &self.scopes[found].types[&name]);
        if !self.scopes[scope].types.contains_key(&name) && matches!(declared, Some(TypeItem::Adt(..))) {
            let tok = self.spans.tokens(&block.self_ty);
            let message = format!("an `impl` block apart from its type `{name}` is not evaluated at compile time");
            self.refuse(tok, message, format!("move it next to `{name}`"));
        }
    }

    /// Rejects imports that give a name of the subset another meaning.
    fn imports(&mut self, tree: &syn::UseTree, first: bool) {
        const KNOWN: [&str; 6] = ["std", "core", "alloc", "mscclpp", "mscclpp_core", "mscclpp_exec"];
        match tree {
            syn::UseTree::Path(path) if first && KNOWN.contains(&path.ident.to_string().as_str()) => {}
            syn::UseTree::Path(path) => self.imports(&path.tree, false),
            syn::UseTree::Name(name) if crate::lang::has_type(&name.ident.to_string()) => {
                let tok = self.tok(name.ident.span());
                let name = name.ident.to_string();
                self.refuse(
                    tok,
                    format!("`{name}` would not be the `{name}` of the standard library here"),
                    "rename it",
                );
            }
            syn::UseTree::Rename(rename) if rename.rename != "_" => {
                let tok = self.tok(rename.rename.span());
                self.refuse(tok, "imports under another name are not evaluated at compile time", "use the name itself");
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.imports(tree, first)),
            _ => {}
        }
    }

    /// Returns the number of a function, which is lowered later.
    pub(super) fn enqueue(&mut self, body: Body, scope: usize, self_adt: Option<AdtId>) -> FnId {
        let id = self.functions.len() as FnId;
        self.functions.push(None);
        self.queue.push(Pending { id, body, scope, self_adt });
        id
    }

    fn function(&mut self, pending: &Pending) {
        self.scope = pending.scope;
        self.self_adt = pending.self_adt;
        self.frames = vec![Frame::default()];
        let (sig, block, attrs) = match &pending.body {
            Body::Fn(item) => (&item.sig, &*item.block, &item.attrs),
            Body::Method(item) => (&item.sig, &item.block, &item.attrs),
            Body::Default(adt) => {
                let body = self.derived_default(*adt);
                let (output, tok) = (TypeExpr::TyCon(TyCon::Adt(*adt), Vec::new()), body.tok);
                let function = Function { params: Vec::new(), output, body, slots: 0, changes_self: false, tok };
                self.functions[pending.id as usize] = Some(function);
                return;
            }
        };
        if pending.id != 0 {
            self.attributes(attrs);
        }
        self.signature(sig);
        let params = sig.inputs.iter().map(|input| self.param(input)).collect();
        let output = self.return_type(&sig.output);
        let body = self.block(block, None);
        let tok = self.tok(sig.ident.span());
        let slots = self.frame().slots;
        let changes_self = matches!(sig.inputs.first(), Some(syn::FnArg::Receiver(receiver)) if changes(receiver));
        self.functions[pending.id as usize] = Some(Function { params, output, body, slots, changes_self, tok });
    }

    fn signature(&mut self, sig: &syn::Signature) {
        let help = "a function of the subset has plain parameters; closures are taken as `impl Fn(…)`";
        let modifier = sig
            .asyncness
            .as_ref()
            .map(|token| (token.span, "`async` functions"))
            .or_else(|| sig.abi.as_ref().map(|abi| (abi.extern_token.span, "functions with an ABI")))
            .or_else(|| sig.variadic.as_ref().map(|variadic| (variadic.dots.spans[0], "variadic functions")))
            .or(match &sig.safety {
                syn::Safety::Unsafe(token) => Some((token.span, "`unsafe` functions")),
                _ => None,
            });
        if let Some((span, what)) = modifier {
            let tok = self.tok(span);
            self.refuse(tok, format!("{what} are not evaluated at compile time"), help);
        }
        self.generics = self.own_type_params();
        self.generics.extend(sig.generics.type_params().map(|param| param.ident.to_string()));
        for param in &sig.generics.params {
            if !matches!(param, syn::GenericParam::Lifetime(_)) {
                let tok = self.spans.tokens(param);
                self.refuse(tok, "generic functions are not evaluated at compile time", help);
            }
        }
    }

    fn param(&mut self, input: &syn::FnArg) -> (Pattern, TypeExpr) {
        match input {
            syn::FnArg::Receiver(receiver) => {
                self.attributes(&receiver.attrs);
                let tok = self.tok(receiver.self_token.span);
                let slot = self.declare("self".to_owned());
                let ty = match self.self_adt {
                    Some(id) => TypeExpr::TyCon(TyCon::Adt(id), Vec::new()),
                    None => TypeExpr::Infer,
                };
                (self.pat(crate::hir::PatternKind::Bind(slot, None), tok), ty)
            }
            syn::FnArg::Typed(typed) => {
                self.attributes(&typed.attrs);
                let ty = self.ty(&typed.ty);
                (self.pattern(&typed.pat), ty)
            }
        }
    }

    /// Returns a function or constant by name, as an expression.
    pub(super) fn item_expr(&mut self, name: &str, span: Span) -> Option<ExprKind> {
        let scope = self.find_item(name)?;
        Some(match self.scopes[scope].values[name].clone() {
            Item::Fn(_, Some(id)) => ExprKind::Function(id),
            Item::Fn(item, None) => {
                let id = self.enqueue(Body::Fn(Rc::clone(&item)), scope, None);
                self.scopes[scope].values.insert(name.to_owned(), Item::Fn(item, Some(id)));
                ExprKind::Function(id)
            }
            Item::Const(_, Some(id)) => ExprKind::Constant(id),
            Item::Const(item, None) => {
                let id = self.new_constant();
                self.scopes[scope].values.insert(name.to_owned(), Item::Const(Rc::clone(&item), Some(id)));
                self.attributes(&item.attrs);
                self.constant(id, scope, None, &item.ty, &item.expr);
                ExprKind::Constant(id)
            }
            Item::Variant(scope, ty, variant) => {
                let id = self.adt_id(scope, &ty)?;
                self.constructor_expr(id, variant)
            }
            Item::Other(why) => {
                let tok = self.tok(span);
                self.report
                    .error(Code::UnresolvedName, tok, format!("`{name}` cannot be read at compile time: {why}"))
                    .help(AT_RUN_TIME);
                ExprKind::Error
            }
        })
    }

    /// Returns the number of a constant that [`Self::constant`] lowers: it may name itself.
    pub(super) fn new_constant(&mut self) -> ConstId {
        self.constants.push(None);
        (self.constants.len() - 1) as ConstId
    }

    /// Lowers a constant of a scope, or of a type in it.
    pub(super) fn constant(
        &mut self,
        id: ConstId,
        scope: usize,
        self_adt: Option<AdtId>,
        ty: &syn::Type,
        value: &syn::Expr,
    ) {
        let outer = (
            std::mem::replace(&mut self.scope, scope),
            std::mem::replace(&mut self.frames, vec![Frame::default()]),
            std::mem::replace(&mut self.self_adt, self_adt),
        );
        let ty = self.ty(ty);
        let value = self.expression(value);
        let slots = self.frame().slots;
        (self.scope, self.frames, self.self_adt) = outer;
        self.constants[id as usize] = Some(Constant { ty, value, slots });
    }
}
