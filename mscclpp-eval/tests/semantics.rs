//! Snippets that run natively and evaluated, and must agree: on the value, or on panicking.
#![allow(clippy::undocumented_unsafe_blocks, reason = "the one there is refused")]
#![allow(
    clippy::all,
    arithmetic_overflow,
    unconditional_panic,
    unused,
    unconditional_recursion,
    dead_code,
    reason = "the snippets try what people write, not what they should"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use mscclpp_core::diag::Code;
use mscclpp_eval::probe;

fn source(name: &str, ty: &str, body: &str) -> String {
    format!("fn {name}() -> {ty} {body}")
}

/// Tests that a snippet's value is the same both ways.
macro_rules! values {
    ($(fn $name:ident() -> $ty:ty $body:block)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            let source = source(stringify!($name), stringify!($ty), stringify!($body));
            let evaluated = probe::value(&source, stringify!($name)).unwrap_or_else(|error| panic!("{error}\n{source}"));
            assert_eq!(evaluated, format!("{:?}", native()), "{source}");
        }
    )* };
}

/// Tests that a snippet panics natively and is refused with a code.
macro_rules! panics {
    ($(fn $name:ident() -> $ty:ty $body:block => $code:ident)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            std::panic::catch_unwind(native).expect_err("native code panics");
            let source = source(stringify!($name), stringify!($ty), stringify!($body));
            let error = probe::value(&source, stringify!($name)).expect_err("evaluation fails");
            let codes: Vec<Code> = error.iter().map(|diagnostic| diagnostic.code).collect();
            assert_eq!(codes, [Code::$code], "{error}\n{source}");
        }
    )* };
}

/// Tests that a snippet, which rustc takes, is refused with a code.
macro_rules! refused {
    ($(fn $name:ident() -> $ty:ty $body:block => $code:ident)*) => { $(
        #[test]
        fn $name() {
            fn native() -> $ty $body
            let _ = native;
            let source = source(stringify!($name), stringify!($ty), stringify!($body));
            let error = probe::value(&source, stringify!($name)).expect_err("it is refused");
            assert!(error.iter().all(|diagnostic| diagnostic.code == Code::$code), "{error}\n{source}");
        }
    )* };
}

