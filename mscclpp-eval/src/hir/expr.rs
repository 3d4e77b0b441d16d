//! Expressions and statements.

use std::sync::Arc;

use mscclpp_core::origin::Tokens;

use super::{AdtId, ClosureId, ConstId, FnId, IntTy, LabelId, NodeId, Pattern, Slot, SpanId, TyCon, TypeExpr};

/// An expression.
#[derive(Debug)]
pub(crate) struct Expr {
    /// Its kind.
    pub(crate) kind: ExprKind,
    /// Its position.
    pub(crate) tok: SpanId,
    /// Its number.
    pub(crate) id: NodeId,
}

/// Where a variable is stored, relative to the code that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Var {
    /// In the frame of the running function or closure.
    Local(Slot),
    /// Captured by the running closure, as its number n.
    Captured(u32),
}

/// Kinds of expressions.
#[derive(Debug)]
pub(crate) enum ExprKind {
    /// Rejected; evaluation never reaches it.
    Error,
    /// `()`
    Unit,
    /// `true`, `false`
    Bool(bool),
    /// An integer, with its suffix.
    Int(i128, Option<IntTy>),
    /// A string.
    Str(Arc<str>),
    /// A variable.
    Var(Var),
    /// A constant of the user.
    Constant(ConstId),
    /// A value of the language or the authoring API.
    Path(PathValue),
    /// A function as a value.
    Function(FnId),
    /// A function of the language as a value: `Some`, `Vec::new`.
    PathFn(super::PathFnId),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`, `vec![a, b]`: an array or a list.
    List(Vec<Expr>, TyCon),
    /// `[a; n]`, `vec![a; n]`
    Repeat(Box<Expr>, Box<Expr>, TyCon),
    /// `a..b` and the other ranges.
    Range(Option<Box<Expr>>, Option<Box<Expr>>, RangeEnd),
    /// `Name { field: value, ..rest }`, `Name(value)` and `Name`: the variant, and its fields by number.
    Struct(AdtId, u32, Vec<(u32, Expr)>, Option<Box<Expr>>),
    /// The variant of a struct or enum as a function of its fields.
    Constructor(AdtId, u32),
    /// `a.0`, `a.name`
    Field(Box<Expr>, Arc<str>),
    /// `a[i]`
    Index(Box<Expr>, Box<Expr>),
    /// `-a`
    Neg(Box<Expr>),
    /// `!a`
    Not(Box<Expr>),
    /// `*a`
    Deref(Box<Expr>),
    /// `&mut a`
    RefMut(Box<Expr>),
    /// Arithmetic and bit operations.
    Binary(BinOp, Box<Expr>, Box<Expr>),
    /// Comparisons.
    Compare(CmpOp, Box<Expr>, Box<Expr>),
    /// `a && b` (true), `a || b` (false).
    Logic(bool, Box<Expr>, Box<Expr>),
    /// An expression whose type is known.
    Typed(Box<Expr>, TypeExpr),
    /// `a as T`
    Cast(Box<Expr>, TypeExpr),
    /// `T::from(a)`, `T::try_from(a)` (true), where `T` is an integer type.
    Convert(Box<Expr>, IntTy, bool),
    /// `a = b`
    Assign(Box<Expr>, Box<Expr>),
    /// `(a, b) = c`, `_ = c`
    AssignPattern(Box<Assignee>, Box<Expr>),
    /// `a += b`
    AssignOp(BinOp, Box<Expr>, Box<Expr>),
    /// A call of a function of the user.
    Call(FnId, Vec<Expr>),
    /// A call of a value.
    CallValue(Box<Expr>, Vec<Expr>),
    /// A call of a function of the language: `Some(x)`, `Vec::new()`, `std::cmp::min(a, b)`.
    CallPath(super::PathFnId, Vec<Expr>),
    /// A method call.
    Method(Box<MethodCall>),
    /// `|a| b`
    Closure(ClosureId),
    /// A block; the label is set if something breaks out of it.
    Block(Vec<Stmt>, Option<Box<Expr>>, Option<LabelId>),
    /// `if c { a } else { b }`
    If(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    /// `let p = a` in a condition.
    Let(Box<Pattern>, Box<Expr>),
    /// `match a { … }`
    Match(Box<Expr>, Vec<Arm>),
    /// `loop { … }`
    Loop(LabelId, Box<Expr>),
    /// `while c { … }`
    While(LabelId, Box<Expr>, Box<Expr>),
    /// `for p in a { … }`
    For(Box<For>),
    /// `break 'l a`
    Break(LabelId, Option<Box<Expr>>),
    /// `continue 'l`
    Continue(LabelId),
    /// `return a`
    Return(Option<Box<Expr>>),
    /// `a?`
    Try(Box<Expr>),
    /// `assert!(a, message)`
    Assert(Box<Expr>, Option<Message>),
    /// `assert_eq!(a, b, message)` (true), `assert_ne!(…)` (false).
    AssertEq(bool, Box<Expr>, Box<Expr>, Option<Message>),
    /// `panic!(message)` and similar macros.
    Panic(Message),
    /// `format!(…)`
    Format(Message),
}

