//! What an `Err` holds is in the message.
use mscclpp::prelude::*;

#[derive(Debug)]
enum Unused {}

#[collective(AllGather, ranks = 3)]
fn halves(p: &Program) {
    #[derive(Debug)]
    enum Wrong {
        Odd { ranks: usize },
    }
    fn half(ranks: usize) -> Result<usize, Wrong> {
        if ranks.is_multiple_of(2) { Ok(ranks / 2) } else { Err(Wrong::Odd { ranks }) }
    }
    p.rank(half(p.num_ranks()).unwrap());
}

#[collective(AllGather, ranks = 3)]
fn converts(p: &Program) {
    let offset: u8 = (p.num_ranks() * 100).try_into().expect("an offset in a byte");
    p.rank(offset.into());
}

fn main() {
    let _: Option<Unused> = None;
}
