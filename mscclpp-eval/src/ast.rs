//! The syntax tree that is evaluated: the subset of Rust of `docs/subset.md`, names resolved to numbers.
//!
//! References are not part of it: `&x` is `x` (shared borrows cannot be told from copies where nothing has interior
//! mutability), `&mut x` is a place. rustc checks the borrows, it compiles the same tokens. The tree holds no spans, so it
//! can travel to the thread that evaluates it; a [`Tok`] finds them again in [`Spans`](crate::spans::Spans).

use std::sync::Arc;

/// Number of a place in the user's source.
pub(crate) type Tok = u32;
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
/// Number of a struct of [`Tree::structs`].
pub(crate) type StructId = u32;
/// Number of a loop or labelled block within its function or closure body.
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
    /// Structs.
    pub(crate) structs: Vec<Struct>,
    /// How many nodes there are.
    pub(crate) nodes: u32,
}

/// A function, or the body of a closure.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its parameters in order, `self` included.
    pub(crate) params: Vec<(Pattern, TypeExpr)>,
    /// What it returns.
    pub(crate) output: TypeExpr,
    /// What it does.
    pub(crate) body: Expr,
    /// Number of variables.
    pub(crate) slots: u32,
    /// Whether it takes `&mut self`.
    pub(crate) changes_self: bool,
    /// Its name in the source.
    pub(crate) tok: Tok,
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

/// A struct with named or numbered fields.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its name.
    pub(crate) name: Arc<str>,
    /// Its fields in order of declaration; numbered ones are named `0`, `1`, ….
    pub(crate) fields: Vec<(Arc<str>, TypeExpr)>,
    /// Its methods and associated functions.
    pub(crate) methods: Vec<(Arc<str>, FnId)>,
}

/// A type as written, without references and lifetimes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TypeExpr {
    /// `_`, or nothing.
    Infer,
    /// An integer type.
    Int(IntTy),
    /// A type constructor with its arguments.
    Con(Con, Vec<TypeExpr>),
    /// `impl IntoIterator<Item = T>`.
    Each(Box<TypeExpr>),
}

/// Integer types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are Rust's")]
pub(crate) enum IntTy {
    I8,
    I16,
    #[default]
    I32,
    I64,
    Isize,
    U8,
    U16,
    U32,
    U64,
    Usize,
}

impl IntTy {
    /// All of them, in the order of their discriminants.
    pub(crate) const ALL: [Self; 10] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::Isize,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Usize,
    ];

    /// The name in Rust.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Isize => "isize",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::Usize => "usize",
        }
    }

    /// The type of a name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// Width in bits; `usize` and `isize` have 64, as on every host of a GPU.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::I8 | Self::U8 => 8,
            Self::I16 | Self::U16 => 16,
            Self::I32 | Self::U32 => 32,
            Self::I64 | Self::U64 | Self::Isize | Self::Usize => 64,
        }
    }

    /// Whether it has negative values.
    pub(crate) const fn signed(self) -> bool {
        matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::Isize)
    }

    /// The unsigned type of the same width.
    pub(crate) const fn unsigned(self) -> Self {
        match self {
            Self::I8 | Self::U8 => Self::U8,
            Self::I16 | Self::U16 => Self::U16,
            Self::I32 | Self::U32 => Self::U32,
            Self::I64 | Self::U64 => Self::U64,
            Self::Isize | Self::Usize => Self::Usize,
        }
    }

    /// Smallest value.
    pub(crate) const fn min(self) -> i128 {
        if self.signed() { -(1 << (self.bits() - 1)) } else { 0 }
    }

    /// Largest value.
    pub(crate) const fn max(self) -> i128 {
        if self.signed() { (1 << (self.bits() - 1)) - 1 } else { (1 << self.bits()) - 1 }
    }

    /// Whether a value is one of this type.
    pub(crate) const fn holds(self, value: i128) -> bool {
        self.min() <= value && value <= self.max()
    }
}

/// Type constructors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Con {
    /// `()`
    Unit,
    /// `bool`
    Bool,
    /// `&str` and `String`: for messages only.
    Str,
    /// `std::cmp::Ordering`
    Ordering,
    /// A tuple of two or more.
    Tuple,
    /// `Vec`, `VecDeque`, arrays and slices.
    List,
    /// `BTreeMap`
    Map,
    /// `HashMap`: as `Map`, but nothing may depend on its order.
    HashMap,
    /// `BTreeSet`
    Set,
    /// `HashSet`
    HashSet,
    /// `Option`
    Option,
    /// `Result` of the conversions of `std`; the error says nothing.
    Result,
    /// Ranges with a start and an end.
    Range,
    /// `a..`
    RangeFrom,
    /// `..b` and `..=b`
    RangeTo,
    /// `..`
    RangeFull,
    /// Any iterator.
    Iter,
    /// An entry of a map.
    Entry,
    /// A closure, function or function pointer: parameters, then the result.
    Fn,
    /// A struct of the user.
    Struct(StructId),
    /// `Program`
    Program,
    /// A handle or enum of the authoring API, by name.
    Handle(&'static str),
}

