use mscclpp::prelude::*;

#[collective(AllGathr, ranks = 4)]
fn misspelt(_: &Program) {}

#[collective(AllGather)]
fn no_ranks(_: &Program) {}

#[collective(AllGather, ranks = N, inplace, protocol = ll, threads_per_block = -1, message_size = 9..=3)]
fn many_mistakes(_: &Program) {}

#[collective(AllGather, ranks = [2, 2], ranks = 4, allow(reversed_slice), params(n = [1, 300]))]
fn more_mistakes(_: &Program, n: u8) {
    let _ = n;
}

#[collective(Custom(input = 4), ranks = 2)]
fn half_a_custom(_: &Program) {}

const N: usize = 4;

fn main() {
    misspelt::plan(N);
    no_ranks::plan(2);
}
