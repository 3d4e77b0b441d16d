//! The constants of the timing model.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use mscclpp_plan::diag::closest_name;
use serde::Deserialize;

use super::{MachineError, invalid};

/// 10⁹ bytes per second, in bytes per microsecond.
pub(crate) const BYTES_PER_US: f64 = 1000.0;

/// A constant of the timing model, and where its value comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// The value, in the unit that its name ends with.
    pub value: f64,
    /// Where the value comes from.
    pub source: String,
    /// Whether it was fitted to measured points, not read or measured alone.
    pub fitted: bool,
}

/// Constants by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Constants(pub BTreeMap<String, Constant>);

/// The names of constants, with what they mean.
pub(crate) const NAMES: &[(&str, &str)] = &[
    ("launch_us", "all of a launch before the first operation and after the last one"),
    ("op_us", "dispatch of an operation by a thread block"),
    ("sync_us", "block sync or barrier"),
    ("signal_us", "from a signal to the return of the wait on another rank"),
    ("packet_us", "from the store of packets to their arrival"),
    ("semaphore_us", "from a release to the return of the acquire"),
    ("load_us", "latency of loads from another rank"),
    ("local_us", "latency of loads from the rank's own memory"),
    ("multicast_us", "latency of an operation in a switch"),
    ("proxy_us", "from the post of a transfer to its start"),
    ("port_us", "from the end of a transfer within a node to the return of the wait"),
    ("network_us", "from the end of a transfer between nodes to the return of the wait"),
    ("block_put_gb_per_s", "stores of one thread block to other ranks"),
    ("block_get_gb_per_s", "loads of one thread block from other ranks"),
    ("block_local_gb_per_s", "loads and stores of one thread block in the rank's own memory, added"),
    ("block_packet_gb_per_s", "loads and stores of packets by one thread block, bytes with flags"),
    ("block_reduce_gb_per_s", "loads of one thread block that a switch reduces"),
    ("block_multicast_gb_per_s", "stores of one thread block that a switch delivers to all ranks"),
    (
        "block_sum_gb_per_s",
        "arithmetic of one thread block that reduces, bytes of all operands, added to its loads and stores",
    ),
    ("transfer_gb_per_s", "one transfer of a port"),
    ("spread", "part of loads and stores that thread blocks, which do not run in step, spread over all peers"),
    ("put_efficiency", "part of a link's bandwidth that stores reach"),
    ("get_efficiency", "part of a link's bandwidth that loads reach"),
    ("packet_efficiency", "part of a link's bandwidth that packets reach, flags included"),
    ("switch_efficiency", "part of a link's bandwidth that operations in a switch reach"),
    ("port_efficiency", "part of a link's bandwidth that transfers of ports reach"),
    ("memory_gb_per_s", "loads and stores of the memory of one device, added"),
    ("cache_mib", "size of the cache of one device"),
    ("cache_gb_per_s", "loads and stores of one device whose buffers are in the cache, added"),
];

/// A constant in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConstantFile {
    value: f64,
    source: String,
    #[serde(default)]
    fitted: bool,
}

/// Returns the values that a constant may have, by the unit at the end of its name.
fn range(name: &str) -> RangeInclusive<f64> {
    match name {
        "spread" => 0.0..=1.0,
        name if name.ends_with("_us") => 0.0..=1e9,
        name if name.ends_with("_efficiency") => 1e-6..=1.0,
        _ => 1e-6..=1e6,
    }
}

impl Constants {
    /// Reads the constants of a section.
    pub(super) fn read(section: &str, given: BTreeMap<String, ConstantFile>) -> Result<Self, MachineError> {
        let mut all = BTreeMap::new();
        for (name, ConstantFile { value, source, fitted }) in given {
            let field = format!("{section}.{name}");
            if Self::meaning(&name).is_none() {
                let close = closest_name(&name, NAMES.iter().map(|(name, _)| *name));
                let hint = close.map(|close| format!("; use `{close}`")).unwrap_or_default();
                return Err(invalid(field, format!("expected a constant of the timing model, found `{name}`{hint}")));
            }
            let range = range(&name);
            if !range.contains(&value) {
                return Err(invalid(field, format!("expected {} to {}, found {value}", range.start(), range.end())));
            }
            if source.trim().is_empty() {
                return Err(invalid(field, "expected where the value comes from, found nothing"));
            }
            all.insert(name, Constant { value, source, fitted });
        }
        Ok(Self(all))
    }

    /// Returns a value.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).map(|constant| constant.value)
    }

    /// Returns these constants with others in place of those of the same name.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut all = self.0.clone();
        all.extend(other.0.iter().map(|(name, constant)| (name.clone(), constant.clone())));
        Self(all)
    }

    /// Returns what a name means; `None` for an unknown one.
    pub fn meaning(name: &str) -> Option<&'static str> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
    }
}
