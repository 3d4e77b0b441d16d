//! Type inference: which integer type every expression has, which function every method call means, what is collected
//! into what. rustc checks the same code in full; this finds what evaluation depends on, in the same order, and refuses
//! what it cannot follow.
//!
//! Types are Rust's without references and lifetimes. There is no generic code in the subset, so every expression has one
//! type, and an integer that nothing constrains is an `i32` here for the same reason as there.

mod call;
mod control;
mod expr;
mod finish;
mod found;
mod pattern;
pub(crate) mod sig;
pub(crate) mod store;

use mscclpp_core::diag::Code;

use crate::hir::{AdtId, Expr, IntTy, LabelId, NodeId, Pattern, Slot, SpanId, Tree, TyCon, TypeExpr};
use crate::report::Report;
pub(crate) use found::{Conversion, Target, Types};
use store::{Store, Ty};

/// Infers the types of a tree. `params` are those of the collective after its program.
pub(crate) fn infer(tree: &Tree, report: &mut Report) -> Types {
    let unknown = Ty::default();
    let mut infer = Infer {
        tree,
        report,
        store: Store::default(),
        types: Vec::new(),
        targets: vec![Target::None; tree.nodes as usize],
        made: Vec::new(),
        functions: Vec::new(),
        constants: Vec::new(),
        adts: Vec::new(),
        wanted: Vec::new(),
        tries: Vec::new(),
        frames: Vec::new(),
        pending: Vec::new(),
        checks: Vec::new(),
        diverges: false,
        failed: false,
    };
    infer.store.var();
    infer.types = vec![unknown; tree.nodes as usize];
    infer.run();
    infer.finish()
}

/// The state of inference.
struct Infer<'a> {
    tree: &'a Tree,
    report: &'a mut Report,
    store: Store,
    types: Vec<Ty>,
    targets: Vec<Target>,
    /// Types that method calls collect into.
    made: Vec<(NodeId, usize, Ty)>,
    functions: Vec<Signature>,
    constants: Vec<Ty>,
    /// The types of fields, by type and variant.
    adts: Vec<Vec<Vec<Ty>>>,
    /// Types whose default is requested.
    wanted: Vec<(NodeId, Ty, SpanId)>,
    /// Calls of `try_into`, with the types that they convert to.
    tries: Vec<(NodeId, Ty)>,
    frames: Vec<Frame>,
    pending: Vec<Pending>,
    checks: Vec<Check>,
    /// Whether the preceding code never ends normally.
    diverges: bool,
    /// Whether an error has been reported; others may follow from it.
    failed: bool,
}

/// A function's types.
#[derive(Clone)]
struct Signature {
    params: Vec<Ty>,
    output: Ty,
}

/// The types in a function or closure body.
struct Frame {
    slots: Vec<Ty>,
    /// Types of the captured variables, for closures.
    captures: Vec<Ty>,
    output: Ty,
    labels: Vec<(LabelId, Ty, bool)>,
}

/// A relation between a collection and its items.
#[derive(Clone, Copy)]
struct Pending {
    collection: Ty,
    item: Ty,
    tok: SpanId,
    relation: Relation,
}

/// Kind of a relation between a collection and its items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// The collection is iterated over.
    Each,
    /// The collection is created from the items.
    Collect,
    /// The collection is an `Option` or a `Result` of the item.
    Try,
}

