//! Functions and closures: what they capture, take and return.

values! {
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
    fn early_returns() -> Vec<i32> {
        fn f(x: i32) -> i32 { if x < 0 { return -1; } for i in 0.. { if i * i >= x { return i; } } 0 }
        vec![f(-4), f(0), f(10), f(16)]
    }
    fn loop_variable_captured_per_iteration() -> Vec<usize> {
        let mut fs = Vec::new();
        for i in 0..3 { fs.push(move |x: usize| x * 10 + i); }
        fs.iter().map(|f| f(1)).collect()
    }
}
