//! Neighbors of what is evaluated.
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2)]
fn generic_types(p: &Program) {
    struct Pair<T>(T, T);
    let Pair(a, b) = Pair(0, 1);
    p.rank(a + b);
}

#[collective(AllGather, ranks = 2)]
fn manual_traits(p: &Program) {
    #[derive(PartialEq, Eq)]
    struct Odd(usize);
    impl PartialOrd for Odd {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            other.0.partial_cmp(&self.0)
        }
    }
    assert!(Odd(p.num_ranks()) > Odd(3));
}

#[collective(AllGather, ranks = 2)]
fn converts_errors(p: &Program) {
    fn half(n: usize) -> Result<usize, i64> {
        u8::try_from(n).map_err(|_| 7i32)?;
        Ok(n / 2)
    }
    p.rank(half(p.num_ranks()).unwrap());
}

#[collective(AllGather, ranks = 2)]
fn defaults_of_arrays(p: &Program) {
    let peers: [usize; 2] = Default::default();
    p.rank(peers[0]);
}

#[collective(AllGather, ranks = 2)]
fn arrays_from_functions(p: &Program) {
    let peers: [usize; 2] = std::array::from_fn(|rank| rank + 1);
    p.rank(peers[0]);
}

fn main() {}
