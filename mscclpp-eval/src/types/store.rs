//! Types under inference: numbers into a table, with variables that unification binds.

use smallvec::{SmallVec, smallvec};

use crate::hir::{Adt, IntTy, TyCon, TypeExpr};

/// Number of a type in its [`Store`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ty(u32);

/// A type, as far as it is known.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Not known yet.
    Var,
    /// An integer type, not known yet which.
    IntVar,
    /// Equal to another type.
    Link(Ty),
    /// An integer type.
    Int(IntTy),
    /// A constructor with its arguments.
    TyCon(TyCon, SmallVec<[Ty; 2]>),
}

/// All types of one collective.
#[derive(Default)]
pub(crate) struct Store {
    nodes: Vec<Node>,
}

impl Store {
    fn add(&mut self, node: Node) -> Ty {
        self.nodes.push(node);
        Ty((self.nodes.len() - 1) as u32)
    }

    /// Adds a type that is not known yet.
    pub(crate) fn var(&mut self) -> Ty {
        self.add(Node::Var)
    }

    /// Adds an integer type that is not known yet.
    pub(crate) fn int_var(&mut self) -> Ty {
        self.add(Node::IntVar)
    }

    /// Adds an integer type.
    pub(crate) fn int(&mut self, int: IntTy) -> Ty {
        self.add(Node::Int(int))
    }

    /// Adds a type without arguments.
    pub(crate) fn plain(&mut self, con: TyCon) -> Ty {
        self.add(Node::TyCon(con, smallvec![]))
    }

    /// Adds a type with arguments.
    pub(crate) fn con(&mut self, con: TyCon, args: impl IntoIterator<Item = Ty>) -> Ty {
        let args = args.into_iter().collect();
        self.add(Node::TyCon(con, args))
    }

    /// Returns the representative of a type.
    pub(crate) fn find(&self, mut ty: Ty) -> Ty {
        while let Node::Link(next) = self.nodes[ty.0 as usize] {
            ty = next;
        }
        ty
    }

    /// Returns the node of a type.
    pub(crate) fn node(&self, ty: Ty) -> &Node {
        &self.nodes[self.find(ty).0 as usize]
    }

    /// Returns constructor and arguments, if known; an array counts as a list.
    pub(crate) fn parts(&self, ty: Ty) -> Option<(TyCon, SmallVec<[Ty; 2]>)> {
        match self.node(ty) {
            Node::TyCon(TyCon::Array, args) => Some((TyCon::List, args.clone())),
            Node::TyCon(con, args) => Some((*con, args.clone())),
            _ => None,
        }
    }

    /// Returns whether nothing is known of a type.
    pub(crate) fn is_var(&self, ty: Ty) -> bool {
        matches!(self.node(ty), Node::Var)
    }

    /// Returns whether a type is some integer.
    pub(crate) fn is_int(&self, ty: Ty) -> bool {
        matches!(self.node(ty), Node::Int(_) | Node::IntVar)
    }

    /// Returns the integer type; Rust's default if it is not determined.
    pub(crate) fn int_of(&self, ty: Ty) -> Option<IntTy> {
        match self.node(ty) {
            Node::Int(int) => Some(*int),
            Node::IntVar => Some(IntTy::I32),
            _ => None,
        }
    }

