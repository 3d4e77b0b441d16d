//! Functions of the standard library that are named by a path, and those of more than one type.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

values! {
    fn methods_as_functions() -> (usize, Vec<usize>, Option<i32>, Vec<u64>, Vec<bool>, Vec<i32>, usize) {
        let lists = vec![vec![1, 2], vec![], vec![3]];
        let wide: Vec<u64> = [3u8, 4].into_iter().map(u64::from).collect();
        let some: Vec<bool> = [Some(1), None].iter().map(Option::is_some).collect();
        let good: Vec<i32> = [Ok(1), Err("bad"), Ok(3)].into_iter().filter_map(Result::ok).collect();
        (
            lists.iter().map(Vec::len).fold(0, usize::max), lists.iter().map(Vec::len).collect(), [3, 1, 2].into_iter().reduce(i32::min),
            wide, some, good, std::cmp::max(usize::pow(2, 3), usize::div_ceil(7, 2)) + Vec::len(&lists) + Option::map_or(Some(2), 0, |x| x * 2),
        )
    }
    fn methods_of_traits_as_functions() -> (Vec<usize>, Vec<String>, Vec<i32>, Vec<u8>) {
        let lists = [vec![1, 2], vec![3]];
        let counts = lists.iter().map(|list| list.iter().map(|x| x * 2)).map(Iterator::count).collect();
        let mut sorted = vec![3, 1, 2];
        sorted.sort_by(Ord::cmp);
        (counts, [1, 2].iter().map(ToString::to_string).collect(), sorted, [1i32, 300, 2].into_iter().map(u8::try_from).filter_map(Result::ok).collect())
    }
    fn reverse() -> (Vec<(usize, i32)>, Vec<i32>, Option<Reverse<i32>>, bool, i32) {
        let mut pairs = vec![(1, 5), (2, 7), (3, 5)];
        pairs.sort_by_key(|&(at, cost)| (Reverse(cost), at));
        let mut numbers = vec![3, 9, 4];
        numbers.sort_by_key(|x| Reverse(*x));
        let wrapped: Vec<Reverse<i32>> = numbers.iter().copied().map(Reverse).collect();
        let Reverse(first) = wrapped[0];
        (pairs, numbers, wrapped.iter().max().copied(), Reverse(1) > std::cmp::Reverse(2), first + wrapped[1].0)
    }
    fn boxes() -> (i32, Vec<usize>, i32, usize) {
        let mut boxed = Box::new(3);
        *boxed += 4;
        let steps: Vec<Box<dyn Fn(usize) -> usize>> = vec![Box::new(|x| x + 1), Box::new(move |x| x * 2)];
        let shared = Rc::new(vec![1, 2]);
        let other = shared.clone();
        (*boxed, steps.iter().map(|step| step(5)).collect(), shared.iter().sum::<i32>() + boxed.pow(2), other.len())
    }
    fn sorting_and_searching() -> (Vec<i32>, Vec<(i32, i32)>, Result<usize, usize>, Result<usize, usize>, Result<usize, usize>, Vec<i32>) {
        let (mut a, mut b) = (vec![4, 2, 9], vec![(2, 1), (1, 2), (1, 1)]);
        a.sort_unstable_by(|x, y| y.cmp(x));
        b.sort_unstable_by_key(|pair| (pair.0, pair.1));
        let ascending = [1, 4, 9];
        let mut parities = vec![1, 3, 2, 4, 5];
        parities.dedup_by_key(|x| *x % 2);
        (a, b.clone(), ascending.binary_search(&4), ascending.binary_search(&5), b.binary_search_by_key(&2, |pair| pair.0), parities)
    }
    fn changing_lists() -> (Vec<i32>, Vec<Vec<u8>>, VecDeque<i32>, BTreeSet<i32>) {
        let mut list = vec![1, 2, 3, 4];
        let (left, right) = list.split_at_mut(2);
        left[0] += right[1];
        right[0] = left[1] * 10;
        std::mem::swap(&mut left[1], &mut right[1]);
        let mut lists = vec![vec![1u8]];
        lists.resize_with(3, Vec::new);
        lists[2].push(9);
        let mut queue: VecDeque<i32> = (0..3).collect();
        queue.rotate_left(1);
        queue.reserve(4);
        let mut set = BTreeSet::from_iter(0..6);
        set.retain(|x| x % 2 == 0);
        (list, lists, queue, set)
    }
    fn iterators_from_functions() -> (Vec<i32>, Vec<i32>, Vec<u8>, usize) {
        let (mut n, mut calls) = (0, 0);
        let until = std::iter::from_fn(|| { n += 1; (n < 4).then_some(n) }).collect();
        let forever = std::iter::repeat_with(|| { calls += 1; calls * calls }).take(3).collect();
        let nested = [Some(1u8), None, Some(2)].into_iter().filter_map(std::convert::identity).collect();
        (until, forever, nested, Vec::from_iter(std::iter::repeat_n(1, 3)).len())
    }
    fn searching_from_the_end() -> (Option<usize>, Option<i32>, Vec<i32>, Vec<i32>, Option<i32>) {
        let list = [1, 4, 3, 8, 5];
        let mut items = list.iter();
        let last = items.rfind(|x| **x % 2 == 0).copied();
        let left: Vec<i32> = items.copied().collect();
        let mut peekable = list.iter().copied().peekable();
        let mut odd = vec![];
        while let Some(x) = peekable.next_if(|x| *x != 3) { odd.push(x); }
        (list.iter().rposition(|x| *x == 4), last, left, odd, peekable.next())
    }
    fn entries() -> BTreeMap<u8, Vec<u32>> {
        let mut ranks: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for rank in 0..6u32 { ranks.entry((rank % 2) as u8).or_default().push(rank); }
        ranks.entry(9).or_insert_with(Vec::new).extend([1, 2]);
        ranks.entry(9).and_modify(|list| list.clear()).or_insert(vec![7]);
        ranks
    }
    fn type_arguments_of_paths() -> (u8, u8, u8, Vec<u8>, [u8; 3], Option<u8>, u8, usize) {
        let mut list = Vec::<u8>::new();
        list.push(200);
        let mut map = std::collections::BTreeMap::<u8, u8>::new();
        map.insert(1, 200);
        let results = [Ok::<u8, ()>(200).unwrap(), Option::<u8>::None.unwrap_or(200), Some::<u8>(200).unwrap()];
        let min = std::cmp::min::<u8>(200, 201).wrapping_add(100);
        let powers = std::iter::successors::<u8, _>(Some(200), |x| x.checked_add(50)).count();
        let once = std::iter::once::<u8>(200).map(|x| x.wrapping_add(100)).next();
        let folded = Iterator::fold::<u8, _>(0..1, 200, |sum, _| sum.wrapping_add(100));
        (
            list[0].wrapping_add(100), map[&1].wrapping_add(100), None::<u8>.unwrap_or(200).wrapping_add(100), Vec::<_>::from([1u8]),
            results.map(|x| x.wrapping_add(100)), once, min.wrapping_add(folded), powers,
        )
    }
    fn type_arguments_of_functions_as_values() -> (u8, Vec<Option<u8>>) {
        let mut list = None.unwrap_or_else(Vec::<u8>::new);
        list.push(200);
        let some = [200].into_iter().map(Some::<u8>).map(|x| x.map(|x| x.wrapping_add(100)));
        (list[0].wrapping_add(100), some.collect())
    }
    fn text_of_errors() -> (String, Result<u8, String>) {
        let parts = vec!["a".to_string(), format!("b{}", 1), String::from("c")];
        (parts.join(", "), Err("text".into()))
    }
}

refused! {
    fn type_arguments_that_are_not_results() -> u8 {
        let (mut a, mut b) = (200, 1);
        std::mem::swap::<u8>(&mut a, &mut b);
        b.wrapping_add(100)
    } => NotInSubset
    fn type_arguments_of_methods() -> Option<u8> { Some(200).map::<u8, _>(|x| x).map(|x| x.wrapping_add(100)) } => NotInSubset
    fn functions_of_aliases() -> u8 { type Bytes = Vec<u8>; Bytes::from([200])[0].wrapping_add(100) } => NotInSubset
    fn generic_aliases() -> u8 { type List<T> = Vec<T>; let list: List<u8> = vec![200]; list[0].wrapping_add(100) } => NotInSubset
    fn arrays_from_functions() -> i32 { let squares: [i32; 3] = std::array::from_fn(|i| (i * i) as i32); squares[2] } => NotInSubset
}
