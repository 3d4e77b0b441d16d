//! Arrays, vectors, slices and deques.

use std::collections::VecDeque;

values! {
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
        (tail, joined, w, *v.first().unwrap() + *v.last().unwrap(), v.contains(&1), [1, 2].repeat(2))
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
    fn arrays_by_map() -> ([usize; 3], bool) { let a = [1, 2, 3].map(|x| x * x); (a, a.is_sorted()) }
}
