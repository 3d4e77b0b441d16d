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
mod pattern;
pub(crate) mod sig;
pub(crate) mod store;

use mscclpp_core::diag::Code;
use mscclpp_core::dsl::registry::Method;

use crate::ast::{Con, Expr, FnId, IntTy, LabelId, NodeId, Pattern, Slot, Tok, Tree, TypeExpr};
use crate::lang::Builtin;
use crate::report::Report;
use store::{Store, Ty};

/// What inference has found, by node.
#[derive(Debug, Default)]
pub(crate) struct Types {
    /// The integer type of an expression that has one.
    ints: Vec<Option<IntTy>>,
    /// What a method call or field means.
    targets: Vec<Target>,
}

/// What a method call or field means.
#[derive(Clone, Copy, Default)]
pub(crate) enum Target {
    /// Nothing: the node is something else.
    #[default]
    None,
    /// A method of the language, and for `collect` and its kin what they make.
    Builtin(&'static Builtin, Made),
    /// A method of the authoring API.
    Dsl(&'static Method),
    /// `Program::pipeline`
    Pipeline,
    /// A method of the user.
    Function(FnId),
    /// A field by number.
    Field(u32),
}

/// What collecting makes: one thing, or two for `unzip` and `partition`.
pub(crate) type Made = [Option<Con>; 2];

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Builtin(builtin, _) => f.write_str(builtin.sig),
            Self::Dsl(method) => f.write_str(method.name),
            Self::Pipeline => f.write_str("pipeline"),
            Self::Function(id) => write!(f, "function {id}"),
            Self::Field(index) => write!(f, "field {index}"),
        }
    }
}

impl Types {
    /// The integer type of a node; `i32` where there is none to be had.
    pub(crate) fn int(&self, id: NodeId) -> IntTy {
        self.ints.get(id as usize).copied().flatten().unwrap_or_default()
    }

    /// What a method call or field means.
    pub(crate) fn target(&self, id: NodeId) -> Target {
        self.targets.get(id as usize).copied().unwrap_or_default()
    }
}

/// Infers the types of a tree. `params` are those of the collective behind its program.
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
        structs: Vec::new(),
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
    structs: Vec<Vec<Ty>>,
    frames: Vec<Frame>,
    pending: Vec<Pending>,
    checks: Vec<Check>,
    /// Whether the code just seen never ends normally.
    diverges: bool,
    /// Whether an error has been filed, after which others may follow from it.
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

/// Something that holds between a collection and its items.
#[derive(Clone, Copy)]
struct Pending {
    collection: Ty,
    item: Ty,
    tok: Tok,
    /// Whether the collection is made from the items, instead of iterated over.
    collect: bool,
}

/// Something that must hold in the end.
enum Check {
    /// The operands of this operator are integers; the flag also allows booleans.
    Arithmetic { ty: Ty, tok: Tok, symbol: &'static str, bools: bool },
    /// Casts take integers and booleans.
    Cast { from: Ty, to: Ty, tok: Tok },
    /// Something is an integer.
    Int { ty: Ty, tok: Tok },
}

impl Infer<'_> {
    fn run(&mut self) {
        for found in &self.tree.structs {
            let fields = found.fields.iter().map(|(_, ty)| self.store.written(ty)).collect();
            self.structs.push(fields);
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

    /// The type of a parameter: `impl IntoIterator` is an iterator inside the function.
    fn param(&mut self, ty: &TypeExpr) -> Ty {
        match ty {
            TypeExpr::Each(item) => {
                let item = self.store.written(item);
                self.store.con(Con::Iter, [item])
            }
            ty => self.store.written(ty),
        }
    }

    fn open(&mut self, slots: u32, captures: Vec<Ty>, output: Ty) {
        let slots = (0..slots).map(|_| self.store.var()).collect();
        self.frames.push(Frame { slots, captures, output, labels: Vec::new() });
    }

    /// A body whose value is the result.
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
        self.store.plain(Con::Unit)
    }

    fn bool(&mut self) -> Ty {
        self.store.plain(Con::Bool)
    }

    fn usize(&mut self) -> Ty {
        self.store.int(IntTy::Usize)
    }

    /// Two types that must be one. rustc explains the mismatch better.
    fn unify(&mut self, found: Ty, expected: Ty, tok: Tok) {
        if !self.store.unify(found, expected) {
            let (found, expected) =
                (self.store.show(found, &self.tree.structs), self.store.show(expected, &self.tree.structs));
            self.error(tok, format!("expected `{expected}`, found `{found}`, so no plan was built"));
        }
    }

    /// A value where a type is expected: any iterator will do for an iterator.
    fn coerce(&mut self, found: Ty, expected: Ty, tok: Tok) {
        if let Some((Con::Iter, args)) = self.store.parts(expected)
            && matches!(self.store.parts(found), Some((con, _)) if con != Con::Iter)
        {
            self.each(found, args[0], tok);
            return;
        }
        self.unify(found, expected, tok);
    }

    /// An error that rustc explains better, or a type that it can find and we cannot.
    fn error(&mut self, tok: Tok, message: String) {
        self.failed = true;
        drop(self.report.error(Code::TypeError, tok, message));
    }

    /// Something that is not in the subset.
    fn refuse(&mut self, tok: Tok, message: String, help: &str) {
        self.failed = true;
        self.report.error(Code::NotInSubset, tok, message).help(help);
    }

    /// Items of a collection.
    fn each(&mut self, collection: Ty, item: Ty, tok: Tok) {
        self.pending.push(Pending { collection, item, tok, collect: false });
        self.solve();
    }

    /// Solves what has become known.
    fn solve(&mut self) {
        loop {
            let before = self.pending.len();
            for pending in std::mem::take(&mut self.pending) {
                if !self.solve_one(pending) {
                    self.pending.push(pending);
                }
            }
            if self.pending.len() >= before {
                return;
            }
        }
    }

    /// Whether an obligation is settled.
    fn solve_one(&mut self, Pending { collection, item, tok, collect }: Pending) -> bool {
        let Some((con, args)) = self.store.parts(collection) else {
            if self.store.is_int(collection) {
                self.error(tok, "an integer cannot be iterated over, so no plan was built".to_owned());
                return true;
            }
            return false;
        };
        match con {
            Con::Map | Con::HashMap => {
                let pair = self.store.con(Con::Tuple, args);
                self.unify(item, pair, tok);
            }
            // `collect` into an option stops at the first `None`.
            Con::Option | Con::Result if collect => {
                let inner = self.store.var();
                let option = self.store.con(con, [inner]);
                self.unify(item, option, tok);
                self.pending.push(Pending { collection: args[0], item: inner, tok, collect });
                return true;
            }
            Con::List | Con::Set | Con::HashSet | Con::Option | Con::Iter | Con::Range | Con::RangeFrom => {
                self.unify(item, args[0], tok);
            }
            Con::Unit if collect => self.unify(item, collection, tok),
            _ => {
                let shown = self.store.show(collection, &self.tree.structs);
                self.error(tok, format!("`{shown}` cannot be iterated over, so no plan was built"));
            }
        }
        if !collect && matches!(con, Con::HashMap | Con::HashSet) {
            let help = "use a `BTreeMap` or `BTreeSet`, or iterate over the keys in an order of your own";
            self.refuse(tok, "the order of a hash table would decide about the plan".to_owned(), help);
        }
        true
    }

    /// A type as far as it can be known here.
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
