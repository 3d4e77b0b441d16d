//! Branches, patterns and loops.

values! {
    fn constants_in_patterns() -> Vec<i32> {
        const ZERO: usize = 0;
        const LAST: usize = 3;
        (0..4).map(|i| match i { ZERO => -1, LAST => 1, _ => 0 }).collect()
    }
    fn guards_of_alternatives() -> (Vec<(i32, i32)>, i32, bool, i32, (i32, i32)) {
        let mut tried = vec![];
        let product = match ((1, 2), (3, 4)) {
            ((x, _) | (_, x), (y, _) | (_, y)) if { tried.push((x, y)); x == 2 && y == 4 } => x * y,
            _ => 0,
        };
        let last = match &[Some(1), None, Some(5)][..] { [Some(x), .., _] | [_, .., Some(x)] if *x > 3 => *x, _ => 0 };
        let whole = match (5, 6) { pair @ ((y, _) | (_, y)) if y == 6 => y + pair.0, _ => 0 };
        let mut pair = (1, 2);
        match &mut pair { (x, _) | (_, x) if *x == 2 => *x = 9, _ => {} }
        (tried, product + last, matches!((1, 2), (x, _) | (_, x) if x == 2), whole, pair)
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
    fn block_values() -> i32 { let x = if true { let y = 3; y * y } else { unreachable!() }; let z = match x { 9 => { x + 1 } _ => 0 }; z }
}
