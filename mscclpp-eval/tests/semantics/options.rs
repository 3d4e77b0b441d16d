//! Options, by value and by reference.

values! {
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
}
