use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn no_program() {}

#[collective(AllGather, ranks = 2)]
fn parameter_without_values(_: &Program, blocks: usize) {
    let _ = blocks;
}

#[collective(AllGather, ranks = 2, params(blocks = [1, 2]))]
fn values_without_parameter(_: &Program) {}

#[collective(AllGather, ranks = 2)]
fn result(_: &Program) -> usize {
    1
}

#[collective(AllGather, ranks = 2)]
struct NotAFunction;

fn main() {}
