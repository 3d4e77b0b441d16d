//! Evaluation does not wait.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
async fn later(_p: &Program) {}

fn main() {}