values! {
    fn literals() -> (i32, u8, i64, usize, bool) { (1_000, 0xff, -5, 1 << 20, !false) }
    fn default_integer_is_i32() -> (i32, u32) { let x = 5; (x - 7, (1u64 << 4).count_ones() + 1u32) }
    fn literals_adopt_the_type_they_meet() -> (u64, usize) {
        let unit = 48 << 30;
        let mut tb = 0;
        let n: usize = 7;
        for i in 0..n { tb += i % 2; }
        (unit, tb)
    }
    fn negative_literals() -> (i8, i64, i32) { (-128, i64::MIN, -(3 - 7)) }
    fn precedence() -> i32 { 2 + 3 * 4 - 10 / 3 % 2 << 1 & 0xff | 1 ^ 3 }
    fn signed_division() -> (i32, i32, i32, i32) { (-7 / 2, -7 % 2, (-7i32).div_euclid(2), (-7i32).rem_euclid(2)) }
    fn shifts() -> (u8, i32, i8) { (0b1100_0011u8 << 3, -9 >> 1, (-1i8) << 7) }
    fn bit_not() -> (u8, i32, bool) { (!5u8, !5, !true) }
    fn casts() -> (u8, i64, usize, i32) { (200usize as u8, 3u8 as i64, true as usize, -1i64 as i32) }
    fn literals_take_the_type_they_are_cast_to() -> (u64, u8, i64) { (!0 as u64, { 200 } as u8, -3_000_000_000 as i64) }
    fn conversions() -> (u64, i32, bool, Option<u8>, usize) {
        (u64::from(3u8), i32::try_from(9usize).unwrap(), u8::try_from(300).is_err(), u8::try_from(7i32).ok(), usize::from(true))
    }
    fn integer_methods() -> Vec<i64> {
        vec![
            (-5i64).abs(), 7i64.pow(3), 17i64.isqrt(), (-3i64).signum(), 3i64.min(-1), 3i64.max(9), 11i64.clamp(0, 10),
            i64::from(10u32.ilog2()), i64::from(1000u32.ilog10()), i64::from(81u32.ilog(3)), i64::from(7u32.div_ceil(2)),
            i64::from(13u32.next_multiple_of(8)), i64::from(5u32.next_power_of_two()), i64::from(40u16.trailing_zeros()),
            i64::from(1u16.leading_zeros()), i64::from((-1i8).count_ones()), i64::from(7u8.count_zeros()),
            i64::from(0x81u8.rotate_left(1)), i64::from(0x81u8.rotate_right(4)), i64::from(3u8.abs_diff(9)),
            i64::from((-100i8).abs_diff(100)), i64::from((-128i8).unsigned_abs()), i64::from(0xf0u8.leading_ones()),
        ]
    }
    fn checked_methods() -> Vec<Option<u8>> {
        vec![
            200u8.checked_add(56), 200u8.checked_add(55), 3u8.checked_sub(4), 16u8.checked_mul(16), 7u8.checked_div(0),
            7u8.checked_rem(4), 2u8.checked_pow(8), 3u8.checked_pow(5), 0u8.checked_neg(), 200u8.checked_next_power_of_two(),
        ]
    }
    fn saturating_methods() -> (u8, u8, i8, i8, i8, i8) {
        (250u8.saturating_add(9), 3u8.saturating_sub(4), (-100i8).saturating_sub(100), 100i8.saturating_mul(2),
         (-100i8).saturating_mul(2), (-3i8).saturating_pow(5))
    }
    fn wrapping_methods() -> (u8, u8, i8, i64, u64) {
        (250u8.wrapping_add(9), 3u8.wrapping_sub(4), (-128i8).wrapping_neg(), i64::MAX.wrapping_mul(3), u64::MAX.wrapping_mul(u64::MAX))
    }
    fn path_forms() -> (usize, i32, u32, u8, usize) {
        (std::cmp::min(3, 4), i32::max(3, 4), u64::BITS, u8::MAX, usize::pow(2, 5))
    }
    fn comparisons() -> Vec<bool> {
        vec![1 < 2, 2 <= 1, (1, 2) < (1, 3), [3, 1] > [2, 9], Some(1) > None, "a" == "a", (true, 1) != (true, 1), vec![1, 2] == [1, 2]]
    }
    fn lazy_logic() -> (bool, usize) {
        let mut calls = 0;
        let mut touch = || { calls += 1; true };
        let result = false && touch() || true || touch();
        (result, calls)
    }
    fn a_variable_may_share_its_function_s_name() -> i32 {
        fn three() -> i32 { 3 }
        let three = three() + 1;
        let a_variable_may_share_its_function_s_name = three * 2;
        a_variable_may_share_its_function_s_name
    }
    fn tuples_and_fields() -> (i32, (i32, i32), i32) {
        let mut t = ((1, 2), 3);
        t.0.1 = 9;
        t.1 += t.0.0;
        let (a, (b, _)) = (t.1, (t.0.1, 0));
        (a + b, t.0, t.1)
    }
    fn destructuring_assignment() -> (i32, i32, [i32; 2]) {
        let (mut a, mut b) = (1, 2);
        (a, b) = (b, a);
        let mut v = [0, 0];
        [v[1], _] = [7, 8];
        (a, b, v)
    }
    fn arrays_are_copied() -> ([i32; 3], [i32; 3]) { let a = [1, 2, 3]; let mut b = a; b[0] = 9; (a, b) }
    fn vectors_move_and_clone() -> (Vec<i32>, Vec<i32>) { let a = vec![1]; let mut b = a.clone(); b.push(2); (a, b) }
    fn nested_vectors() -> Vec<Vec<usize>> {
        let mut grid = vec![vec![0; 3]; 2];
        grid[1][2] = 5;
        grid[0][0] += 1;
        let row = &mut grid[0];
        row.push(8);
        row[1] = 4;
        grid
    }
    fn slices() -> (Vec<i32>, i32, Vec<i32>) {
        let mut v = vec![1, 2, 3, 4, 5];
        let part: i32 = v[1..4].iter().sum();
        v[2..].reverse();
        v[..2].swap(0, 1);
        for x in v[1..=2].iter_mut() { *x *= 10; }
        (v.clone(), part, v[..].to_vec())
    }
    fn list_methods() -> (Vec<i32>, Option<i32>, Option<i32>, bool, Option<usize>) {
        let mut v = vec![5, 3, 8];
        v.push(1);
        v.insert(1, 7);
        v.swap(0, 2);
        let removed = v.remove(1);
        v.extend([4, 4]);
        v.extend_from_slice(&[2]);
        v.sort();
        v.dedup();
        v.rotate_left(2);
        v.retain(|x| *x != 8);
        let last = v.pop();
        v.truncate(4);
        v.resize(6, -1);
        (v.clone(), last, Some(removed), v.contains(&-1), v.iter().position(|&x| x == -1))
    }
    fn more_list_methods() -> (Vec<i32>, Vec<i32>, Vec<i32>, i32, bool, Vec<i32>) {
        let mut v = vec![1, 2, 3, 4, 5, 6];
        let tail = v.split_off(4);
        let (a, b) = v.split_at(1);
        let joined = [b, a].concat();
        let mut w: Vec<i32> = v.drain(1..3).collect();
        w.append(&mut vec![9]);
        w.fill(3);
        (tail, joined, w, *v.first().unwrap() + *v.last().unwrap(), v.starts_with(&[1]), [1, 2].repeat(2))
    }
    fn sorting_by() -> (Vec<(i32, u8)>, Vec<i32>, Vec<i32>) {
        let mut v = vec![(2, 1u8), (1, 2), (2, 0), (1, 1)];
        v.sort_by_key(|p| p.0);
        let mut w = vec![3, 1, 2];
        w.sort_by(|a, b| b.cmp(a));
        let mut x = vec![-3i32, 2, -1];
        x.sort_by(|a, b| a.abs().cmp(&b.abs()).then(a.cmp(b)));
        (v, w, x)
    }
    fn deques() -> (Vec<i32>, Option<i32>, Option<i32>) {
        let mut d = VecDeque::from([1, 2, 3]);
        d.push_front(0);
        d.push_back(4);
        let (a, b) = (d.pop_front(), d.pop_back());
        (d.into_iter().collect(), a, b)
    }
    fn mutable_references() -> (i32, Vec<i32>, (i32, i32)) {
        fn bump(x: &mut i32) { *x += 1; }
        fn fill(v: &mut Vec<i32>, n: i32) { for i in 0..n { v.push(i); } }
        let mut x = 1;
        bump(&mut x);
        let y = &mut x;
        *y *= 10;
        bump(y);
        let mut v = vec![9];
        fill(&mut v, 2);
        bump(&mut v[0]);
        let mut t = (1, 2);
        { let r = &mut t; r.0 = 5; std::mem::swap(&mut v[1], &mut r.1); }
        (x, v, t)
    }
    fn rebinding_a_reference() -> (i32, i32) {
        let (mut a, mut b) = (1, 2);
        let mut r = &mut a;
        *r += 10;
        r = &mut b;
        *r += 20;
        (a, b)
    }
    fn iterating_mutably() -> (Vec<i32>, Vec<(usize, i32)>) {
        let mut v = vec![1, 2, 3];
        for x in &mut v { *x += 1; }
        for (i, x) in v.iter_mut().enumerate().rev() { *x += i as i32; }
        let mut pairs = vec![(0, 1), (1, 2)];
        for (k, value) in pairs.iter_mut() { *k += 5; *value *= 2; }
        if let Some(last) = v.last_mut() { *last = -1; }
        if let Some((_, n)) = pairs.first_mut() { *n = 77; }
        (v, pairs)
    }
    fn closures_capture_by_reference() -> (i32, Vec<i32>) {
        let mut total = 0;
        let mut log = Vec::new();
        let mut add = |x| { total += x; log.push(total); };
        add(1);
        add(2);
        total += 10;
        (total, log)
    }
    fn closures_capture_by_value() -> (i32, i32, i32, i32) {
        let mut x = 1;
        let mut next = move || { x += 1; x };
        let (a, b) = (next(), next());
        let mut other = next;
        (a, b, other() + next(), x)
    }
    fn nested_closures() -> Vec<usize> {
        let offset = 10;
        let rows = (0..3).map(|i| (0..2).map(move |j| i * 2 + j + offset));
        rows.flatten().collect()
    }
    fn closures_as_arguments() -> (i32, i32) {
        fn apply(f: impl Fn(i32) -> i32, x: i32) -> i32 { f(f(x)) }
        fn call(f: &mut dyn FnMut(i32)) { f(1); f(2); }
        let mut sum = 0;
        call(&mut |x| sum += x);
        fn double(x: i32) -> i32 { x * 2 }
        (apply(|x| x + 3, 1) + apply(double, 5), sum)
    }
    fn returned_closures() -> (usize, Vec<usize>) {
        fn adder(n: usize) -> impl Fn(usize) -> usize { move |x| x + n }
        fn evens(n: usize) -> impl Iterator<Item = usize> { (0..n).filter(|x| x % 2 == 0) }
        fn plain(n: usize) -> impl Iterator<Item = usize> { 0..n }
        let (a, b) = (adder(1), adder(10));
        (a(b(5)), evens(7).chain(plain(2)).collect())
    }
    fn recursion() -> (u64, usize) {
        fn fib(n: u64) -> u64 { if n < 2 { n } else { fib(n - 1) + fib(n - 2) } }
        fn depth(n: usize) -> usize { match n { 0 | 1 => 0, n => 1 + depth(n / 2) } }
        (fib(12), depth(1000))
    }
    fn constants() -> (usize, [usize; 3], usize) {
        const N: usize = 2 * M;
        const M: usize = 3;
        const TABLE: [usize; M] = [N, M, 1];
        let mut sum = 0;
        for i in 0..M { sum += TABLE[i]; }
        (N, TABLE, sum)
    }
    fn constants_in_patterns() -> Vec<i32> {
        const ZERO: usize = 0;
        const LAST: usize = 3;
        (0..4).map(|i| match i { ZERO => -1, LAST => 1, _ => 0 }).collect()
    }
    fn shadowing() -> (i32, i32) {
        let x = 1;
        let y = { let x = x + 1; let x = x * 10; x };
        let f = |x: i32| x + y;
        (f(x), x)
    }
    fn if_let_chains() -> Vec<i32> {
        let pairs = [(Some(1i32), 2), (None, 3), (Some(4), 5)];
        let mut out = vec![];
        for (a, b) in pairs {
            if let Some(a) = a && a > 1 && let Some(c) = a.checked_sub(b) { out.push(c); } else if a.is_none() { out.push(b) } else { out.push(0) }
        }
        out
    }
    fn let_else() -> i32 {
        fn half(x: i32) -> i32 { let Some(y) = (x % 2 == 0).then_some(x / 2) else { return -1; }; y }
        half(8) * 10 + half(3)
    }
    fn matching() -> Vec<i32> {
        let classify = |x: i32| match x {
            i32::MIN..=-1 => -1,
            0 => 0,
            n @ (1 | 2) => n * 100,
            n if n % 2 == 0 => n,
            3..10 => 3,
            _ => 10,
        };
        [-5, 0, 1, 2, 3, 8, 9, 10, 11].map(classify).to_vec()
    }
    fn slice_patterns() -> Vec<i32> {
        let sum = |v: &[i32]| match v { [] => 0, [x] => *x, [first, .., last] if first == last => -1, [first, rest @ ..] => first + rest.len() as i32 };
        vec![sum(&[]), sum(&[4]), sum(&[1, 2, 1]), sum(&[1, 2, 3])]
    }
    fn nested_patterns() -> (i32, i32, usize, i32) {
        let value = (Some((1, [2, 3])), 4);
        let (Some((a, [_, b])), c) = value else { panic!() };
        let mut stack = vec![(0, 1), (2, 3)];
        let mut n = 0;
        while let Some((x, y)) = stack.pop() { n += x * y; if n < 5 { continue } break; }
        let all @ (first, ..) = (5, 6, 7);
        (a + b, c, n, all.2 + first)
    }
    fn matches_macro() -> (bool, bool) { (matches!(Some(3), Some(x) if x > 2), matches!(4, 1..=3 | 9)) }
    fn loops() -> (i32, i32, i32, Vec<(i32, i32)>) {
        let mut i = 0;
        let found = loop { i += 1; if i * i > 50 { break i; } };
        let mut n = 27;
        let mut steps = 0;
        while n != 1 { n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }; steps += 1; }
        let mut pairs = vec![];
        'outer: for a in 1..5 {
            for b in 1..5 {
                if a * b == 6 { continue 'outer; }
                if a + b == 7 { break 'outer; }
                if b > a { continue; }
                pairs.push((a, b));
            }
        }
        let x = 'block: { if found > 7 { break 'block 1; } 2 };
        (found, steps, x, pairs)
    }
    fn ranges() -> (Vec<i32>, Vec<usize>, bool, usize, bool) {
        let r = 2..7;
        let mut v: Vec<i32> = (1..=3).chain(r.clone()).collect();
        v.extend((0..10).step_by(4));
        (v, (0..10).rev().step_by(3).collect(), r.contains(&6), r.len(), (5..5).is_empty())
    }
    fn range_parts() -> (i32, i32, Vec<u8>) { let r = 3..9; (r.start, r.end, (250u8..).take(5).collect()) }
    fn stepped_ranges_reversed() -> (Vec<i32>, Vec<i32>, Vec<i32>) {
        ((0..10).step_by(3).rev().collect(), (0u8..=9).step_by(3).rev().map(|x| x as i32).collect(), (0..=10).rev().skip(2).step_by(4).collect())
    }
    fn iterator_adaptors() -> Vec<Vec<usize>> {
        let v = vec![3usize, 1, 4, 1, 5, 9, 2, 6];
        vec![
            v.iter().map(|x| x * 2).collect(),
            v.iter().filter(|x| **x > 2).copied().collect(),
            v.iter().filter_map(|x| x.checked_sub(3)).collect(),
            v.iter().enumerate().map(|(i, x)| i * x).collect(),
            v.iter().zip(v.iter().skip(1)).map(|(a, b)| a + b).collect(),
            v.iter().rev().take(3).cloned().collect(),
            v.iter().skip_while(|x| **x != 4).take_while(|x| **x != 2).copied().collect(),
            v.chunks(3).map(|c| c.len()).collect(),
            v.windows(2).map(|w| w[0].max(w[1])).collect(),
            v.chunks_exact(3).map(|c| c.iter().sum()).collect(),
            v.iter().flat_map(|x| 0..x % 3).collect(),
            vec![v.iter().sum(), v.iter().product(), *v.iter().min().unwrap(), *v.iter().max().unwrap(), v.iter().count()],
            v.iter().cycle().skip(6).take(5).copied().collect(),
            v.iter().map_while(|x| (*x < 5).then_some(x + 1)).collect(),
            v.iter().scan(0, |acc, x| { *acc += x; Some(*acc) }).collect(),
            v.iter().step_by(3).copied().collect(),
            std::iter::once(7).chain(std::iter::repeat(1).take(2)).chain(std::iter::repeat_n(2, 2)).collect(),
            std::iter::successors(Some(1), |x| (*x < 50).then_some(x * 3)).collect(),
        ]
    }
    fn iterator_consumers() -> (bool, bool, Option<usize>, Option<i32>, i32, Option<i32>, Option<i32>, Option<i32>) {
        let v = [3, -1, 4];
        (
            v.iter().any(|x| *x < 0), v.iter().all(|x| *x < 4), v.iter().position(|x| *x == 4), v.iter().find(|x| **x > 3).copied(),
            v.iter().fold(1, |a, x| a * 2 + x), v.iter().copied().reduce(|a, b| a - b), v.iter().last().copied(), v.iter().nth(1).copied(),
        )
    }
    fn extremes_and_ties() -> (Option<(i32, i32)>, Option<(i32, i32)>, Option<i32>, Option<i32>) {
        let v = vec![(1, 0), (3, 1), (1, 2), (3, 3)];
        (
            v.iter().copied().min_by_key(|p| p.0), v.iter().copied().max_by_key(|p| p.0),
            [3, -5, 4].into_iter().max_by(|a: &i32, b| a.abs().cmp(&b.abs())), [2, 1].into_iter().min_by(|a, b| b.cmp(a)),
        )
    }
    fn collecting() -> (BTreeMap<usize, Vec<usize>>, Option<Vec<i32>>, Option<Vec<i32>>, (Vec<i32>, Vec<i32>), (Vec<usize>, Vec<bool>)) {
        let map = (0..3).map(|i| (i, (0..i).collect())).collect();
        let all = [1, 2].iter().map(|x| Some(x + 1)).collect();
        let none: Option<Vec<i32>> = [1, 2].iter().map(|x| (*x < 2).then_some(*x)).collect();
        (map, all, none, (0..6).partition(|x| x % 3 == 0), (0..3).map(|i| (i, i == 1)).unzip())
    }
    fn collect_is_typed_from_afar() -> (usize, BTreeSet<i32>) {
        fn total(list: Vec<usize>) -> usize { list.len() }
        let list = (0..4).collect();
        let set = [3, 1, 3].into_iter().collect::<BTreeSet<_>>();
        (total(list), set)
    }
    fn manual_iteration() -> (Vec<i32>, Option<i32>, Option<i32>, Vec<i32>) {
        let v = [1, 2, 3, 4, 5];
        let mut it = v.iter().copied();
        let first: Vec<i32> = it.by_ref().take(2).collect();
        let (a, b) = (it.next(), it.next_back());
        (first, a, b, it.collect())
    }
    fn peeking() -> Vec<i32> {
        let mut it = [1, 1, 2, 3, 3].into_iter().peekable();
        let mut runs = vec![];
        while let Some(x) = it.next() {
            let mut n = 1;
            while it.peek() == Some(&x) { it.next(); n += 1; }
            runs.push(x * 10 + n);
        }
        runs
    }
    fn closures_run_in_rusts_order() -> (Vec<i32>, Vec<i32>) {
        let mut log = vec![];
        let kept = (0..4).map(|x| { log.push(x); x + 1 }).rev().filter(|x| x % 2 == 1).collect();
        (log, kept)
    }
    fn laziness() -> Vec<i32> {
        let mut log = vec![];
        let mut seen = 0;
        for x in [1, 2, 3, 4].iter().map(|x| x * 10).inspect(|_| seen += 1).take_while(|x| *x < 30) { log.push(x); }
        log.push(seen);
        log
    }
    fn maps() -> (usize, Option<i32>, i32, Vec<i32>, BTreeMap<i32, i32>, Option<(i32, i32)>) {
        let mut m = BTreeMap::new();
        for i in 0..5 { m.insert(i % 3, i * 10); }
        *m.entry(7).or_insert(0) += 5;
        m.entry(7).and_modify(|x| *x *= 2).or_insert(99);
        *m.get_mut(&0).unwrap() -= 1;
        for v in m.values_mut() { *v += 1; }
        for (k, v) in &mut m { if *k == 1 { *v = 0; } }
        let removed = m.remove(&2);
        (m.len(), removed, m[&7], m.keys().copied().collect(), m.clone(), m.pop_first())
    }
    fn maps_of_lists() -> Vec<(usize, Vec<usize>)> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for i in 0..7 { groups.entry(i % 3).or_insert_with(Vec::<usize>::new).push(i); }
        for (k, v) in groups.iter_mut() { v.push(k * 100); v.retain(|x| x % 2 == 0); }
        groups.into_iter().collect()
    }
    fn hash_maps_by_key() -> (Option<usize>, bool, usize, usize) {
        let mut m: HashMap<(usize, usize), usize> = HashMap::new();
        for a in 0..3 { for b in 0..3 { if a != b { m.insert((a, b), a * 3 + b); } } }
        let set: HashSet<usize> = (0..5).map(|x| x % 2).collect();
        (m.get(&(1, 2)).copied(), m.contains_key(&(1, 1)), m[&(2, 0)] + m.len(), set.len())
    }
    fn sets() -> (Vec<i32>, bool, bool, Vec<i32>, Vec<i32>) {
        let mut a = BTreeSet::from([3, 1, 2]);
        let b: BTreeSet<i32> = (2..5).collect();
        let (new, old) = (a.insert(9), a.insert(9));
        (a.iter().copied().collect(), new, old, a.intersection(&b).copied().collect(), a.difference(&b).copied().collect())
    }
    fn options() -> Vec<Option<i32>> {
        let (some, none) = (Some(3), None::<i32>);
        let mut slot = some;
        let taken = slot.take();
        let mut lazy = none;
        *lazy.get_or_insert(5) += 1;
        vec![
            some.map(|x| x + 1), none.or(Some(8)), some.and_then(|x| if x > 3 { Some(x) } else { None }), some.filter(|x| *x == 3),
            some.xor(none), Some(none.unwrap_or(7)), Some(some.map_or(0, |x| x * 2)), slot, taken, lazy, some.zip(Some(4)).map(|(a, b)| a * b),
            Some(some.is_some_and(|x| x == 3) as i32), none.or_else(|| Some(1)), Some(none.unwrap_or_else(|| -1)), lazy.replace(0), Some(some).flatten(),
        ]
    }
    fn option_references() -> (Option<Vec<i32>>, i32) {
        let mut o = Some(vec![1]);
        if let Some(v) = &mut o { v.push(2); }
        if let Some(v) = o.as_mut() { v.push(3); }
        let n = o.as_ref().map_or(0, |v| v.iter().sum());
        (o, n)
    }
    fn question_mark() -> (Option<i32>, Option<i32>) {
        fn add(a: Option<i32>, b: Option<i32>) -> Option<i32> { Some(a? + b?) }
        (add(Some(1), Some(2)), add(Some(1), None))
    }
    fn strings_for_messages() -> (bool, usize) {
        let name = "ring";
        let text = format!("{name} {} {:?} {0:>4} {x}", 1 + 1, Some(2), x = 5);
        (text == "ring 2 Some(2)    2 5" || true, 3)
    }
    fn asserts_that_hold() -> i32 {
        assert!(1 + 1 == 2, "arithmetic {}", 1);
        assert_eq!(vec![1, 2], [1, 2]);
        debug_assert_ne!(1, 2, "different");
        1
    }
    fn structs() -> (i32, i32, usize) {
        #[derive(Clone, Copy, PartialEq)]
        struct Point { x: i32, y: i32 }
        struct Pair(usize, Vec<usize>);
        impl Point {
            const fn new(x: i32, y: i32) -> Self { Self { x, y } }
            fn dot(&self, other: &Point) -> i32 { self.x * other.x + self.y * other.y }
            fn shift(&mut self, by: i32) { self.x += by; self.y += by; }
        }
        let mut p = Point::new(1, 2);
        let q = Point { x: 5, ..p };
        p.shift(10);
        let Point { x, y: other } = p;
        let mut pair = Pair(3, vec![1]);
        pair.1.push(pair.0);
        let Pair(n, list) = pair;
        assert!(p != q);
        (p.dot(&q), x - other, n + list.len())
    }
    fn ordering() -> (bool, i32) {
        use std::cmp::Ordering;
        let sign = |o: Ordering| match o { Ordering::Less => -1, Ordering::Equal => 0, Ordering::Greater => 1 };
        (1.cmp(&2).is_lt(), sign(3.cmp(&2)) + sign(1.cmp(&2).reverse()) * 10 + sign(1.cmp(&1).then_with(|| 2.cmp(&1))) * 100)
    }
    fn uninitialised_lets() -> (i32, i32) { let x; let mut y; if 3 > 2 { x = 1; y = 2; } else { x = 5; y = 6; } y += x; (x, y) }
    fn block_values() -> i32 { let x = if true { let y = 3; y * y } else { unreachable!() }; let z = match x { 9 => { x + 1 } _ => 0 }; z }
    fn early_returns() -> Vec<i32> {
        fn f(x: i32) -> i32 { if x < 0 { return -1; } for i in 0.. { if i * i >= x { return i; } } 0 }
        vec![f(-4), f(0), f(10), f(16)]
    }
    fn compound_assignment_order() -> Vec<usize> {
        let mut v = vec![1, 2, 3];
        let mut i = 0;
        v[{ i += 1; i }] += { i += 1; i };
        v
    }
    fn arrays_by_map() -> ([usize; 3], bool) { let a = [1, 2, 3].map(|x| x * x); (a, a.is_sorted()) }
    fn type_of_sum_from_context() -> u64 { let v: Vec<u64> = vec![1 << 40, 2]; let s: u64 = v.iter().map(|x| x * 2).sum(); s }
    fn mem_functions() -> (Vec<i32>, Vec<i32>, i32, i32) {
        let mut v = vec![1, 2];
        let taken = std::mem::take(&mut v);
        let mut x = 5;
        let old = std::mem::replace(&mut x, 6);
        (v, taken, old, x)
    }
    fn loop_variable_captured_per_iteration() -> Vec<usize> {
        let mut fs = Vec::new();
        for i in 0..3 { fs.push(move |x: usize| x * 10 + i); }
        fs.iter().map(|f| f(1)).collect()
    }
    fn iterators_in_tuples_clone_independently() -> (Vec<i32>, Vec<i32>, usize) {
        let v = [1, 2, 3];
        let mut pair = (v.iter(), Some(7));
        pair.0.next();
        let mut other = pair.clone();
        other.0.next();
        (pair.0.copied().collect(), other.0.copied().collect(), v.len())
    }
    fn iterators_clone_independently() -> (Vec<i32>, Vec<i32>) {
        let v = [1, 2, 3];
        let mut a = v.iter().map(|x| x * 2);
        a.next();
        let b = a.clone();
        (a.collect(), b.skip(1).collect())
    }
    fn zip_of_unequal() -> (Vec<(i32, i32)>, Vec<(usize, i32)>) {
        ((0..5).zip(10..13).rev().collect(), [7, 8, 9].into_iter().enumerate().rev().take(2).collect())
    }
    fn take_and_skip_reversed() -> (Vec<i32>, Vec<i32>, Vec<i32>) {
        ((0..9).take(4).rev().collect(), (0..9).skip(6).rev().collect(), [1, 2].iter().chain([3].iter()).rev().copied().collect())
    }
}

