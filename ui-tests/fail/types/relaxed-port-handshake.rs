//! A port channel has no relaxed signals, so it has no relaxed handshakes either.
use mscclpp::prelude::*;

fn opening(p: &Program) {
    p.rank(0).port_channels([1]).handshake(0).relaxed();
}

fn main() {}
