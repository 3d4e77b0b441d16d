use mscclpp::prelude::*;

#[collective(Test(input = 4, output = 4), ranks = [2, 3, 5])]
fn powers_of_two(p: &Program) {
    let n = p.num_ranks();
    assert!(n.is_power_of_two(), "works on powers of two, not on {n} ranks");
}

#[collective(Test(input = 4, output = 4), ranks = 2)]
fn unwraps(p: &Program) {
    for rank in p.ranks() {
        let peer = p.ranks().find(|peer| peer.id() > rank.id()).expect("a peer above");
        assert_eq!(peer.id(), rank.id() + 1);
    }
}

fn main() {}
