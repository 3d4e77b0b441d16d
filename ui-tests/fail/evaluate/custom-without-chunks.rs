//! A collective of one's own says its chunk counts.
use mscclpp::prelude::*;

#[collective(Custom, ranks = 2)]
fn own(_p: &Program) {}

fn main() {}
