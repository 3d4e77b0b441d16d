//! Two ranks that exchange data in both directions, for the examples of channels.

use std::time::Duration;

use mscclpp::prelude::*;
use mscclpp::runtime::cuda::{DeviceVec, Stream};

/// Launches in a graph, whose time is the mean.
const LAUNCHES: u32 = 5;

/// A rank's place in a pair: rank 0 with rank 1, rank 2 with rank 3, and so on.
pub struct Pair {
    rank: u32,
    /// The other rank; this one, if the number of ranks is odd and it is the last.
    pub peer: u32,
    /// Which of the two parts is this rank's.
    pub side: u32,
    /// Whether the pair has two ranks; otherwise nothing is exchanged.
    pub is_whole: bool,
}

impl Pair {
    /// Returns the place of a rank.
    pub fn new(comm: &Communicator) -> Self {
        let rank = comm.rank();
        let is_whole = rank ^ 1 < comm.num_ranks();
        Self { rank, peer: if is_whole { rank ^ 1 } else { rank }, side: rank % 2, is_whole }
    }

    /// Writes this rank's part of `count` elements, and zeros everywhere else.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn write_own(&self, memory: &mut DeviceVec<u32>, count: usize) -> mscclpp::Result<()> {
        let mut elements = vec![0; memory.len()];
        elements[self.side as usize * count..][..count].copy_from_slice(&part(self.rank, count));
        Ok(memory.write(&elements)?)
    }

    /// Compares both parts with what the ranks wrote.
    ///
    /// # Errors
    /// Those of the driver.
    ///
    /// # Panics
    /// If an element is wrong.
    pub fn check(&self, memory: &DeviceVec<u32>, count: usize, what: &str) -> mscclpp::Result<()> {
        let found = memory.to_vec()?;
        let ranks = [self.rank, self.peer].into_iter().filter(|&rank| rank == self.rank || self.is_whole);
        for rank in ranks {
            let of_rank = &found[(rank % 2) as usize * count..][..count];
            assert_eq!(of_rank, part(rank, count), "{what}: part of rank {rank} on rank {}", self.rank);
        }
        Ok(())
    }

    /// Prints a row on rank 0: the time of a launch, and the rate in one direction.
    pub fn print(&self, what: &str, bytes: u64, time: Duration) {
        if self.rank == 0 && self.is_whole {
            let seconds = time.as_secs_f64();
            // Simulated devices do not measure time.
            let rate = if seconds > 0.0 { format!("{:.3}", bytes as f64 / seconds / 1e9) } else { "-".to_owned() };
            println!("{what:>16}: {bytes:>10} bytes, {:>10.2} us, {rate:>8} GB/s", seconds * 1e6);
        }
    }
}

/// Returns the part of a rank.
fn part(rank: u32, count: usize) -> Vec<u32> {
    (0..count as u32).map(|at| at.wrapping_mul(2_654_435_761) ^ (rank + 1)).collect()
}

/// Returns the sizes in bytes that the arguments state, or those of `default`.
///
/// # Errors
/// An argument that is not a positive multiple of 16.
pub fn sizes(default: &[u64]) -> Result<Vec<u64>, String> {
    let size = |argument: String| match argument.parse::<u64>() {
        Ok(bytes) if bytes > 0 && bytes.is_multiple_of(16) => Ok(bytes),
        _ => Err(format!("expected sizes in bytes, multiples of 16, found `{argument}`")),
    };
    let sizes = std::env::args().skip(1).map(size).collect::<Result<Vec<_>, _>>()?;
    Ok(if sizes.is_empty() { default.to_vec() } else { sizes })
}

/// Launches a kernel once, then several times in a graph, and returns the mean time of a launch in the graph; of nothing, if
/// `is_active` is false.
///
/// # Errors
/// Those of the driver.
pub fn time_in_graph(
    stream: &Stream,
    is_active: bool,
    mut launch: impl FnMut(&Stream) -> Result<(), mscclpp::raw::exec::Error>,
) -> mscclpp::Result<Duration> {
    if !is_active {
        return Ok(Duration::ZERO);
    }
    launch(stream)?;
    let graph = stream.capture(|stream| (0..LAUNCHES).try_for_each(|_| launch(stream)))?;
    let begin = stream.event()?;
    // SAFETY: what the kernels use exists until the caller has synchronized the stream.
    unsafe { graph.launch(stream)? };
    let end = stream.event()?;
    stream.synchronize()?;
    Ok(Duration::from_secs_f64(end.microseconds_since(&begin)? / 1e6 / f64::from(LAUNCHES)))
}
