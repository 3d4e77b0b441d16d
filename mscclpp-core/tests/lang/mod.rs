//! The older API records what the newer one does.

mod equal;
mod mistakes;
mod recorded;

fn others(ranks: usize, rank: usize) -> impl Iterator<Item = usize> {
    (0..ranks).filter(move |other| *other != rank)
}
