//! `Result`, `?`, and what stops at the first error.

use std::collections::{BTreeMap, BTreeSet};

values! {
    fn results() -> Vec<Result<i32, String>> {
        let (ok, err): (Result<i32, String>, Result<i32, String>) = (Ok(3), Err("bad".to_string()));
        vec![
            ok.clone().map(|x| x + 1), err.clone().map(|x| x + 1), err.clone().map_err(|e| format!("{e}!")), ok.clone().and_then(|x| if x > 3 { Ok(x) } else { Err("small".to_owned()) }),
            err.clone().or_else(|e| if e == "bad" { Ok(1) } else { Err(e) }), Ok(err.clone().unwrap_or(7)), Ok(err.clone().unwrap_or_else(|e| if e == "" { 0 } else { 5 })),
            Ok(err.clone().unwrap_or_default()), Ok(ok.clone().map_or(0, |x| x * 2)), Ok(err.clone().map_or_else(|_| -1, |x| x)), Ok(ok.is_ok() as i32 + err.is_err() as i32 * 10),
            Ok(ok.clone().is_ok_and(|x| x == 3) as i32), Ok(ok.clone().ok().unwrap() + err.clone().err().map_or(0, |_| 40)), Some(4).ok_or("none".to_string()), None.ok_or_else(|| "none".to_string()),
        ]
    }
    fn question_mark() -> Vec<Result<u32, String>> {
        fn half(x: u32) -> Result<u32, String> { if x % 2 == 0 { Ok(x / 2) } else { Err(format!("{x} is odd")) } }
        fn quarter(x: u32) -> Result<u32, String> { let x = half(x)?; Ok(half(x)?) }
        let both = |a: u32, b: u32| -> Result<u32, String> { Ok(quarter(a)? + quarter(b)?) };
        vec![quarter(12), quarter(6), both(4, 8), both(4, 7)]
    }
    fn conversions() -> (u64, Result<u8, std::num::TryFromIntError>, bool, Option<i32>, Vec<i32>, usize) {
        fn narrow(x: i64) -> Result<u8, std::num::TryFromIntError> { let y: u8 = x.try_into()?; Ok(y + 1) }
        let wide: u64 = 7u32.into();
        let some: Option<i32> = 5.into();
        let list: Vec<i32> = [1, 2].into();
        let bits: usize = u8::try_from(300i32).unwrap_or(9).into();
        (wide + u64::from(true), narrow(300), narrow(-1).is_err() && narrow(4) == Ok(5), some, list, bits)
    }
    fn collecting() -> (Result<Vec<u8>, String>, Result<BTreeSet<u8>, String>, Option<BTreeMap<i32, i32>>, Option<Vec<i32>>, usize) {
        let mut calls = 0;
        let mut parse = |x: i32| { calls += 1; u8::try_from(x).map_err(|e| format!("{x}: {e}")) };
        let stopped = [1, 300, 4].into_iter().map(&mut parse).collect::<Result<Vec<_>, _>>();
        let all = [3, 1, 3].into_iter().map(&mut parse).collect();
        (stopped, all, [(1, 2), (3, 4)].into_iter().map(Some).collect(), [1i32, -1].iter().map(|x| x.checked_sub(i32::MAX)).collect(), calls)
    }
    fn folds_that_stop() -> (Option<i8>, Result<i32, i32>, Option<()>, Vec<i32>) {
        let mut seen = vec![];
        let sum = [100i8, 20, 30].iter().try_fold(0i8, |sum, x| sum.checked_add(*x));
        let found = (1..).try_fold(0, |sum, x| if sum > 10 { Err(sum) } else { Ok(sum + x) });
        let stopped = [1, 2, 3].iter().try_for_each(|x| { seen.push(*x); (*x < 2).then_some(()) });
        (sum, found, stopped, seen)
    }
    fn transposed() -> (Result<Option<i32>, i32>, Option<Result<i32, i32>>, Vec<i32>) {
        let (a, b): (Option<Result<i32, i32>>, Result<Option<i32>, i32>) = (Some(Err(3)), Ok(Some(4)));
        (a.transpose(), b.transpose(), [Ok(1), Err(2), Ok(3)].into_iter().flatten().collect())
    }
    fn patterns_of_results() -> (i32, Result<Vec<i32>, i32>) {
        let mut all: Vec<Result<i32, i32>> = vec![Ok(1), Err(5), Ok(10)];
        if let Ok(first) = &mut all[0] { *first += 1; }
        if let Err(error) = all[1].as_mut() { *error *= 2; }
        let mut n = 0;
        for one in &all { n += match one { Ok(x) if *x > 5 => 100, Ok(x) => *x, Err(e) => -e }; }
        let Ok(last) = all[2] else { panic!() };
        (n + last, all.into_iter().collect())
    }
}

shown! {
    fn errors_of_own_types() {
        #[derive(Debug, Clone, PartialEq)] enum Wrong { TooFew { ranks: usize }, Odd(usize) }
        fn check(ranks: usize) -> Result<usize, Wrong> {
            if ranks < 2 { return Err(Wrong::TooFew { ranks }); }
            (ranks % 2 == 0).then_some(ranks).ok_or(Wrong::Odd(ranks))
        }
        (check(4), [1, 2, 3].iter().filter_map(|ranks| check(*ranks).err()).collect::<Vec<_>>())
    }
}

panics! {
    fn unwrap_err() -> i32 { let r: Result<i32, &str> = Err("no peer"); r.unwrap() } => Panicked
    fn expect_err() -> i32 { let r: Result<i32, i32> = Err(3); r.expect("a rank") } => Panicked
    fn unwrap_err_of_ok() -> i32 { let r: Result<i32, i32> = Ok(3); r.unwrap_err() } => Panicked
}

refused! {
    fn converted_error() -> bool { fn f() -> Result<i32, i64> { Err(3i32)? } f().is_err() } => NotInSubset
    fn nested_collect() -> bool { [Some(Ok::<i32, i32>(1))].into_iter().map(|x| x).collect::<Option<Result<Vec<_>, _>>>().is_some() } => NotInSubset
}

/// What stops a panic is said in Rust's own words.
#[test]
fn panics_have_the_text_that_rust_gives_them() {
    for (body, text) in [
        ("let r: Result<i32, &str> = Err(\"bad\"); r.unwrap()", "called `Result::unwrap()` on an `Err` value: \"bad\""),
        (
            "#[derive(Debug)] struct E { n: i32 } let r: Result<i32, E> = Err(E { n: 1 }); r.expect(\"a rank\")",
            "a rank: E { n: 1 }",
        ),
        ("u8::try_from(300).unwrap() as i32", "called `Result::unwrap()` on an `Err` value: TryFromIntError(())"),
        ("let o: Option<i32> = None; o.unwrap()", "called `Option::unwrap()` on a `None` value"),
        ("let o: Option<i32> = None; o.expect(\"a peer\")", "a peer"),
    ] {
        let error = mscclpp_eval::probe::value(&format!("fn f() -> i32 {{ {body} }}"), "f").expect_err("it panics");
        assert_eq!(error.iter().next().map(|one| one.message.as_str()), Some(text), "{body}");
    }
}
