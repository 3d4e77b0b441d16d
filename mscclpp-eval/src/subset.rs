//! The page that lists what is evaluated, which `mscclpp explain --subset` and the book show.

use std::fmt::Write;

use crate::args::{ARGUMENTS, KINDS, MAX_PLANS};
use crate::eval::Limits;
use crate::lang::{PATHS, TABLES};

/// A construct of the language.
struct Construct {
    name: &'static str,
    /// A block that a test runs, so that the page stays true.
    #[cfg_attr(not(test), expect(dead_code, reason = "the page names constructs only"))]
    example: &'static str,
    /// Its value as `{:?}` formats it, or the slug of the error that rejects it.
    outcome: Result<&'static str, &'static str>,
    /// A remark, or what to write instead.
    note: &'static str,
}

const fn evaluated(name: &'static str, example: &'static str, value: &'static str, note: &'static str) -> Construct {
    Construct { name, example, outcome: Ok(value), note }
}

const fn refused(name: &'static str, example: &'static str, slug: &'static str, note: &'static str) -> Construct {
    Construct { name, example, outcome: Err(slug), note }
}

/// Constructs of the language.
const CONSTRUCTS: &[Construct] = &[
    evaluated("integers", "7u8 + 0x10", "23", "all types of 8 to 64 bits; without a type they are `i32`"),
    evaluated("booleans", "!(true && false) || true ^ true", "true", ""),
    evaluated("tuples", "{ let mut t = (1, (2, 3)); t.1.0 += 5; t }", "(1, (7, 3))", ""),
    evaluated("arrays, slices, `Vec`", "{ let mut v = vec![0; 3]; v[1] = 4; v[1..].to_vec() }", "[4, 0]", ""),
    evaluated("ranges", "(1..=6).step_by(2).collect::<Vec<i32>>()", "[1, 3, 5]", "`..` and `..b` as indexes only"),
    evaluated(
        "`BTreeMap`, `BTreeSet`",
        "{ let mut m = std::collections::BTreeMap::new(); m.insert((0, 1), 2); m[&(0, 1)] }",
        "2",
        "",
    ),
    evaluated(
        "`HashMap`, `HashSet`",
        "{ let mut m = std::collections::HashMap::new(); m.insert(1, 2); m.get(&1).copied() }",
        "Some(2)",
        "except for their order",
    ),
    evaluated(
        "`Option`, `Result`",
        "{ fn half(x: u32) -> Result<u32, String> { if x % 2 == 0 { Ok(x / 2) } else { Err(format!(\"{x} is odd\")) } } half(6).and_then(half) }",
        "Err(\"3 is odd\")",
        "with `?`; the error of `?` is not converted",
    ),
    evaluated("`let` with patterns", "{ let (a, [b, ..]) = (1, [2, 3]); a + b }", "3", ""),
    evaluated("`let … else`", "{ let Some(x) = Some(5) else { panic!() }; x }", "5", ""),
    evaluated(
        "patterns",
        "match (3, Some(4)) { (1 | 2, _) => 0, (n @ 3..=9, Some(m)) if m > n => m, _ => 1 }",
        "4",
        "literals, ranges, constants, tuples, slices, structs, enums, `|`, `@`, `_`, `..`, guards",
    ),
    evaluated("assignment", "{ let (mut a, mut b) = (1, 2); (a, b) = (b, a); a <<= 3; (a, b) }", "(16, 1)", ""),
    evaluated("`if`, `if let`, chains", "if let Some(x) = Some(2) && x > 1 { x } else { 0 }", "2", ""),
    evaluated("`match`", "match 7 % 3 { 0 => 'x: { break 'x 1; }, 1 => 2, _ => 3 }", "2", ""),
    evaluated(
        "`for`, `while`, `loop`",
        "{ let mut n = 0; 'o: for i in 0.. { while n < i { n += 2; if n > 6 { break 'o; } } } n }",
        "8",
        "with labels, `break` with a value and `continue`",
    ),
    evaluated(
        "closures",
        "{ let mut n = 0; let mut add = |x: i32| n += x; add(2); add(3); n }",
        "5",
        "also with `move`",
    ),
    evaluated(
        "functions",
        "{ fn gcd(a: u32, b: u32) -> u32 { if b == 0 { a } else { gcd(b, a % b) } } gcd(12, 18) }",
        "6",
        "recursion up to 200 calls deep; parameters may be `impl Fn(…)`, `impl Iterator`, `impl IntoIterator`",
    ),
    evaluated(
        "constants",
        "{ const N: usize = 4; const M: usize = 2 * N; M }",
        "8",
        "of the body or the `#[collectives]` module",
    ),
    evaluated(
        "structs",
        "{ #[derive(Debug, Default)] struct P { x: i32, y: Vec<u8> } P { x: 4, ..Default::default() } }",
        "P { x: 4, y: [] }",
        "with named and numbered fields and without; without type parameters; traits are derived, `Default` also implemented manually",
    ),
    evaluated(
        "enums",
        "{ enum Step { Send(u32), Wait } use Step::*; [Send(3), Wait].map(|s| match s { Send(to) => to, Wait => 0 }) }",
        "[3, 0]",
        "with fields, discriminants and `as`, also imported by `use`; traits as for structs",
    ),
    evaluated(
        "`impl` blocks",
        "{ struct P(i32); impl P { const N: i32 = 2; fn new() -> Self { Self(4) } fn add(&mut self) { self.0 += Self::N; } } let mut p = P::new(); p.add(); p.0 }",
        "6",
        "methods, associated functions and constants",
    ),
    evaluated(
        "references",
        "{ let mut v = vec![1]; let r = &mut v; r.push(2); for x in v.iter_mut() { *x *= 3; } v }",
        "[3, 6]",
        "",
    ),
    evaluated(
        "conversions",
        "{ let wide: u64 = 7u8.into(); let byte: Result<u8, _> = wide.try_into(); (300usize as u16, byte, u8::try_from(300).is_err()) }",
        "(300, Ok(7), true)",
        "between integers",
    ),
    evaluated("strings", "{ let name = \"ring\"; assert!(name == \"ring\", \"{name}\"); 1 }", "1", "for messages only"),
    refused("`as` that changes the value", "(0 - 1) as usize", "lossy-cast", "`rem_euclid`, a mask, `try_from`"),
    refused("overflow", "{ let n: usize = 0; n - 1 }", "overflow", "`checked_…`, `wrapping_…`, `saturating_…`"),
    refused(
        "order of a hash table",
        "for x in std::collections::HashSet::from([1]) { let _ = x; }",
        "not-in-subset",
        "`BTreeSet`",
    ),
    refused("floating-point numbers", "1.5 * 2.0", "not-in-subset", "integers"),
    refused("characters and text", "\"a\".to_uppercase()", "not-in-subset", ""),
    refused(
        "formats of `format!`",
        "format!(\"{:02}\", 3)",
        "not-in-subset",
        "`{}`, `{:?}`; messages may have any format",
    ),
    refused(
        "generic functions",
        "{ fn id<T>(x: T) -> T { x } id(1) }",
        "not-in-subset",
        "`impl Fn(…)`, or one function for each type",
    ),
    refused(
        "traits implemented manually, except `Default`",
        "{ struct S(i32); impl Drop for S { fn drop(&mut self) {} } let _ = S(1); }",
        "not-in-subset",
        "functions",
    ),
    refused(
        "generic types",
        "{ struct Pair<T>(T, T); let _ = Pair(1, 2); }",
        "not-in-subset",
        "one type for each, or a tuple",
    ),
    refused("`ref mut`", "{ let (ref mut a, _) = (1, 2); *a = 3; }", "not-in-subset", "`match` on `&mut` of the value"),
    refused(
        "defaults of arrays",
        "{ let a: [u8; 2] = Default::default(); a }",
        "not-in-subset",
        "`[0; 2]`; in a type that derives `Default` they are evaluated",
    ),
    refused("`unsafe`", "unsafe { 1 }", "not-in-subset", ""),
    refused("`async`, threads", "async { 1 }", "not-in-subset", ""),
    refused(
        "input and output",
        "println!(\"x\")",
        "not-in-subset",
        "`panic!(\"{x:?}\")` shows a value while the crate compiles",
    ),
    refused("`#[cfg]` in a body", "{ #[cfg(unix)] let x = 1; 2 }", "not-in-subset", ""),
    refused("names from outside", "OUTSIDE + 1", "unresolved-name", "a `#[collectives]` module, or `params(…)`"),
    refused("endless loops", "loop {}", "too-many-steps", "`max_steps` raises the limit"),
];

