//! Functions, constants and structs. They are lowered when something names them, so that a module may also hold what
//! cannot be evaluated, as long as no collective uses it.

use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::diag::Code;
use proc_macro2::Span;

use super::scope::{Frame, Item, Scope, StructItem, TypeItem};
use super::{AT_RUN_TIME, Lower};
use crate::ast::{ConstId, Constant, ExprKind, FnId, Function, Pattern, Struct, StructId, TypeExpr};

/// The items around a collective: those of its `#[collectives]` module, or none.
#[derive(Clone, Default)]
pub(crate) struct Items {
    scope: Scope,
}

impl Items {
    /// The items of a module.
    pub(crate) fn of_module(list: &[syn::Item]) -> Self {
        Self { scope: scope_of(list.iter()) }
    }

    pub(super) fn scope(&self) -> Scope {
        self.scope.clone()
    }
}

/// A function that has been named and waits to be lowered.
pub(super) struct Pending {
    id: FnId,
    body: Body,
    scope: usize,
    self_struct: Option<StructId>,
}

/// Where a function is written.
enum Body {
    Fn(Rc<syn::ItemFn>),
    Method(Rc<syn::ImplItemFn>),
}

/// The names that items declare.
fn scope_of<'a>(items: impl Iterator<Item = &'a syn::Item> + Clone) -> Scope {
    let mut scope = Scope::default();
    let mut structs = Vec::new();
    for item in items.clone() {
        let mut value = |ident: &syn::Ident, item| drop(scope.values.insert(ident.to_string(), item));
        let mut ty = |ident: &syn::Ident, item| drop(scope.types.insert(ident.to_string(), item));
        match item {
            syn::Item::Fn(item) => value(&item.sig.ident, Item::Fn(Rc::new(item.clone()), None)),
            syn::Item::Const(item) => value(&item.ident, Item::Const(Rc::new(item.clone()), None)),
            syn::Item::Static(item) => value(&item.ident, Item::Other("statics are not evaluated, make it a `const`")),
            syn::Item::Type(item) => ty(&item.ident, TypeItem::Alias(Rc::new(item.clone()))),
            syn::Item::Enum(item) => ty(&item.ident, TypeItem::Other("an enum")),
            syn::Item::Union(item) => ty(&item.ident, TypeItem::Other("a union")),
            syn::Item::Struct(item) => structs.push(StructItem {
                item: item.clone(),
                methods: Vec::new(),
                attrs: item.attrs.iter().chain(item.fields.iter().flat_map(|field| &field.attrs)).cloned().collect(),
                has_trait: false,
            }),
            _ => {}
        }
    }
    for item in items {
        if let syn::Item::Impl(block) = item
            && let syn::Type::Path(path) = &*block.self_ty
            && let Some(last) = path.path.segments.last()
            && let Some(found) = structs.iter_mut().find(|found| found.item.ident == last.ident)
        {
            found.has_trait |= block.trait_.is_some();
            found.attrs.extend(block.attrs.iter().cloned());
            found.methods.extend(block.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(method) => Some((method.sig.ident.to_string(), Rc::new(method.clone()))),
                _ => None,
            }));
        }
    }
    for found in structs {
        scope.types.insert(found.item.ident.to_string(), TypeItem::Struct(Rc::new(found), None));
    }
    scope
}

/// Whether a receiver is `&mut self`.
fn changes(receiver: &syn::Receiver) -> bool {
    matches!(&receiver.kind, syn::ReceiverKind::Reference(_, _, Some(_)))
}

