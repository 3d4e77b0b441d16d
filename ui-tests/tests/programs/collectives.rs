//! A module of collectives with constants, helpers and types of its own.
use mscclpp::prelude::*;

#[collectives]
mod own {
    use super::*;

    const STEP: usize = 1;

    struct Neighbours {
        next: usize,
        previous: usize,
    }

    impl Neighbours {
        fn of(rank: usize, ranks: usize) -> Self {
            Self { next: (rank + STEP) % ranks, previous: (rank + ranks - STEP) % ranks }
        }
    }

    /// Every rank gets what the one before it has.
    #[collective(SendRecv, ranks = [2, 3])]
    pub fn shift(p: &Program) {
        let channels: Vec<_> = p
            .ranks()
            .map(|rank| {
                let Neighbours { next, previous } = Neighbours::of(rank.id(), p.num_ranks());
                let to = rank.memory_channel(next);
                (to, if next == previous { to } else { rank.memory_channel(previous) })
            })
            .collect();
        for (rank, (to, from)) in p.ranks().zip(channels) {
            let next = p.rank(Neighbours::of(rank.id(), p.num_ranks()).next);
            from.signal(0).relaxed();
            to.wait(0).relaxed().sync(BlockSync::After);
            to.put(next.output().chunk(0), rank.input().chunk(0), 0);
            to.signal(0).sync(BlockSync::Before);
            from.wait(0).sync(BlockSync::After);
        }
    }

    /// Input and output change places.
    #[collective(Custom(input = 2, output = 2), ranks = 1)]
    pub fn swap(p: &Program) {
        let rank = p.rank(0);
        for (from, to) in [(0, 1), (1, 0)] {
            rank.copy(rank.output().chunk(to), rank.input().chunk(from), 0);
        }
    }
}

#[test]
fn runs() -> Result<(), Box<dyn std::error::Error>> {
    let mut output = vec![vec![0]; 3];
    Executor::new(3).run(own::shift::plan(3), &[[1], [2], [3]], &mut output)?;
    assert_eq!(output, [[3], [1], [2]]);
    // Chunk boundaries lie on 16 bytes, so that these two chunks are equally long.
    let mut output = [[0; 8]];
    Executor::new(1).run(own::swap::plan(1), &[[1, 2, 3, 4, 5, 6, 7, 8]], &mut output)?;
    assert_eq!(output, [[5, 6, 7, 8, 1, 2, 3, 4]]);
    Ok(())
}
