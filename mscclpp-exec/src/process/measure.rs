//! How long a call takes, measured as its callers would feel it.

use std::time::{Duration, Instant};

use super::transport::Transport;
use crate::error::Error;

/// A call that is measured, with what happens around it.
///
/// Real callers write their inputs before a call and read their outputs after it; a measurement without that finds inputs of
/// peers in the reader's own cache.
pub trait Timed {
    /// Why the call fails.
    type Error: From<Error>;

    /// Writes all of this rank's input. Not timed.
    fn rewrite(&mut self, iteration: u64);

    /// Makes the call.
    ///
    /// # Errors
    /// Ends the measurement.
    fn call(&mut self) -> Result<(), Self::Error>;

    /// Reads this rank's output. Not timed.
    fn read(&mut self, iteration: u64);
}

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Time for all calls with what happens around them.
    pub time: Duration,
    /// Fewest and most calls.
    pub calls: (u32, u32),
}

impl Default for Budget {
    fn default() -> Self {
        Self { time: Duration::from_millis(500), calls: (15, 20_000) }
    }
}

/// How long a call takes on the slowest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Calls that were timed.
    pub calls: u32,
    /// Seconds of the call in the middle, and of those after a tenth and nine tenths.
    pub median: f64,
    /// See [`median`](Self::median).
    pub p10: f64,
    /// See [`median`](Self::median).
    pub p90: f64,
}

impl Transport {
    /// Times a call of all ranks: before each all ranks wait for each other, and the slowest counts. A call of all ranks.
    ///
    /// # Errors
    /// What the call says; [`Error::Lost`] and the like between calls.
    pub fn measure<T: Timed>(&self, budget: Budget, timed: &mut T) -> Result<Timing, T::Error> {
        const TRIES: u32 = 5;
        let begun = Instant::now();
        for iteration in 0..TRIES {
            timed.rewrite(iteration.into());
            timed.call()?;
        }
        let each = self.slowest(&[begun.elapsed().as_secs_f64() as f32 / TRIES as f32])?[0];
        let (least, most) = budget.calls;
        let calls = (budget.time.as_secs_f32() / each.max(1e-9)) as u32;
        let calls = calls.clamp(least.max(1), most.max(least).max(1));
        let warm = calls / 10 + 2;
        let mut times = Vec::with_capacity(calls as usize);
        for iteration in 0..warm + calls {
            timed.rewrite(iteration.into());
            self.barrier()?;
            let begun = Instant::now();
            timed.call()?;
            let elapsed = begun.elapsed();
            timed.read(iteration.into());
            if iteration >= warm {
                times.push(elapsed.as_secs_f32());
            }
        }
        let mut times = self.slowest(&times)?;
        times.sort_by(f32::total_cmp);
        let at = |of_ten: usize| f64::from(times[(times.len() * of_ten / 10).min(times.len() - 1)]);
        Ok(Timing { calls, median: at(5), p10: at(1), p90: at(9) })
    }

    /// The largest of all ranks' values, one by one.
    fn slowest(&self, values: &[f32]) -> Result<Vec<f32>, Error> {
        let mut slowest = Vec::with_capacity(values.len());
        for values in values.chunks((self.bootstrap().gather_limit() / 4).clamp(1, 4096)) {
            let all = self.bootstrap().all_gather(bytemuck::cast_slice(values))?;
            let all: Vec<Vec<f32>> = all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
            let of = |i: usize| all.iter().filter_map(|values| values.get(i)).copied().fold(0.0, f32::max);
            slowest.extend((0..values.len()).map(of));
        }
        Ok(slowest)
    }
}
