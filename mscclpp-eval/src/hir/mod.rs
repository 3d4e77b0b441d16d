//! The syntax tree that is evaluated: the subset of Rust that the module `subset` lists, names resolved to numbers.
//!
//! References are not part of it: `&x` is `x` (without interior mutability, shared borrows are equivalent to copies),
//! `&mut x` is a place. rustc checks the borrows, because it compiles the same tokens. The tree holds no spans, so it
//! can be sent to the thread that evaluates it; [`Spans`](crate::spans::Spans) maps a [`SpanId`] to its spans.

mod adt;
mod expr;
mod pattern;
mod ty;

pub(crate) use adt::{Adt, DEFAULT, Fields, Shape, Variant};
pub(crate) use expr::*;
pub(crate) use pattern::{Pattern, PatternKind};
pub(crate) use ty::{Collected, IntTy, Made, TyCon, TypeExpr};

/// Number of a place in the user's source.
pub(crate) type SpanId = u32;
/// Number of an expression or pattern, for the tables that type inference fills.
pub(crate) type NodeId = u32;
/// Number of a variable in its function's frame.
pub(crate) type Slot = u32;
/// Number of a function of [`Tree::functions`].
pub(crate) type FnId = u32;
/// Number of a closure of [`Tree::closures`].
pub(crate) type ClosureId = u32;
/// Number of a constant of [`Tree::constants`].
pub(crate) type ConstId = u32;
/// Number of a struct or enum of [`Tree::adts`].
pub(crate) type AdtId = u32;
/// Number of a function of the language that is called by a path, of `lang::PATHS`.
pub(crate) type PathFnId = u32;
/// Number of a loop or labeled block within its function or closure body.
pub(crate) type LabelId = u32;

/// Everything that one collective can reach.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Functions; the collective itself is number 0.
    pub(crate) functions: Vec<Function>,
    /// Closures.
    pub(crate) closures: Vec<Closure>,
    /// Constants.
    pub(crate) constants: Vec<Constant>,
    /// Structs and enums.
    pub(crate) adts: Vec<Adt>,
    /// Number of nodes.
    pub(crate) nodes: u32,
}

/// A function, or the body of a closure.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its parameters in order, `self` included.
    pub(crate) params: Vec<(Pattern, TypeExpr)>,
    /// The type of its result.
    pub(crate) output: TypeExpr,
    /// Its body.
    pub(crate) body: Expr,
    /// Number of variables.
    pub(crate) slots: u32,
    /// Whether it takes `&mut self`.
    pub(crate) changes_self: bool,
    /// Its name in the source.
    pub(crate) tok: SpanId,
}

/// A constant.
#[derive(Debug)]
pub(crate) struct Constant {
    /// Its type.
    pub(crate) ty: TypeExpr,
    /// Its value.
    pub(crate) value: Expr,
    /// Number of variables in its value.
    pub(crate) slots: u32,
}
