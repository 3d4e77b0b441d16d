//! A program is recorded by one thread: its order is the order of the calls.
use mscclpp::prelude::*;

pub fn f(p: &Program) {
    std::thread::scope(|scope| {
        scope.spawn(|| p.rank(0).input());
    });
}

fn main() {}