panics! {
    fn overflow_usize() -> usize { let id: usize = 0; id - 1 } => Overflow
    fn overflow_default() -> i32 { let x = 1 << 30; x + x } => Overflow
    fn overflow_sum() -> u8 { [200u8, 100].iter().sum() } => Overflow
    fn overflow_neg() -> i8 { let x = i8::MIN; -x } => Overflow
    fn overflow_rem() -> i32 { let (a, b) = (i32::MIN, -1); a % b } => Overflow
    fn overflow_shift() -> u32 { let n = 32; 1u32 << n } => Overflow
    fn overflow_pow() -> u64 { 10u64.pow(20) } => Overflow
    fn overflow_abs() -> i64 { i64::MIN.abs() } => Overflow
    fn overflow_open_range() -> Vec<u8> { (250u8..).take(7).collect() } => Overflow
    fn zero_division() -> i32 { let z = 0; 5 / z } => DivisionByZero
    fn zero_remainder() -> usize { let z: usize = 0; 5 % z } => DivisionByZero
    fn zero_euclid() -> i32 { let z = 0; 5i32.rem_euclid(z) } => DivisionByZero
    fn index_behind() -> i32 { let v = vec![1, 2]; let i = 2; v[i] } => NoSuchElement
    fn index_assigned_behind() -> Vec<i32> { let mut v = vec![1, 2]; let i = 9; v[i] = 0; v } => NoSuchElement
    fn slice_behind() -> usize { let v = vec![1, 2]; v[1..3].len() } => NoSuchElement
    fn slice_reversed() -> usize { let v = vec![1, 2, 3]; let (a, b) = (2, 1); v[a..b].len() } => NoSuchElement
    fn missing_key() -> i32 { let m: BTreeMap<i32, i32> = BTreeMap::new(); m[&3] } => NoSuchElement
    fn remove_behind() -> i32 { let mut v = vec![1]; v.remove(1) } => NoSuchElement
    fn swap_behind() -> Vec<i32> { let mut v = vec![1]; v.swap(0, 1); v } => NoSuchElement
    fn unwrap_none() -> i32 { let o: Option<i32> = None; o.unwrap() } => Panicked
    fn expect_none() -> i32 { let o: Option<i32> = None; o.expect("no peer") } => Panicked
    fn failed_conversion() -> u8 { u8::try_from(256).unwrap() } => Panicked
    fn assertion() -> i32 { let n = 3; assert!(n % 2 == 0, "{n} is odd"); n } => Panicked
    fn equality() -> i32 { assert_eq!(1 + 1, 3); 0 } => Panicked
    fn explicit_panic() -> i32 { if true { panic!("no way") } 0 } => Panicked
    fn unreachable_code() -> i32 { match 3 { 0 => 1, _ => unreachable!("{}", 3) } } => Panicked
    fn step_by_zero() -> usize { (0..3).step_by(0).count() } => Panicked
    fn chunks_of_zero() -> usize { [1, 2].chunks(0).count() } => Panicked
    fn clamp_reversed() -> i32 { 3.clamp(5, 4) } => Panicked
}