/// Values that are named by a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathValue {
    /// `usize::MIN`, `usize::MAX` and those of the other integer types.
    Int(IntTy, i128),
    /// `usize::BITS` and those of the other integer types, a `u32`.
    Bits(IntTy),
    /// `None`
    None,
    /// `Ordering::Less` (-1), `Equal` (0), `Greater` (1).
    Ordering(i8),
    /// A value of an enum of the authoring API, such as `BufferKind::Input`: type and name.
    Dsl(&'static str, Arc<str>),
}

/// How a range ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeEnd {
    /// `..`
    Exclusive,
    /// `..=`
    Inclusive,
}

/// Arithmetic and bit operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's")]
pub(crate) enum BinOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

impl BinOp {
    /// Returns the operator as written.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "^",
            Self::Shl => "<<",
            Self::Shr => ">>",
        }
    }
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's")]
pub(crate) enum CmpOp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// The left side of a destructuring assignment.
#[derive(Debug)]
pub(crate) enum Assignee {
    /// `_`
    Ignore,
    /// A place.
    Place(Expr),
    /// `(a, b)`
    Tuple(Vec<Assignee>, SpanId),
    /// `[a, b]`
    List(Vec<Assignee>, SpanId),
}

/// A method call.
#[derive(Debug)]
pub(crate) struct MethodCall {
    /// The value that it is called on.
    pub(crate) receiver: Expr,
    /// The method's name.
    pub(crate) name: Arc<str>,
    /// Its type argument.
    pub(crate) turbofish: Option<TypeExpr>,
    /// Its arguments.
    pub(crate) args: Vec<Expr>,
    /// The same from their first to their last token: the token of a method call begins at the method's name.
    pub(crate) whole_args: Tokens,
    /// Line of its name, from 1.
    pub(crate) line: u32,
    /// Column of its name, from 1.
    pub(crate) column: u32,
}

/// A closure. Its body is a function; captured variables are numbered parameters of it.
#[derive(Debug)]
pub(crate) struct Closure {
    /// Whether it captures by value.
    pub(crate) by_value: bool,
    /// The captured variables, relative to the code that creates the closure.
    pub(crate) captures: Vec<Var>,
    /// Its parameters.
    pub(crate) params: Vec<(Pattern, TypeExpr)>,
    /// The type of its result.
    pub(crate) output: TypeExpr,
    /// Its body.
    pub(crate) body: Expr,
    /// Number of its local variables.
    pub(crate) slots: u32,
}

/// A `for` loop.
#[derive(Debug)]
pub(crate) struct For {
    /// Its label.
    pub(crate) label: LabelId,
    /// The pattern that each item is bound to.
    pub(crate) pattern: Pattern,
    /// The value that it iterates over.
    pub(crate) over: Expr,
    /// Its body.
    pub(crate) body: Expr,
    /// Names and slots of the variables of `pattern`, for messages.
    pub(crate) variables: Vec<(Arc<str>, Slot)>,
}

/// An arm of a `match`.
#[derive(Debug)]
pub(crate) struct Arm {
    /// Its pattern.
    pub(crate) pattern: Pattern,
    /// Its condition.
    pub(crate) guard: Option<Expr>,
    /// Its value.
    pub(crate) body: Expr,
}

/// A statement.
#[derive(Debug)]
pub(crate) enum Stmt {
    /// `let p: T = a else { … };`
    Let(Box<Let>),
    /// An expression whose value is dropped.
    Expr(Expr),
}

/// A `let` statement.
#[derive(Debug)]
pub(crate) struct Let {
    /// The pattern.
    pub(crate) pattern: Pattern,
    /// Its type, if written.
    pub(crate) ty: TypeExpr,
    /// Its value.
    pub(crate) value: Option<Expr>,
    /// The `else` block.
    pub(crate) otherwise: Option<Expr>,
}

/// The message of `panic!` and similar macros.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Text, then a value, then text, and so on.
    pub(crate) pieces: Vec<FormatPart>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum FormatPart {
    /// Text.
    Text(Arc<str>),
    /// A value; `true` for `{:?}`.
    Value(Expr, bool),
}
