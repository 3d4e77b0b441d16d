//! Types that are declared beside a collective, where the macro cannot see them.
use mscclpp::prelude::*;

#[derive(Clone, Copy)]
enum Phase {
    Send,
    Receive(usize),
}

struct Grid {
    rows: usize,
}

impl Grid {
    const ROWS: usize = 2;

    fn new(rows: usize) -> Self {
        Self { rows }
    }
}

#[collective(AllGather, ranks = 2)]
fn uses_types(p: &Program) {
    for phase in [Phase::Send, Phase::Receive(1)] {
        if let Phase::Receive(from) = phase {
            p.rank(from);
        }
    }
    assert!(Grid::new(2).rows == Grid::ROWS);
    let grid = Grid { rows: 3 };
    let next: fn(usize) -> Grid = Grid::new;
    assert!(next(1).rows < grid.rows);
}

fn main() {}
