//! A program is recorded by one thread: its order is the order of the calls.
use mscclpp::prelude::*;

/// As `std::thread::Scope::spawn`, whose source not all toolchains have for the message.
fn spawn<T: Send>(_: impl FnOnce() -> T + Send) {}

pub fn f(p: &Program) {
    spawn(|| p.num_ranks());
}

fn main() {}
