use std::collections::HashMap;

use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn many(p: &Program) {
    println!("{} ranks", p.num_ranks());
    let half = 0.5;
    let mut by_rank = HashMap::new();
    by_rank.insert(1, half);
    for (rank, _) in &by_rank {
        p.rank(*rank);
    }
    unsafe { std::hint::unreachable_unchecked() }
}

#[collective(AllGather, ranks = 2)]
fn characters(p: &Program) {
    let name = "ring".to_uppercase();
    for letter in ['a', 'b'] {
        assert!(name.len() > 3, "{letter}");
    }
    p.ranks().for_each(drop);
}

fn main() {}