/// An expression.
#[derive(Debug)]
pub(crate) struct Expr {
    /// What it is.
    pub(crate) kind: ExprKind,
    /// Where it is.
    pub(crate) tok: Tok,
    /// Its number.
    pub(crate) id: NodeId,
}

/// Where a variable lives, seen from the code that names it.
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
    /// Refused; evaluation never gets here.
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
    PathFn(&'static crate::lang::PathFn),
    /// `(a, b)`
    Tuple(Vec<Expr>),
    /// `[a, b]`, `vec![a, b]`
    List(Vec<Expr>),
    /// `[a; n]`, `vec![a; n]`
    Repeat(Box<Expr>, Box<Expr>),
    /// `a..b` and its kin.
    Range(Option<Box<Expr>>, Option<Box<Expr>>, RangeEnd),
    /// `Name { field: value, ..rest }` with field numbers.
    Struct(StructId, Vec<(u32, Expr)>, Option<Box<Expr>>),
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
    /// `T::from(a)`, `T::try_from(a)` (true).
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
    CallPath(&'static crate::lang::PathFn, Vec<Expr>),
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
    /// `panic!(message)` and its kin.
    Panic(Message),
    /// `format!(…)`
    Format(Message),
}

/// Values that are named by a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathValue {
    /// `usize::MIN`, `usize::MAX` and the like.
    Int(IntTy, i128),
    /// `usize::BITS` and the like, a `u32`.
    Bits(IntTy),
    /// `None`
    None,
    /// `Ordering::Less` (-1), `Equal` (0), `Greater` (1).
    Ordering(i8),
    /// `BufferKind::Input` and the like: type and name.
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
    /// As written.
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
    Tuple(Vec<Assignee>, Tok),
    /// `[a, b]`
    List(Vec<Assignee>, Tok),
}

/// A method call.
#[derive(Debug)]
pub(crate) struct MethodCall {
    /// What it is called on.
    pub(crate) receiver: Expr,
    /// The method's name.
    pub(crate) name: Arc<str>,
    /// Its type argument.
    pub(crate) turbofish: Option<TypeExpr>,
    /// Its arguments.
    pub(crate) args: Vec<Expr>,
    /// Line of its name, from 1.
    pub(crate) line: u32,
    /// Column of its name, from 1.
    pub(crate) column: u32,
}

/// A closure. Its body is a function of its own: captured variables come in by number.
#[derive(Debug)]
pub(crate) struct Closure {
    /// Whether it captures by value.
    pub(crate) by_value: bool,
    /// The variables it captures, seen from where it is made.
    pub(crate) captures: Vec<Var>,
    /// Its parameters.
    pub(crate) params: Vec<(Pattern, TypeExpr)>,
    /// What it returns.
    pub(crate) output: TypeExpr,
    /// What it does.
    pub(crate) body: Expr,
    /// Number of its own variables.
    pub(crate) slots: u32,
}

/// A `for` loop.
#[derive(Debug)]
pub(crate) struct For {
    /// Its label.
    pub(crate) label: LabelId,
    /// What each item is bound to.
    pub(crate) pattern: Pattern,
    /// What it goes over.
    pub(crate) over: Expr,
    /// What it does.
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
    /// What is bound.
    pub(crate) pattern: Pattern,
    /// Its type, if written.
    pub(crate) ty: TypeExpr,
    /// Its value.
    pub(crate) value: Option<Expr>,
    /// What happens when the pattern does not match.
    pub(crate) otherwise: Option<Expr>,
}

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
    /// `Err(_)`
    Err,
    /// `Name { field: p, .. }` with field numbers.
    Struct(StructId, Vec<(u32, Pattern)>),
    /// `a | b`
    Or(Vec<Pattern>),
}

/// The message of `panic!` and its kin.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// Text, then a value, then text, and so on.
    pub(crate) pieces: Vec<Piece>,
}

/// A part of a message.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Text.
    Text(Arc<str>),
    /// A value; `true` for `{:?}`.
    Value(Expr, bool),
}