/// Returns the page that lists what is evaluated, in Markdown.
pub fn page() -> String {
    let mut page = String::from(HEAD);
    attribute(&mut page);
    constructs(&mut page);
    methods(&mut page);
    details(&mut page);
    page
}

const HEAD: &str = "\
# What `#[collective]` evaluates

A function under `#[collective]` runs while the crate compiles: the macro evaluates its body and calls the authoring API as
the function itself would. Everything on this page is evaluated with Rust's semantics. Everything else is rejected with an
error, constructs before anything has run: no expression is evaluated to another value than the compiled function would
compute. The test that the macro generates with each collective compares both.

There are two ways around a limit of the subset. A name from outside, which the macro cannot see, moves into a module under
`#[collectives]` together with the collective, or becomes a parameter with `params(…)`. A collective that exceeds the subset is
built at run time, without the attribute: `mscclpp::compiler::compile(spec, function)` runs the function natively, with the same
checks, from `main` or from `build.rs`.

## The attribute

`#[collective(Kind, ranks = …, …)]` on `fn name(p: &Program, …)`. Parameters of integer type or `bool` may follow
the program; `params(…)` lists their values, and each combination of ranks and values is a plan. A parameter with several values adds
`_`, its name and its value to the plan's name. Numbers are literals or arithmetic on literals.
";