    /// Unifies two types; returns false if they differ.
    pub(crate) fn unify(&mut self, a: Ty, b: Ty) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return true;
        }
        match (&self.nodes[a.0 as usize], &self.nodes[b.0 as usize]) {
            (Node::Var, _) => self.bind(a, b),
            (_, Node::Var) => self.bind(b, a),
            (Node::IntVar, Node::IntVar | Node::Int(_)) => self.link(a, b),
            (Node::Int(_), Node::IntVar) => self.link(b, a),
            (Node::Int(x), Node::Int(y)) => x == y,
            (Node::TyCon(x, xs), Node::TyCon(y, ys)) if same(*x, *y) && xs.len() == ys.len() => {
                let pairs: SmallVec<[(Ty, Ty); 4]> = xs.iter().copied().zip(ys.iter().copied()).collect();
                // A type that may be an array is one.
                if *x == TyCon::Array {
                    self.link(b, a)
                } else {
                    self.link(a, b)
                };
                // All pairs, so that one mismatch leaves no other type unknown.
                pairs.into_iter().fold(true, |ok, (x, y)| self.unify(x, y) && ok)
            }
            _ => false,
        }
    }

    fn link(&mut self, from: Ty, to: Ty) -> bool {
        self.nodes[from.0 as usize] = Node::Link(to);
        true
    }

    /// Binds a variable, unless the type contains it.
    fn bind(&mut self, var: Ty, ty: Ty) -> bool {
        !self.occurs(var, ty) && self.link(var, ty)
    }

    fn occurs(&self, var: Ty, ty: Ty) -> bool {
        let ty = self.find(ty);
        ty == var
            || matches!(&self.nodes[ty.0 as usize], Node::TyCon(_, args) if args.iter().any(|arg| self.occurs(var, *arg)))
    }

    /// Returns the type as it is written, with `i32` for integers that nothing constrains; `None` if a part of it is
    /// unknown.
    pub(crate) fn resolve(&self, ty: Ty) -> Option<TypeExpr> {
        match self.node(ty) {
            Node::Var | Node::Link(_) => None,
            Node::IntVar => Some(TypeExpr::Int(IntTy::I32)),
            Node::Int(int) => Some(TypeExpr::Int(*int)),
            // Their default does not depend on their content.
            Node::TyCon(
                con @ (TyCon::List | TyCon::Option | TyCon::Map | TyCon::HashMap | TyCon::Set | TyCon::HashSet),
                _,
            ) => Some(TypeExpr::TyCon(*con, Vec::new())),
            Node::TyCon(con, args) => {
                let args: Option<Vec<_>> = args.iter().map(|arg| self.resolve(*arg)).collect();
                Some(TypeExpr::TyCon(*con, args?))
            }
        }
    }

    /// Formats the type for messages.
    pub(crate) fn show(&self, ty: Ty, adts: &[Adt]) -> String {
        let list = |args: &[Ty]| args.iter().map(|arg| self.show(*arg, adts)).collect::<Vec<_>>().join(", ");
        match self.node(ty) {
            Node::Var | Node::Link(_) => "_".to_owned(),
            Node::IntVar => "integer".to_owned(),
            Node::Int(int) => int.name().to_owned(),
            Node::TyCon(con, args) => match (con, args.as_slice()) {
                (TyCon::Tuple, args) => format!("({})", list(args)),
                (TyCon::Fn, [params @ .., result]) => format!("fn({}) -> {}", list(params), self.show(*result, adts)),
                (TyCon::Adt(id), _) => adts[*id as usize].name.to_string(),
                (con, []) => con.name().to_owned(),
                (con, args) => format!("{}<{}>", con.name(), list(args)),
            },
        }
    }

    /// Returns the type as written, with variables for omitted parts. The caller handles `Each`.
    pub(crate) fn written(&mut self, ty: &TypeExpr) -> Ty {
        match ty {
            TypeExpr::Infer | TypeExpr::Each(_) => self.var(),
            TypeExpr::Int(int) => self.int(*int),
            TypeExpr::TyCon(con, args) => {
                let args: SmallVec<[Ty; 2]> = args.iter().map(|arg| self.written(arg)).collect();
                self.add(Node::TyCon(*con, args))
            }
        }
    }
}

/// Returns whether two constructors may be of one type: an array becomes a slice where one is expected.
fn same(a: TyCon, b: TyCon) -> bool {
    a == b || matches!((a, b), (TyCon::List | TyCon::Array, TyCon::List | TyCon::Array))
}

impl TyCon {
    /// Returns its name in messages and in the signatures of [`lang`](crate::lang).
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Unit => "()",
            Self::Bool => "bool",
            Self::Str => "str",
            Self::Ordering => "Ordering",
            Self::Tuple => "tuple",
            Self::List => "List",
            Self::Array => "Array",
            Self::Map => "Map",
            Self::HashMap => "HashMap",
            Self::Set => "Set",
            Self::HashSet => "HashSet",
            Self::Option => "Option",
            Self::Result => "Result",
            Self::TryFromIntError => "TryFromIntError",
            Self::Reverse => "Reverse",
            Self::Range => "Range",
            Self::RangeFrom => "RangeFrom",
            Self::RangeTo => "RangeTo",
            Self::RangeFull => "RangeFull",
            Self::Iter => "Iter",
            Self::Entry => "Entry",
            Self::Fn => "fn",
            Self::Adt(_) => "struct or enum",
            Self::Program => "Program",
            Self::Handle(name) => name,
        }
    }

    /// Returns the constructor with a name in a signature.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        const NAMED: [TyCon; 20] = [
            TyCon::Bool,
            TyCon::Str,
            TyCon::Ordering,
            TyCon::List,
            TyCon::Array,
            TyCon::Map,
            TyCon::HashMap,
            TyCon::Set,
            TyCon::HashSet,
            TyCon::Option,
            TyCon::Result,
            TyCon::TryFromIntError,
            TyCon::Reverse,
            TyCon::Range,
            TyCon::RangeFrom,
            TyCon::RangeTo,
            TyCon::RangeFull,
            TyCon::Iter,
            TyCon::Entry,
            TyCon::Program,
        ];
        NAMED.into_iter().find(|con| con.name() == name)
    }
}
