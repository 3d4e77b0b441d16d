//! Pseudo-random numbers: the same ones for the same seed, on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A generator of pseudo-random numbers.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below a bound of at least 1.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