/// A condition on the final types.
enum Check {
    /// The operands of this operator are integers; the flag also allows booleans.
    Arithmetic { ty: Ty, tok: SpanId, symbol: &'static str, bools: bool },
    /// Conversions take integers and booleans, and `as` enums.
    Cast { from: Ty, to: Ty, tok: SpanId, by_as: bool },
    /// `into` can convert.
    Into { node: NodeId, from: Ty, to: Ty, tok: SpanId },
    /// A type is an integer.
    Int { ty: Ty, tok: SpanId },
    /// The summed items are integers.
    Total { ty: Ty, tok: SpanId },
}

impl Infer<'_> {
    fn run(&mut self) {
        for found in &self.tree.adts {
            let mut variants = Vec::with_capacity(found.variants.len());
            for variant in &found.variants {
                variants.push(variant.types.iter().map(|ty| self.store.written(ty)).collect());
            }
            self.adts.push(variants);
        }
        for function in &self.tree.functions {
            let params = function.params.iter().map(|(_, ty)| self.param(ty)).collect();
            let output = self.store.written(&function.output);
            self.functions.push(Signature { params, output });
        }
        for constant in &self.tree.constants {
            let ty = self.store.written(&constant.ty);
            self.constants.push(ty);
        }
        let tree = self.tree;
        for (index, constant) in tree.constants.iter().enumerate() {
            let ty = self.constants[index];
            self.open(constant.slots, Vec::new(), ty);
            let found = self.expr(&constant.value);
            self.coerce(found, ty, constant.value.tok);
            self.frames.pop();
        }
        for (index, function) in tree.functions.iter().enumerate() {
            let Signature { params, output } = self.functions[index].clone();
            self.open(function.slots, Vec::new(), output);
            for ((pattern, _), ty) in function.params.iter().zip(params) {
                self.pattern(pattern, ty);
            }
            self.body(&function.body, output);
            self.frames.pop();
        }
    }

    /// Returns the type of a parameter: `impl IntoIterator` is an iterator inside the function.
    fn param(&mut self, ty: &TypeExpr) -> Ty {
        match ty {
            TypeExpr::Each(item) => {
                let item = self.store.written(item);
                self.store.con(TyCon::Iter, [item])
            }
            ty => self.store.written(ty),
        }
    }

    fn open(&mut self, slots: u32, captures: Vec<Ty>, output: Ty) {
        let slots = (0..slots).map(|_| self.store.var()).collect();
        self.frames.push(Frame { slots, captures, output, labels: Vec::new() });
    }

    /// Infers a body whose value is the result.
    fn body(&mut self, body: &Expr, output: Ty) {
        let outer = std::mem::replace(&mut self.diverges, false);
        self.arg(body, output);
        self.diverges = outer;
    }

