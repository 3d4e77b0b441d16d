//! Result of a selection: an algorithm and its configuration.

use std::fmt;

/// How an algorithm is built, where it is configurable. The default leaves everything to the algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Config {
    /// Thread blocks, or groups of thread blocks, that share every transfer; `None` for the backend's usual number, 1
    /// to [`MAX_BLOCKS`](Self::MAX_BLOCKS) otherwise.
    pub blocks: Option<u32>,
    /// CUDA threads per thread block; `None` for the usual number. Ignored on the CPU.
    pub threads: Option<u32>,
}

impl Config {
    /// Maximum number of blocks with which algorithms are built.
    pub const MAX_BLOCKS: u32 = mscclpp_algorithms::MAX_ARGUMENT as u32;
}

/// Result of a selector: the name of an algorithm of the registry, and a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Choice {
    /// The algorithm's name.
    pub name: String,
    /// How to build it.
    pub config: Config,
}

impl Choice {
    /// Returns an algorithm with its default configuration.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), config: Config::default() }
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.blocks, self.threads) {
            (None, None) => f.write_str("default configuration"),
            (Some(blocks), None) => write!(f, "blocks {blocks}"),
            (None, Some(threads)) => write!(f, "threads {threads}"),
            (Some(blocks), Some(threads)) => write!(f, "blocks {blocks}, threads {threads}"),
        }
    }
}
