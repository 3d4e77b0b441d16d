//! Maps and sets.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

values! {
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
}