    fn frame(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            let output = self.store.var();
            self.open(0, Vec::new(), output);
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn slot(&mut self, slot: Slot) -> Ty {
        self.frame().slots[slot as usize]
    }

    fn unit(&mut self) -> Ty {
        self.store.plain(TyCon::Unit)
    }

    fn bool(&mut self) -> Ty {
        self.store.plain(TyCon::Bool)
    }

    fn usize(&mut self) -> Ty {
        self.store.int(IntTy::Usize)
    }

    /// Unifies two types. rustc explains a mismatch better.
    fn unify(&mut self, found: Ty, expected: Ty, tok: SpanId) {
        if !self.store.unify(found, expected) {
            let (found, expected) =
                (self.store.show(found, &self.tree.adts), self.store.show(expected, &self.tree.adts));
            self.error(tok, format!("expected `{expected}`, found `{found}`"));
        }
    }

    /// Returns the types of a variant's fields.
    fn fields(&self, id: AdtId, variant: u32) -> &[Ty] {
        self.adts[id as usize].get(variant as usize).map_or(&[], Vec::as_slice)
    }

    /// Unifies the type of a value with an expected one: an iterator accepts any iterator, and a slice an array.
    fn coerce(&mut self, found: Ty, expected: Ty, tok: SpanId) {
        if let (Some((TyCon::List, found)), Some((TyCon::List, expected))) =
            (self.store.parts(found), self.store.parts(expected))
        {
            self.unify(found[0], expected[0], tok);
            return;
        }
        if let Some((TyCon::Iter, args)) = self.store.parts(expected)
            && matches!(self.store.parts(found), Some((con, _)) if con != TyCon::Iter)
        {
            self.each(found, args[0], tok);
            return;
        }
        self.unify(found, expected, tok);
    }

    /// Reports an error that rustc explains better, or a type that rustc can infer and this crate cannot.
    fn error(&mut self, tok: SpanId, message: String) {
        self.failed = true;
        drop(self.report.error(Code::TypeError, tok, message));
    }

    /// Reports something that is not in the subset.
    fn refuse(&mut self, tok: SpanId, message: String, help: &str) {
        self.failed = true;
        self.report.error(Code::NotInSubset, tok, message).help(help);
    }

    /// Relates a collection to its items.
    fn each(&mut self, collection: Ty, item: Ty, tok: SpanId) {
        self.pending.push(Pending { collection, item, tok, relation: Relation::Each });
        self.solve();
    }

    /// Solves the relations whose types have become known.
    fn solve(&mut self) {
        loop {
            let mut settled = false;
            for pending in std::mem::take(&mut self.pending) {
                if self.solve_one(pending) {
                    settled = true;
                } else {
                    self.pending.push(pending);
                }
            }
            if !settled {
                return;
            }
        }
    }

    /// Returns whether a relation is solved.
    fn solve_one(&mut self, Pending { collection, item, tok, relation }: Pending) -> bool {
        let collect = relation == Relation::Collect;
        let Some((con, args)) = self.store.parts(collection) else {
            if self.store.is_int(collection) {
                self.error(tok, "an integer cannot be iterated over".to_owned());
                return true;
            }
            return false;
        };
        match con {
            TyCon::Option | TyCon::Result if relation == Relation::Try => {
                self.unify(args[0], item, tok);
                return true;
            }
            _ if relation == Relation::Try => {
                let shown = self.store.show(collection, &self.tree.adts);
                self.error(tok, format!("expected an `Option` or a `Result`, found `{shown}`"));
                return true;
            }
            TyCon::Map | TyCon::HashMap => {
                let pair = self.store.con(TyCon::Tuple, args);
                self.unify(item, pair, tok);
            }
            // `collect` into an option stops at the first `None`.
            TyCon::Option | TyCon::Result if collect => {
                let inner = self.store.var();
                let option = self.store.con(con, [inner].into_iter().chain(args.get(1).copied()));
                self.unify(item, option, tok);
                if matches!(self.store.parts(args[0]), Some((TyCon::Option | TyCon::Result, _))) {
                    let message = "collecting into an `Option` or `Result` within another is not evaluated".to_owned();
                    self.refuse(tok, message, "collect in two steps");
                    return true;
                }
                self.pending.push(Pending { collection: args[0], item: inner, tok, relation });
                return true;
            }
            TyCon::List
            | TyCon::Set
            | TyCon::HashSet
            | TyCon::Option
            | TyCon::Result
            | TyCon::Iter
            | TyCon::Range
            | TyCon::RangeFrom => {
                self.unify(item, args[0], tok);
            }
            TyCon::Unit if collect => self.unify(item, collection, tok),
            _ => {
                let shown = self.store.show(collection, &self.tree.adts);
                self.error(tok, format!("`{shown}` cannot be iterated over"));
            }
        }
        if !collect && matches!(con, TyCon::HashMap | TyCon::HashSet) {
            let help = "use a `BTreeMap` or `BTreeSet`, or iterate over the keys in an explicit order";
            self.refuse(tok, "the order of a hash table would decide about the plan".to_owned(), help);
        }
        true
    }

    /// Returns a type as far as it is known here.
    fn known(&mut self, ty: Ty) -> Ty {
        if self.store.is_var(ty) {
            self.solve();
        }
        self.store.find(ty)
    }

    fn record(&mut self, id: NodeId, ty: Ty) -> Ty {
        self.types[id as usize] = ty;
        ty
    }

    fn record_pattern(&mut self, pattern: &Pattern, ty: Ty) {
        self.types[pattern.id as usize] = ty;
    }
}
