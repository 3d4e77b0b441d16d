use mscclpp::prelude::*;
use std::cell::Cell;
use std::collections::BinaryHeap;

#[collective(AllGather, ranks = 2)]
fn changes_what_is_shared(p: &Program) {
    let count = Cell::new(p.num_ranks());
    let mut heap = BinaryHeap::from([1, 2]);
    heap.push(count.get());
    let text = String::with_capacity(4);
    assert!(heap.len() == 3, "{text}");
}

fn main() {}
