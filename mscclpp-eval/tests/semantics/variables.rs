//! Variables, tuples and structs: what is copied, moved, borrowed and assigned.

values! {
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
    fn constants() -> (usize, [usize; 3], usize) {
        const N: usize = 2 * M;
        const M: usize = 3;
        const TABLE: [usize; M] = [N, M, 1];
        let mut sum = 0;
        for i in 0..M { sum += TABLE[i]; }
        (N, TABLE, sum)
    }
    fn shadowing() -> (i32, i32) {
        let x = 1;
        let y = { let x = x + 1; let x = x * 10; x };
        let f = |x: i32| x + y;
        (f(x), x)
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
    fn uninitialised_lets() -> (i32, i32) { let x; let mut y; if 3 > 2 { x = 1; y = 2; } else { x = 5; y = 6; } y += x; (x, y) }
    fn mem_functions() -> (Vec<i32>, Vec<i32>, i32, i32) {
        let mut v = vec![1, 2];
        let taken = std::mem::take(&mut v);
        let mut x = 5;
        let old = std::mem::replace(&mut x, 6);
        (v, taken, old, x)
    }
    fn compound_assignment_order() -> Vec<usize> {
        let mut v = vec![1, 2, 3];
        let mut i = 0;
        v[{ i += 1; i }] += { i += 1; i };
        v
    }
}
