use mscclpp::prelude::*;
use std::cell::Cell;
use std::collections::BTreeMap;

#[collective(AllGather, ranks = 2)]
fn returns_results(p: &Program) {
    let half = |n: usize| if n.is_multiple_of(2) { Ok(n / 2) } else { Err(n) };
    let _ = half(p.num_ranks());
}

#[collective(AllGather, ranks = 2)]
fn boxes(p: &Program) {
    let ranks = Box::new(p.num_ranks());
    let count = Cell::new(*ranks);
    let names: BTreeMap<usize, usize> = Default::default();
    let others = BTreeMap::<usize, usize>::default();
    let text = String::from("ring");
    assert!(count.get() == names.len() + others.len() + text.len());
}

fn main() {}
