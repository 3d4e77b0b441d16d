//! Patterns.

use super::{AdtId, Expr, NodeId, RangeEnd, Slot, Tok};

/// A pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// What it is.
    pub(crate) kind: PatternKind,
    /// Where it is.
    pub(crate) tok: Tok,
    /// Its number.
    pub(crate) id: NodeId,
}

/// Kinds of patterns.
#[derive(Debug)]
pub(crate) enum PatternKind {
    /// `_`
    Wild,
    /// `x`, `mut x`, `ref x`, `x @ p`
    Bind(Slot, Option<Box<Pattern>>),
    /// A value: a literal or constant.
    Value(Expr),
    /// `a..b`, `a..=b`, `a..`, `..=b`
    Range(Option<Expr>, Option<Expr>, RangeEnd),
    /// `(a, .., b)`: what stands before `..`, and if there is one, what stands behind it.
    Tuple(Vec<Pattern>, Option<Vec<Pattern>>),
    /// `[a, rest @ .., b]`: before, and if there is a rest, the slot it is bound to and what stands behind it.
    List(Vec<Pattern>, Option<(Option<Slot>, Vec<Pattern>)>),
    /// `Some(p)`
    Some(Box<Pattern>),
    /// `None`
    None,
    /// `Ok(p)`
    Ok(Box<Pattern>),
    /// `Err(p)`
    Err(Box<Pattern>),
    /// `Reverse(p)`
    Reverse(Box<Pattern>),
    /// `Name { field: p, .. }`, `Name(p)` and `Name`: the variant, and its fields by number.
    Struct(AdtId, u32, Vec<(u32, Pattern)>),
    /// `a | b`
    Or(Vec<Pattern>),
}
