use mscclpp::prelude::*;

#[collective(AllGather, ranks = 4)]
fn data(p: &Program) {
    let bytes = vec![0u8; 1 << 32];
    p.rank(bytes.len());
}

fn main() {}
