//! Codes of the area `evaluate`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    BadAttribute = "M0101" "bad-attribute": "the arguments of `#[collective]` are the documented ones",
        "The kind of collective comes first, then arguments with values that are literals: a macro cannot see constants. `docs/subset.md` lists all arguments.\n\nWrong: `#[collective(AllGather, ranks = N, inplace)]`. Right: `#[collective(AllGather, ranks = 8, in_place)]`.";
    BadSignature = "M0102" "bad-signature": "a collective is a function of a program, and of parameters that the attribute gives values for",
        "The macro calls the function with a `&Program`, and with every combination of the values that `params(…)` lists, in the function's order. It records operations and returns nothing.\n\nWrong: `#[collective(AllReduce, ranks = 8)] fn ring(p: &Program, tbg: usize)`. Right: `#[collective(AllReduce, ranks = 8, params(tbg = [1, 2]))] fn ring(p: &Program, tbg: usize)`.";
    NotInSubset = "M0103" "not-in-subset": "a collective is written in the subset of Rust that is evaluated at compile time",
        "The function runs while the crate compiles, in an evaluator that knows integers, tuples, structs, enums, lists, maps, options, results, loops, closures and iterators; `docs/subset.md` lists everything. What it does not know is refused before anything runs.\n\nWrong: `println!(\"{n}\")`, floating-point numbers, `unsafe`, threads. Right: compute with integers, and call the function at run time (`name::compile(spec)`, from `main` or `build.rs`) if it needs more.";
    OutsideName = "M0104" "unresolved-name": "a collective reads nothing but its own tokens",
        "The macro sees the function, not the crate around it, so it cannot know what a constant, function or type outside is.\n\nWrong: `const N: usize = 4; #[collective(AllGather, ranks = 4)] fn f(p: &Program) { for i in 0..N { … } }`. Right: put both into a module under `#[collectives]`, or make it a parameter: `#[collective(…, params(n = [4]))] fn f(p: &Program, n: usize)`.";
    TypeError = "M0105" "type-error": "the evaluator can infer the types of a collective",
        "The evaluator infers types as the compiler does, and found types that do not fit, or could not find one. Where the compiler finds a mistake as well, its message is the only one. Otherwise write the type out where this message points.\n\nWrong: `let peers = p.ranks().map(Rank::id).collect();`. Right: `let peers: Vec<usize> = p.ranks().map(|rank| rank.id()).collect();`.";
    Panicked = "M0106" "panicked": "a collective does not panic for the sizes that it is built for",
        "`assert!`, `panic!`, `unwrap` and `expect` state what a collective needs; when it is evaluated and does not get it, that is an error at compile time.\n\nWrong: `ranks = [2, 3]` with `assert!(p.num_ranks().is_power_of_two())`. Right: `ranks = [2, 4]`.";
    Overflow = "M0107" "overflow": "arithmetic does not overflow",
        "As in a debug build, a result that its type cannot hold is an error. Integers without a type are `i32`, as in all Rust.\n\nWrong: `id - 1` for rank 0, where `id` is a `usize`. Right: `(id + n - 1) % n`.";
    DivisionByZero = "M0108" "division-by-zero": "nothing is divided by zero",
        "Wrong: `n / (n - 1)` for one rank. Right: treat that size on its own, or leave it out of `ranks`.";
    NoSuchElement = "M0109" "no-such-element": "an index lies inside its list, a key in its map",
        "Lists count from 0, so a list of n has the indexes 0 to n - 1.\n\nWrong: `channels[n]`. Right: `channels[n - 1]`, or `channels.get(n)`, which gives an `Option`.";
    LossyCast = "M0110" "lossy-cast": "`as` keeps the number",
        "Rust's `as` cuts off what does not fit, which in an algorithm is nearly always a mistake, so it is refused here where it would change the number.\n\nWrong: `(id as i32 - 1) as usize` for rank 0. Right: `(id as i32 - 1).rem_euclid(n as i32) as usize`.";
    TooManySteps = "M0111" "too-many-steps": "evaluation ends within its budget",
        "Evaluating a collective is part of every build, so it has a budget of steps and operations, and a loop that does not end is found.\n\nWrong: `while i < n { … }` that never changes `i`. Right: let it end; if it is meant to run this long, raise the budget: `#[collective(…, max_steps = 50_000_000)]`.";
    TooDeep = "M0112" "recursion-limit": "calls do not nest deeper than 200",
        "Recursion is fine as long as it ends soon: a tree over 1024 ranks is 10 calls deep.\n\nWrong: `fn f(n: usize) -> usize { f(n + 1) }`. Right: end the recursion, or write a loop.";
    TooManyElements = "M0113" "too-many-elements": "a collective keeps its lists small",
        "A plan needs no data, only the numbers that say where data goes, so lists of tens of millions of elements are a mistake.\n\nWrong: `vec![0; 1 << 40]`. Right: a list with an element for each rank or chunk.";
    Internal = "M0114" "internal": "the evaluator does not fail",
        "This is a mistake in mscclpp and not in your program. Please report it with the function that shows it.";
}
