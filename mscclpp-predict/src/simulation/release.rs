//! What signals that release wait for: the stores of their thread block to other ranks.
//!
//! A release makes earlier stores visible first, so the device holds the signal back until the last of them has arrived and its
//! acknowledgment is back. Packets need no release, and relaxed signals promise nothing.

use std::collections::HashMap;

use mscclpp_check::execution::Execution;
use mscclpp_plan::raw::OpClass;

use super::timeline::Span;

/// Per signal that releases, the last store to another rank in its thread block since the release before.
pub(super) struct Releases {
    stores: HashMap<u32, u32>,
    /// From the end of a store to the return of its acknowledgment.
    round_trip_us: f64,
}

impl Releases {
    /// Finds the stores before each release. `signal_us` is the time of a store to another device.
    pub(super) fn of(run: &Execution, signal_us: f64) -> Self {
        let mut stores = HashMap::new();
        // Per thread block, its last store to another rank.
        let mut pending: HashMap<(u32, u32), u32> = HashMap::new();
        for (number, node) in (0..).zip(&run.nodes).filter(|(_, node)| !node.transfer && !node.opening) {
            let of_block = (node.rank, node.block);
            match node.kind.class() {
                OpClass::Signal { relaxed: false } => {
                    if let Some(store) = pending.remove(&of_block) {
                        stores.insert(number, store);
                    }
                }
                _ => {
                    let mut data = run.accesses(number as usize).iter();
                    if data.any(|access| access.write && !access.packets && access.owner != node.rank) {
                        pending.insert(of_block, number);
                    }
                }
            }
        }
        Self { stores, round_trip_us: 2.0 * signal_us }
    }

    /// Returns the store for which a signal waits, which has ended, and when its acknowledgment is back.
    pub(super) fn acknowledged(&self, signal: u32, spans: &[Span]) -> Option<(u32, f64)> {
        let store = *self.stores.get(&signal)?;
        Some((store, spans.get(store as usize)?.end + self.round_trip_us))
    }
}
