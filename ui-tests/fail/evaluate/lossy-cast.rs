use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn ring(p: &Program) {
    for id in 0..4 {
        let previous = (id as i32 - 1) as usize;
        p.rank(previous);
    }
}

fn main() {}
