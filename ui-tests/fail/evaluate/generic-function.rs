//! There is nobody who could choose the type.
use mscclpp::prelude::*;

#[collective(AllReduce, ranks = 2)]
fn generic<T: Into<usize>>(_p: &Program) {}

fn main() {}
