//! Default values.

use std::collections::{BTreeMap, BTreeSet};

shown! {
    fn defaults_of_the_language() {
        let set: BTreeSet<u8> = Default::default();
        let pair: (i8, BTreeMap<i32, i32>) = Default::default();
        (u32::default(), Vec::<u8>::default(), Option::<i32>::default(), bool::default(), pair, set)
    }
    fn derived() {
        #[derive(Debug, Default, Clone, Copy, PartialEq)] enum Mode { Simple, #[default] Packets }
        #[derive(Debug, Default, Clone)] struct Inner(u8, Mode);
        #[derive(Debug, Default, Clone)] struct Config { blocks: usize, grid: [[i32; 2]; 3], inner: Inner, peer: Option<usize>, pair: (u8, bool) }
        (Config::default(), Config { blocks: 4, ..Default::default() }, Mode::default())
    }
    fn implemented() {
        #[derive(Debug, Clone, PartialEq)] struct Tuning { unit: u32, blocks: u32 }
        impl Default for Tuning { fn default() -> Self { Self { unit: Self::UNIT, blocks: 2 } } }
        impl Tuning { const UNIT: u32 = 16; fn blocks(self, blocks: u32) -> Self { Self { blocks, ..self } } }
        #[derive(Default)] struct Outer { tuning: Tuning, n: u32 }
        let outer = Outer::default();
        (Tuning::default().blocks(8), vec![Tuning { unit: 1, ..Tuning::default() }, outer.tuning], outer.n)
    }
    fn methods_that_default() {
        #[derive(Debug, Clone, PartialEq)] enum Step { Wait, Send(u8) }
        impl Default for Step { fn default() -> Self { Step::Send(1) } }
        let mut lists: BTreeMap<u8, Vec<i32>> = BTreeMap::new();
        for (key, value) in [(1, 2), (3, 4), (1, 5)] { lists.entry(key).or_default().push(value); }
        let none: Option<i32> = None;
        let mut steps = vec![Step::Wait, Step::Wait];
        let taken = std::mem::take(&mut steps[1]);
        let missing: Option<Step> = None;
        (lists, none.unwrap_or_default(), if taken == Step::Wait { missing.unwrap_or_default() } else { taken }, steps)
    }
    fn taking_keeps_types_apart() {
        let (mut list, mut pair) = (vec![1, 2], (3u8, Some(4u8)));
        let taken = std::mem::take(&mut list);
        let _ = std::mem::take(&mut pair);
        (taken, list, pair)
    }
    fn default_as_a_function() {
        let lists: Vec<Vec<u8>> = std::iter::repeat_with(Vec::new).take(2).collect();
        let n: i32 = None.unwrap_or_else(Default::default);
        (lists, n, Some(3).map_or_else(usize::default, |n| n))
    }
    fn associated_function_named_default() {
        struct S(u8);
        impl S { fn default() -> Self { S(1) } }
        impl Default for S { fn default() -> Self { S(2) } }
        let second: S = Default::default();
        (S::default().0, second.0)
    }
}

refused! {
    fn default_of_an_array() -> [i32; 3] { let a: [i32; 3] = Default::default(); a } => NotInSubset
    fn taken_array() -> i32 { let mut a = [1, 2, 3]; std::mem::take(&mut a).len() as i32 + a.len() as i32 } => NotInSubset
    fn taken_mapped_array() -> usize { let mut a = [1, 2].map(|x| x + 1); std::mem::take(&mut a); a.len() } => NotInSubset
}
