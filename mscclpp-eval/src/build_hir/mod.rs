//! Converts `syn`'s tree to the tree that is evaluated. Everything outside the subset is rejected here or by type
//! inference, in the whole body and before its first step runs.

mod adt;
mod attributes;
mod call;
mod closure;
mod control;
mod expr;
mod item;
mod macros;
mod method;
mod path;
mod pattern;
mod scope;
mod stmt;
mod ty;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use mscclpp_core::diag::Code;
use proc_macro2::Span;

use crate::hir::{
    Adt, AdtId, Closure, ConstId, Constant, Expr, ExprKind, Function, NodeId, Pattern, PatternKind, SpanId, Tree,
};
use crate::report::Report;
use crate::spans::Spans;
use adt::AdtItem;
use scope::{Frame, Scope};

pub(crate) use item::Items;
pub(crate) use macros::macros;

/// Maximum nesting depth of expressions, types and patterns.
const MAX_NESTING: u32 = 128;

/// Lowers one collective, with everything of `items` that it reaches, into a tree. Errors go to `report`; the tree is
/// to be evaluated only if there are none.
pub(crate) fn build_hir(items: &Items, collective: &Rc<syn::ItemFn>, spans: &mut Spans, report: &mut Report) -> Tree {
    let mut lower = HirBuilder {
        spans,
        report,
        scopes: vec![items.scope()],
        frames: Vec::new(),
        functions: Vec::new(),
        closures: Vec::new(),
        constants: Vec::new(),
        adts: Vec::new(),
        adt_constants: BTreeMap::new(),
        queue: Vec::new(),
        called: Vec::new(),
        declared: Vec::new(),
        self_adt: None,
        generics: Vec::new(),
        unresolved: Vec::new(),
        scope: 0,
        nodes: 0,
        nesting: 0,
    };
    lower.run(collective);
    Tree {
        functions: lower.functions.into_iter().flatten().collect(),
        closures: lower.closures,
        constants: lower.constants.into_iter().flatten().collect(),
        adts: lower.adts,
        nodes: lower.nodes,
    }
}

/// Kind of a name that is defined outside.
#[derive(Clone, Copy)]
enum Outside {
    Value,
    Function,
    Type,
}

/// The state of lowering.
struct HirBuilder<'r> {
    spans: &'r mut Spans,
    report: &'r mut Report,
    scopes: Vec<Scope>,
    frames: Vec<Frame>,
    functions: Vec<Option<Function>>,
    closures: Vec<Closure>,
    constants: Vec<Option<Constant>>,
    adts: Vec<Adt>,
    /// Associated constants that have been named.
    adt_constants: BTreeMap<(AdtId, String), ConstId>,
    queue: Vec<item::Pending>,
    /// Names of all methods that are called somewhere; a type's methods are lowered when their names occur.
    called: Vec<Arc<str>>,
    /// Scope and declaration of each struct and enum.
    declared: Vec<(usize, Rc<AdtItem>)>,
    /// What `Self` refers to here.
    self_adt: Option<AdtId>,
    /// Type parameters of the function that is being lowered; they have been rejected.
    generics: Vec<String>,
    /// Names that have been rejected because the macro cannot see them.
    unresolved: Vec<String>,
    /// The scope of the code that is being lowered.
    scope: usize,
    nodes: u32,
    nesting: u32,
}

impl HirBuilder<'_> {
    fn node(&mut self) -> NodeId {
        self.nodes += 1;
        self.nodes - 1
    }

    fn expr(&mut self, kind: ExprKind, tok: SpanId) -> Expr {
        Expr { kind, tok, id: self.node() }
    }

    fn pat(&mut self, kind: PatternKind, tok: SpanId) -> Pattern {
        Pattern { kind, tok, id: self.node() }
    }

    fn tok(&mut self, span: Span) -> SpanId {
        self.spans.one(span)
    }

    /// Rejects a construct. `what` names it in Rust's terms, `help` says what to write instead.
    fn refuse(&mut self, tok: SpanId, what: impl Into<String>, help: impl Into<String>) {
        self.report.error(Code::NotInSubset, tok, what).help(help);
    }

    fn refused(&mut self, tok: SpanId, what: impl Into<String>, help: impl Into<String>) -> Expr {
        self.refuse(tok, what, help);
        self.expr(ExprKind::Error, tok)
    }

    /// Runs `inner` one level deeper, or rejects code that is nested too deep.
    fn nested<T>(
        &mut self,
        tok: SpanId,
        fallback: impl FnOnce(&mut Self) -> T,
        inner: impl FnOnce(&mut Self) -> T,
    ) -> T {
        if self.nesting >= MAX_NESTING {
            self.refuse(
                tok,
                format!("this is nested more than {MAX_NESTING} levels deep"),
                "take parts of it into `let` statements or functions",
            );
            return fallback(self);
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }
}
