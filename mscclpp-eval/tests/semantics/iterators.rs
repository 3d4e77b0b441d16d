//! Ranges and iterators: order, laziness, both ends, and what consumes them.

use std::collections::{BTreeMap, BTreeSet};

values! {
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
        for x in [1, 2, 3, 4].iter().map(|x| x * 10).map(|x| { seen += 1; x }).take_while(|x| *x < 30) { log.push(x); }
        log.push(seen);
        log
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