fn details(page: &mut String) {
    let Limits { steps, depth, operations, elements } = Limits::default();
    let _ = write!(
        page,
        "
## Details

- **Integers** have the types that rustc gives them: the same inference runs over the body, and a literal without further constraints is an `i32`.
  `usize` has 64 bits. Overflow, division by zero, shifts by too many bits and indexes out of range are errors as in a debug build,
  at the expression. `as` is an error if it would change the value.
- **Order**: arguments, operands and lazy iterators are evaluated in Rust's order. Comparison, hashing and `sort` follow the
  derived order of discriminants and fields.
- **Limits**: {steps} steps (`max_steps`), {depth} calls deep, {operations} operations, {elements} elements, {MAX_PLANS} plans for one collective.
- **Assumptions of the macro**: `Vec`, `Some`, `vec!` and other names of the standard library refer to the standard library. A constant in
  a pattern has an upper-case name or is declared where the macro sees it. Variables that a `macro_rules!` macro introduces are
  distinguished by name only. Items within a function body cannot be collectives.
- **Not evaluated**: `rev` and `next_back` over adaptors that would have to run closures at another time than Rust does
  (`take`, `skip` and `zip` over a `map`), and ranges kept in a variable and advanced there.
"
    );
}

fn attribute(page: &mut String) {
    let kinds: Vec<String> = KINDS.iter().map(|kind| format!("`{kind}`")).collect();
    let _ = writeln!(page, "\nKinds: {}.\n\n| argument | meaning |\n|---|---|", kinds.join(", "));
    for argument in ARGUMENTS {
        let _ = writeln!(page, "| `{}` | {} |", argument.form, argument.about);
    }
}

fn constructs(page: &mut String) {
    let names =
        |is_evaluated: bool| CONSTRUCTS.iter().filter(move |construct| construct.outcome.is_ok() == is_evaluated);
    page.push_str("\n## The language\n\n");
    let evaluated = names(true).map(|construct| match construct.note {
        "" => construct.name.to_owned(),
        note => format!("{} ({note})", construct.name),
    });
    let _ = writeln!(page, "Evaluated:\n\n- {}", evaluated.collect::<Vec<_>>().join("\n- "));
    page.push_str("\n| rejected | error | instead |\n|---|---|---|\n");
    for construct in names(false) {
        if let Err(slug) = construct.outcome {
            let note = construct.note.replace('|', "\\|");
            let _ = writeln!(page, "| {} | {slug} | {note} |", construct.name);
        }
    }
    page.push_str("\nMacros: ");
    let macros: Vec<String> = crate::build_hir::macros().map(|name| format!("`{name}!`")).collect();
    let _ = writeln!(page, "{}. A failed assertion or a panic is a compile error with its message.", macros.join(", "));
}

fn methods(page: &mut String) {
    page.push_str("\n## Methods and functions of the standard library\n\n| of | names |\n|---|---|\n");
    for table in TABLES {
        let names = table.methods.iter().map(|method| name(method.sig));
        let _ = writeln!(page, "| {} | {} |", table.about, list(names));
    }
    let paths = PATHS.iter().map(|function| match function.qualifier {
        "" => name(function.sig).to_owned(),
        qualifier => format!("{qualifier}::{}", name(function.sig)),
    });
    let _ = writeln!(page, "| functions | {} |", list(paths));
    page.push_str(
        "\nAll functions of the authoring API are evaluated; rustdoc describes them. Also `MIN`, `MAX`, `BITS`, `from` and `try_from` of integer types, their methods as functions (`usize::min(a, b)`), and \
         `Ordering::Less`, `Equal`, `Greater`.\n",
    );
}

/// Returns the name of a function from its signature.
fn name(sig: &str) -> &str {
    sig.split(['(', '<']).next().unwrap_or(sig)
}

/// Returns the names as one code span, each once.
fn list(names: impl Iterator<Item = impl Into<String>>) -> String {
    let mut list: Vec<String> = names.map(Into::into).collect();
    list.dedup();
    format!("`{}`", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::CONSTRUCTS;
    use crate::probe;

    #[test]
    fn every_example_does_what_the_page_says() {
        for construct in CONSTRUCTS {
            let source = format!("fn example() -> _ {{ {} }}", construct.example);
            let found = probe::value(&source, "example");
            match (construct.outcome, found) {
                (Ok(expected), Ok(found)) => assert_eq!(found, expected, "{}", construct.example),
                (Err(slug), Err(error)) => {
                    let first = error.iter().next().expect("an error is not empty");
                    assert_eq!(first.code.entry().slug, slug, "{}: {error}", construct.example);
                }
                (_, found) => panic!("{}: {found:?}", construct.example),
            }
        }
    }
}
