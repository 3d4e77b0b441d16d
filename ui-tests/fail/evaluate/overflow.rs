use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn ring(p: &Program) {
    for rank in p.ranks() {
        let previous = rank.id() - 1;
        p.rank(previous);
    }
}

#[collective(AllGather, ranks = 4, params(bits = [40]))]
fn shifts(p: &Program, bits: u32) {
    let unit = 1 << bits;
    p.rank(unit);
    let other = 1u32 << bits;
    p.rank(other as usize);
}

fn main() {}