impl Lower<'_> {
    /// Lowers the collective and everything that it names.
    pub(super) fn run(&mut self, collective: &Rc<syn::ItemFn>) {
        self.enqueue(Body::Fn(Rc::clone(collective)), 0, None);
        while let Some(pending) = self.queue.pop() {
            self.function(&pending);
        }
    }

    /// A scope of the items of a block.
    pub(super) fn block_scope<'a>(&mut self, items: impl Iterator<Item = &'a syn::Item> + Clone) -> usize {
        for item in items.clone() {
            self.refuse_item(item);
        }
        self.scopes.push(Scope { parent: Some(self.scope), ..scope_of(items) });
        self.scopes.len() - 1
    }

    /// Refuses items within a body that could change what is evaluated.
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

    /// Refuses imports that give a name of the subset another meaning.
    fn imports(&mut self, tree: &syn::UseTree, first: bool) {
        const KNOWN: [&str; 6] = ["std", "core", "alloc", "mscclpp", "mscclpp_core", "mscclpp_exec"];
        match tree {
            syn::UseTree::Path(path) if first && KNOWN.contains(&path.ident.to_string().as_str()) => {}
            syn::UseTree::Path(path) => self.imports(&path.tree, false),
            syn::UseTree::Name(name) if crate::lang::knows_type(&name.ident.to_string()) => {
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

    /// The number of a function, which is lowered later.
    fn enqueue(&mut self, body: Body, scope: usize, self_struct: Option<StructId>) -> FnId {
        let id = self.functions.len() as FnId;
        self.functions.push(None);
        self.queue.push(Pending { id, body, scope, self_struct });
        id
    }

    fn function(&mut self, pending: &Pending) {
        let (sig, block, attrs) = match &pending.body {
            Body::Fn(item) => (&item.sig, &*item.block, &item.attrs),
            Body::Method(item) => (&item.sig, &item.block, &item.attrs),
        };
        self.scope = pending.scope;
        self.self_struct = pending.self_struct;
        self.frames = vec![Frame::default()];
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
        self.generics = sig.generics.type_params().map(|param| param.ident.to_string()).collect();
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
                let ty = match self.self_struct {
                    Some(id) => TypeExpr::Con(crate::ast::Con::Struct(id), Vec::new()),
                    None => TypeExpr::Infer,
                };
                (self.pat(crate::ast::PatternKind::Bind(slot, None), tok), ty)
            }
            syn::FnArg::Typed(typed) => {
                self.attributes(&typed.attrs);
                let ty = self.ty(&typed.ty);
                (self.pattern(&typed.pat), ty)
            }
        }
    }

    /// A function or constant by name, as an expression.
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
            Item::Const(item, None) => ExprKind::Constant(self.constant(scope, name, item)),
            Item::Other(why) => {
                let tok = self.tok(span);
                self.report
                    .error(Code::OutsideName, tok, format!("`{name}` cannot be read at compile time: {why}"))
                    .help(AT_RUN_TIME);
                ExprKind::Error
            }
        })
    }

    fn constant(&mut self, scope: usize, name: &str, item: Rc<syn::ItemConst>) -> ConstId {
        let id = self.constants.len() as ConstId;
        self.constants.push(None);
        self.scopes[scope].values.insert(name.to_owned(), Item::Const(Rc::clone(&item), Some(id)));
        let outer = (
            std::mem::replace(&mut self.scope, scope),
            std::mem::replace(&mut self.frames, vec![Frame::default()]),
            self.self_struct.take(),
        );
        self.attributes(&item.attrs);
        let ty = self.ty(&item.ty);
        let value = self.expression(&item.expr);
        let slots = self.frame().slots;
        (self.scope, self.frames, self.self_struct) = outer;
        self.constants[id as usize] = Some(Constant { ty, value, slots });
        id
    }

    /// The number of the struct that a type name means here, if it is one.
    pub(super) fn struct_id(&mut self, scope: usize, name: &str) -> Option<StructId> {
        let Some(TypeItem::Struct(found, known)) = self.scopes[scope].types.get(name).cloned() else { return None };
        if known.is_some() {
            return known;
        }
        let id = self.structs.len() as StructId;
        self.structs.push(Struct { name: Arc::from(name), fields: Vec::new(), methods: Vec::new() });
        self.scopes[scope].types.insert(name.to_owned(), TypeItem::Struct(Rc::clone(&found), Some(id)));
        self.attributes(&found.attrs);
        for param in &found.item.generics.params {
            if !matches!(param, syn::GenericParam::Lifetime(_)) {
                let tok = self.spans.tokens(param);
                self.refuse(tok, "generic structs are not evaluated at compile time", "write the types out");
            }
        }
        if found.has_trait {
            let tok = self.tok(found.item.ident.span());
            let what = format!("traits implemented by hand for `{name}` are not evaluated at compile time");
            self.refuse(tok, what, "derive them, or write functions and methods instead");
        }
        let outer = std::mem::replace(&mut self.scope, scope);
        let fields = found.item.fields.iter().enumerate().map(|(index, field)| {
            let name = field.ident.as_ref().map_or_else(|| index.to_string(), ToString::to_string);
            (Arc::from(name), self.ty(&field.ty))
        });
        self.structs[id as usize].fields = fields.collect();
        self.scope = outer;
        self.declared.push((scope, found));
        for name in self.called.clone() {
            self.method(id, &name);
        }
        Some(id)
    }

    /// Notes that a method of this name is called somewhere.
    pub(super) fn method_called(&mut self, name: &Arc<str>) {
        if !self.called.contains(name) {
            self.called.push(Arc::clone(name));
            for id in 0..self.declared.len() as StructId {
                self.method(id, name);
            }
        }
    }

    /// A struct's method or associated function of a name, which is lowered later.
    pub(super) fn method(&mut self, id: StructId, name: &str) -> Option<FnId> {
        let known = self.structs[id as usize].methods.iter().find(|(other, _)| &**other == name);
        if let Some((_, function)) = known {
            return Some(*function);
        }
        let (scope, found) = &self.declared[id as usize];
        let (_, method) = found.methods.iter().find(|(other, _)| other == name)?;
        let (scope, method) = (*scope, Rc::clone(method));
        let function = self.enqueue(Body::Method(method), scope, Some(id));
        self.structs[id as usize].methods.push((Arc::from(name), function));
        Some(function)
    }
}
