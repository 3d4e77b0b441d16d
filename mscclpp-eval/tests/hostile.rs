//! Functions that nobody writes end in errors, never in a panic, an overflow of the stack or a build without end.

use mscclpp_core::diag::Code;
use mscclpp_eval::probe;

/// Runs on a stack as large as the compiler's, where the macro runs; that of a test is smaller.
fn as_in_the_compiler<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    std::thread::scope(|scope| {
        let handle = thread.spawn_scoped(scope, work).expect("a thread starts");
        handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The first error of a function body.
fn refused(body: &str) -> Code {
    let source = format!("fn f() -> i32 {{ {body} }}");
    let error = as_in_the_compiler(|| probe::value(&source, "f")).expect_err("it is refused");
    error.iter().next().expect("an error is not empty").code
}

/// As many levels as `open` and `close` make around `inner`.
fn nested(open: &str, inner: &str, close: &str, levels: usize) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [
        ("(", ")"),
        ("{ ", " }"),
        ("-", ""),
        ("if true { ", " } else { 0 }"),
        ("(|| ", ")()"),
        ("[", ", 0][0]"),
        ("match 0 { _ => ", " }"),
        ("1 + (", ")"),
        ("loop { break ", "; }"),
    ] {
        let text = nested(open, "1", close, 200);
        assert_eq!(refused(&text), Code::NotInSubset, "{open}");
    }
    assert_eq!(refused(&format!("1{}", " + 1".repeat(400))), Code::NotInSubset);
    assert_eq!(refused(&format!("let {} = 1; 1", nested("(", "_", ")", 200))), Code::NotInSubset);
}

#[test]
fn types_within_types_are_refused_when_too_deep() {
    let mut types = String::new();
    for n in 0..400 {
        types += &format!("#[derive(Default)] struct S{n} {{ inner: Box<S{}> }}", n + 1);
    }
    assert_eq!(refused(&format!("{types} struct S400; let s = S0::default(); 1")), Code::NotInSubset);
    let aliases: String = (0..400).map(|n| format!("type A{n} = Vec<A{}>;", n + 1)).collect();
    assert_eq!(refused(&format!("{aliases} type A400 = i32; let a: A0 = vec![]; 1")), Code::NotInSubset);
    let constants: String = (0..400).map(|n| format!("const N{n}: i32 = S::N{} + 1;", n + 1)).collect();
    assert_eq!(refused(&format!("struct S; impl S {{ {constants} const N400: i32 = 1; }} S::N0")), Code::NotInSubset);
}

/// What `#[collective]` makes of a body.
fn expansion(body: &str) -> String {
    as_in_the_compiler(|| {
        let args = "Test(input = 1, output = 1), ranks = 2".parse().expect("tokens");
        let item = format!("fn f(p: &Program) {{ {body} }}").parse().expect("tokens");
        mscclpp_eval::collective(args, item).to_string()
    })
}

#[test]
fn tokens_are_refused_before_they_are_too_deep_to_be_parsed() {
    let forms = [
        ("(", ")"),
        ("{", "}"),
        ("[", "]"),
        ("-", ""),
        ("!", ""),
        ("& ", ""),
        ("*", ""),
        ("|x| ", ""),
        ("(|| ", ")()"),
        ("if true { ", " } else { 0 }"),
        ("match 0 { _ => ", " }"),
        ("f(", ")"),
        ("x = ", ""),
        ("return ", ""),
        ("1 + ", ""),
        ("f::<", ">()"),
        ("Some(|x: Option<", ">| 1)"),
        ("1 as Option<", ">"),
    ];
    for (open, close) in forms {
        // Around the limit, and far behind it; deeper than this the tokens themselves cannot be made.
        for levels in [30, 60, 100, 120, 130, 200, 400, 600] {
            let text = expansion(&format!("let _ = {};", nested(open, "1", close, levels)));
            assert!(levels < 200 || text.contains("compile_error"), "{open}: {levels}");
        }
    }
}

#[test]
fn ordinary_nesting_is_not_refused() {
    let blocks = nested("for x in 0..1 { if x == 0 { ", "let _ = (x + (x * (x + [x][0])));", " } }", 20);
    let text = expansion(&blocks);
    assert!(!text.contains("compile_error"), "{text}");
}

#[test]
fn nesting_within_the_limit_is_evaluated_at_any_depth_of_calls() {
    let sum = nested("(1 + ", "0", ")", 50);
    let body = format!(
        "fn g(n: i32) -> i32 {{ if n == 0 {{ {sum} }} else {{ {} }} }} g(190)",
        nested("if true { (0 + ", "g(n - 1)", ") } else { 0 }", 38)
    );
    let value = as_in_the_compiler(|| probe::value(&format!("fn f() -> i32 {{ {body} }}"), "f"));
    assert_eq!(value.as_deref(), Ok("50"));
}

#[test]
fn much_code_is_evaluated() {
    let lines = "x += 1; if x % 2 == 0 { x -= 1; }\n".repeat(2000);
    let source = format!("fn f() -> i32 {{ let mut x = 0; {lines} x }}");
    assert_eq!(probe::value(&source, "f").as_deref(), Ok("1"));
}

#[test]
fn endless_computations_end() {
    assert_eq!(refused("let mut x = 1; loop { x = -x; }"), Code::TooManySteps);
    assert_eq!(refused("(0u64..).filter(|x| *x == u64::MAX).count() as i32"), Code::TooManySteps);
    assert_eq!(refused("let mut v = vec![1]; loop { v.push(1); }"), Code::TooManySteps);
    assert_eq!(refused("let mut v = vec![0]; loop { let w = v.clone(); v.extend(w); }"), Code::TooManySteps);
    assert_eq!(
        refused("let v = vec![0; 1 << 20]; let mut w = v.clone(); loop { w = v.clone(); w[0] = 1; }"),
        Code::TooManyElements
    );
    assert_eq!(refused("fn a(n: i32) -> i32 { b(n) } fn b(n: i32) -> i32 { a(n) } a(1)"), Code::RecursionLimit);
    assert_eq!(refused("std::iter::repeat(1).max().unwrap()"), Code::TooManySteps);
    assert_eq!(
        refused("let mut s = std::collections::BTreeSet::new(); for i in 0u64.. { s.insert(i); } 1"),
        Code::TooManySteps
    );
    assert_eq!(refused("const N: i32 = N + 1; N"), Code::RecursionLimit);
    assert_eq!(refused("#[derive(Default)] struct S(Box<S>); let s = S::default(); 1"), Code::RecursionLimit);
    assert_eq!(refused("enum E { A = E::A as isize + 1 } E::A as i32"), Code::RecursionLimit);
    assert_eq!(refused("std::iter::repeat_with(|| 1).max().unwrap()"), Code::TooManySteps);
    assert_eq!(refused("let mut v = vec![]; v.resize_with(1 << 40, || 1); 1"), Code::TooManySteps);
    assert_eq!(refused("std::iter::from_fn(|| Some(1)).try_fold(0, |_, x| Some(x)).unwrap()"), Code::TooManySteps);
}

#[test]
fn ill_typed_code_is_refused() {
    for body in [
        "1 + true",
        "let x: Vec<i32> = 5; x[0]",
        "\"a\" - 1",
        "let f = |x| x; f(1, 2)",
        "let v = vec![]; v.len() as i32",
        "Some(1)",
        "let x = None; x.unwrap()",
        "return true",
        "let (a, b) = (1, 2, 3); a",
        "vec![1, true][0]",
        "for x in 5 { let _ = x; } 1",
        "(1, 2).7",
        "let f = |f| f(f); f(f)",
        "missing(1)",
        "let x; x",
        "fn g(x: i32) -> i32 { x } g()",
        "5.nothing()",
        "break 1",
        "let mut v = vec![1]; let r = &mut v; for x in v.iter() { r.push(*x); if r.len() > 9 { return 1; } } 1",
        "let mut v = vec![1, 2]; v.retain(|x| { v.push(*x); true }); 1",
        "struct S { a: i32, b: i32 } let S { a, c } = S { a: 1 }; a + S { c: 1 }.b",
        "struct S(i32); let S(a, b, .., c) = S(1, 2); a + S.0 + S {}.0",
        "enum E { A, B(i32) } let E::B = E::A(1); E::C; E::A { x: 1 }; match E::B(1) { E::B(a, b) => a, E => 1 }",
        "enum E {} let E = E; E as i32",
        "enum E { A = E::A as isize } E::A as i32",
        "enum E { A = { let E::B(x) = E::B(1); x }, B(isize) } E::A as i32",
        "enum E { A = isize::MAX, B } E::B as i32",
        "#[derive(Default)] struct S { s: Box<S> } S::default(); 1",
        "#[derive(Default)] enum E { A(i32) } E::default(); 1",
        "impl Default for Missing { fn default() -> Self { Self } } Missing::default()",
        "struct S; impl S { const N: i32 = Self::N; fn f(&mut self) -> i32 { self.f() } } S::N + S.f()",
        "struct S(i32); S(..S(1)).0",
        "struct S { a: i32 } struct T { a: i32 } S { ..T { a: 1 } }.a",
        "use Missing::*; use E::{A, Z}; enum E { A } let A = Z; A as i32",
        "use S::*; struct S; new()",
        "Self::new() + Self { a: 1 }.a",
        "Default::default()",
        "let x = Default::default(); x",
        "std::mem::take(&mut 5) + std::mem::take(5) + Box::new()",
        "Err(1)?; None?; Ok(3)?",
        "let x = 1.into(); x + 2.try_into() + true.try_into().unwrap()",
        "vec![1].into().try_into::<i32>()",
        "[Some(1)].into_iter().try_fold(0, |a, b| a + b)",
        "[1].iter().try_fold(0, |a, b| None).unwrap()",
        "let std::cmp::Reverse(a, b) = Reverse(1); a.0",
        "Vec::len() + usize::max(1) + Option::map(Some(1)) + Result::ok",
        "type A = B; type B = A; A::new(); let A { x } = A { x: 1 }; x",
        "vec![3].sort_by_key(|x| Reverse(x, x)); [1].binary_search()",
        "let mut i = [1, 2].iter(); let mut j = i.by_ref().map(|x| { i.next(); x }); j.next(); 1",
    ] {
        // rustc refuses all of these; here it is enough that nothing panics.
        let _ = probe::value(&format!("fn f() -> i32 {{ {body} }}"), "f");
    }
}
