use mscclpp::prelude::*;

#[collective(Broadcast, ranks = 4)]
fn tree(p: &Program) {
    fn send(p: &Program, from: usize, span: usize) {
        send(p, from, span / 2);
    }
    send(p, 0, p.num_ranks());
}

fn main() {}