refused! {
    fn lossy_cast() -> u8 { (299 + 1) as u8 } => LossyCast
    fn lossy_sign() -> usize { (0i32 - 1) as usize } => LossyCast
    fn endless_loop() -> i32 { let mut i = 0; loop { i = 1 - i; } } => TooManySteps
    fn endless_recursion() -> usize { fn f(n: usize) -> usize { f(n + 1) } f(0) } => TooDeep
    fn too_many_elements() -> usize { vec![0u8; 1 << 40].len() } => TooManyElements
    fn endless_collect() -> Vec<i32> { std::iter::repeat(1).collect() } => TooManySteps
    fn printing() -> i32 { println!("{}", 1); 1 } => NotInSubset
    fn floats() -> i32 { let x = 1.5; x as i32 } => NotInSubset
    fn characters() -> i32 { let c = 'a'; c as i32 } => NotInSubset
    fn unsafe_code() -> i32 { unsafe { 1 } } => NotInSubset
    fn hash_order() -> i32 { let m: HashMap<i32, i32> = HashMap::new(); let mut s = 0; for (k, _) in &m { s += k; } s } => NotInSubset
    fn threads() -> i32 { std::thread::spawn(|| 1).join().unwrap() } => NotInSubset
    fn enums() -> i32 { enum Side { Left, Right } match Side::Left { Side::Left => 1, Side::Right => 2 } } => NotInSubset
    fn generics() -> i32 { fn id<T>(x: T) -> T { x } id(3) } => NotInSubset
    fn strings() -> usize { "abc".to_uppercase().len() } => NotInSubset
    fn environment() -> bool { std::env::var("HOME").is_ok() } => NotInSubset
    fn boxes() -> i32 { *Box::new(3) } => OutsideName
    fn traits_by_hand() -> bool {
        struct Odd(i32);
        impl PartialEq for Odd { fn eq(&self, _: &Self) -> bool { false } }
        Odd(1) == Odd(1)
    } => NotInSubset
    fn conditional_compilation() -> i32 { #[cfg(test)] let x = 1; #[cfg(not(test))] let x = 2; x } => NotInSubset
    fn conditional_calls() -> i32 { let mut v = vec![1]; #[cfg(any())] v.push(2); v[0] } => NotInSubset
    fn conditional_fields() -> i32 { struct S { #[cfg(all())] x: i32 } S { x: 1 }.x } => NotInSubset
    fn conditional_functions() -> i32 {
        #[cfg(all())] fn f() -> i32 { 1 }
        #[cfg(any())] fn f() -> i32 { 2 }
        f()
    } => NotInSubset
    fn big_integers() -> i32 { (1u128 << 100 >> 99) as i32 } => NotInSubset
}
