use mscclpp::prelude::*;

#[collective(Test(input = 4, output = 4), ranks = [1, 2])]
fn divides(p: &Program) {
    let others = p.num_ranks() - 1;
    let share = 64 / others;
    assert!(share > 0);
}

fn main() {}
