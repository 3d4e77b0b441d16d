//! Patterns.

use super::{AdtId, Expr, NodeId, RangeEnd, Slot, SpanId};

/// A pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// Its kind.
    pub(crate) kind: PatternKind,
    /// Its position.
    pub(crate) tok: SpanId,
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
    /// `(a, .., b)`: the patterns before `..`, and if there is a `..`, the patterns after it.
    Tuple(Vec<Pattern>, Option<Vec<Pattern>>),
    /// `[a, rest @ .., b]`: the patterns before the rest, and if there is one, the slot that it is bound to and the
    /// patterns after it.
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
