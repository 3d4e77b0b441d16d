//! An argument twice.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2, instances = 1, instances = 2)]
fn twice(_p: &Program) {}

fn main() {}
