//! Codes of the area `evaluate`.

use crate::diag::catalogue::{Code, Entry, codes};

codes! {
    BadAttribute = "M0101" "bad-attribute": "the arguments of `#[collective]` are the documented ones",
        "The kind of collective comes first, followed by arguments whose values are literals: a macro cannot resolve constants. `mscclpp explain --subset` lists all arguments.\n\nWrong: `#[collective(AllGather, ranks = N, inplace)]`. Right: `#[collective(AllGather, ranks = 8, in_place)]`.";
    BadSignature = "M0102" "bad-signature": "a collective takes a program, followed by parameters whose values the attribute lists",
        "The macro calls the function with a `&Program` and with every combination of the values in `params(…)`, in the order of the function's parameters. The function records operations and returns nothing.\n\nWrong: `#[collective(AllReduce, ranks = 8)] fn ring(p: &Program, tbg: usize)`. Right: `#[collective(AllReduce, ranks = 8, params(tbg = [1, 2]))] fn ring(p: &Program, tbg: usize)`.";
    NotInSubset = "M0103" "not-in-subset": "a collective is written in the subset of Rust that is evaluated at compile time",
        "The function is evaluated while the crate compiles, by an evaluator that supports integers, tuples, structs, enums, lists, maps, options, results, loops, closures and iterators; `mscclpp explain --subset` lists everything. Unsupported code is rejected before evaluation starts.\n\nWrong: `println!(\"{n}\")`, floating-point numbers, `unsafe`, threads. Right: compute with integers, and call the function at run time (`name::compile(spec)`, from `main` or `build.rs`) if it needs more.";
    UnresolvedName = "M0104" "unresolved-name": "a collective uses only names from its own tokens",
        "The macro receives the tokens of the function, not the crate around it, so it cannot resolve constants, functions or types that are defined outside.\n\nWrong: `const N: usize = 4; #[collective(AllGather, ranks = 4)] fn f(p: &Program) { for i in 0..N { … } }`. Right: put both into a module with `#[collectives]`, or make the constant a parameter: `#[collective(…, params(n = [4]))] fn f(p: &Program, n: usize)`.";
    TypeError = "M0105" "type-error": "the evaluator can infer the types of a collective",
        "The evaluator infers types as the compiler does, and found mismatched types, or could not infer one. Where the compiler reports an error as well, its message is the only one. Otherwise annotate the type at the location of this message.\n\nWrong: `let peers = p.ranks().map(Rank::id).collect();`. Right: `let peers: Vec<usize> = p.ranks().map(|rank| rank.id()).collect();`.";
    Panicked = "M0106" "panicked": "a collective does not panic for the rank counts and parameters that it is compiled for",
        "`assert!`, `panic!`, `unwrap` and `expect` state the requirements of a collective; a violation during evaluation is a compile error.\n\nWrong: `ranks = [2, 3]` with `assert!(p.num_ranks().is_power_of_two())`. Right: `ranks = [2, 4]`.";
    Overflow = "M0107" "overflow": "arithmetic does not overflow",
        "As in a debug build, a result that its type cannot represent is an error. Integer literals without another type are `i32`, as in all Rust code.\n\nWrong: `id - 1` for rank 0, where `id` is a `usize`. Right: `(id + n - 1) % n`.";
    DivisionByZero = "M0108" "division-by-zero": "a divisor is not zero",
        "Wrong: `n / (n - 1)` for one rank. Right: handle one rank separately, or remove it from `ranks`.";
    NoSuchElement = "M0109" "no-such-element": "an index is within its list, and a key is in its map",
        "A list of n elements has the indices 0 to n - 1.\n\nWrong: `channels[n]`. Right: `channels[n - 1]`, or `channels.get(n)`, which returns an `Option`.";
    LossyCast = "M0110" "lossy-cast": "`as` does not change the value",
        "Rust's `as` truncates values that do not fit the target type. In an algorithm that is nearly always a mistake, so a cast that would change the value is an error here.\n\nWrong: `(id as i32 - 1) as usize` for rank 0. Right: `(id as i32 - 1).rem_euclid(n as i32) as usize`.";
    TooManySteps = "M0111" "too-many-steps": "evaluation finishes within the step limit",
        "A collective is evaluated in every build, so the number of steps and operations is limited, which also stops an infinite loop.\n\nWrong: `while i < n { … }` that never changes `i`. Right: make the loop end; if it is meant to run this long, raise the limit: `#[collective(…, max_steps = 50_000_000)]`.";
    RecursionLimit = "M0112" "recursion-limit": "calls do not nest deeper than 200",
        "Recursion is supported up to this depth; a binary tree over 1024 ranks is 10 calls deep.\n\nWrong: `fn f(n: usize) -> usize { f(n + 1) }`. Right: add a base case, or use a loop.";
    TooManyElements = "M0113" "too-many-elements": "lists stay within the element limit",
        "A collective computes with the numbers of ranks and chunks, not with data, so a list of tens of millions of elements is a mistake.\n\nWrong: `vec![0; 1 << 40]`. Right: a list with one element per rank or chunk.";
    Internal = "M0114" "internal": "the evaluator does not fail",
        "This is a bug in mscclpp, not in your program. Please report it with the function that triggers it.";
}
