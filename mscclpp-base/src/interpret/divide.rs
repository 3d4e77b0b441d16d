//! The division that ends an average.

use super::launch::{Launch, Worker};
use super::params::Area;
use crate::numeric::{LINE, LINES};

impl Launch<'_> {
    /// Divides up to `len` bytes of a result, starting at byte `at`, by the number of ranks, if the reduction is an
    /// average.
    pub fn divide(&self, worker: &mut Worker, area: &Area, at: u64, len: u64) {
        const BLOCK: usize = LINE * LINES;
        let Some(divide) = self.params.divide else {
            return;
        };
        let len = len.min(area.view.len.saturating_sub(at));
        let span = self.memory.slice(area.slice as usize).range(area.base + at, len);
        for at in (0..span.len()).step_by(BLOCK) {
            let bytes = BLOCK.min(span.len() - at);
            let lines = || (0..bytes).step_by(LINE).map(|i| (i / LINE, at + i, LINE.min(bytes - i)));
            lines().for_each(|(i, at, n)| worker.block[i] = span.load(at, n));
            divide(&mut worker.block, self.program.shape.ranks);
            lines().for_each(|(i, at, n)| span.store(at, n, worker.block[i]));
        }
    }
}
