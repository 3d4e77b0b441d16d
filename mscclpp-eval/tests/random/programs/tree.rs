//! What a program is made of.

/// An integer expression; all are `usize`.
#[derive(Clone, Debug)]
pub(super) enum Expr {
    Number(usize),
    Ranks,
    Var(String),
    Binary(char, Box<Expr>, Box<Expr>),
    /// `helper(a, b)`
    Helper(Box<Expr>, Box<Expr>),
    /// A call of a closure in scope.
    Closure(String, Box<Expr>),
    /// `(0..n).map(|x| a).sum::<usize>()`
    Sum(Box<Expr>, String, Box<Expr>),
    /// `list[a % list.len()]`, which fails on an empty list
    Index(String, Box<Expr>),
    If(Box<Cond>, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Debug)]
pub(super) enum Cond {
    Less(Expr, Expr),
    Equal(Expr, Expr),
    Not(Box<Cond>),
    Both(Box<Cond>, Box<Cond>),
    Either(Box<Cond>, Box<Cond>),
    /// `(0..n).any(|x| a % 3 == 1)`
    Any(Expr, String, Box<Expr>),
}

#[derive(Clone, Debug)]
pub(super) enum Stmt {
    Let(String, Expr),
    Add(String, Expr),
    /// `let name = |x: usize| a;`
    Closure(String, String, Expr),
    /// `let name: Vec<usize> = (a..b).map(|x| c).filter(|x| d).collect();`
    List(String, Expr, Expr, String, Expr, Expr),
    Push(String, Expr),
    For(String, Expr, Expr, Vec<Stmt>),
    /// `for x in p.ranks().filter(|x| x.id() != a).rev()`, the number bound to the name
    Ranks(String, Expr, bool, Vec<Stmt>),
    /// `for (i, &x) in list.iter().enumerate()`
    Over(String, String, String, Vec<Stmt>),
    While(String, Expr, Vec<Stmt>),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// `if a { break; }` and `if a { continue; }`
    Leave(Cond, bool),
    Copy([Expr; 4]),
    Reduce([Expr; 5]),
    Channel(bool, [Expr; 6]),
    Barrier(Expr, Expr),
    Scratch([Expr; 4]),
}
