//! Fits constants by descent along one of them at a time.

use super::machine::Machine;

/// A constant: its tier, if it is one of a tier, and its name.
pub type Key = (Option<String>, String);

/// The least value of a constant.
const MIN_VALUE: f64 = 1e-3;
/// How much less a cost must be.
const MIN_GAIN: f64 = 1e-6;
/// Weight of the distance of a constant from its first value: times that do not depend on a constant leave it where it is.
const DISTANCE: f64 = 0.002;

/// Constants that are fitted, with the values from which the fit begins.
#[derive(Clone, Debug)]
pub struct Fit {
    first: Vec<(Key, f64)>,
}

/// Returns the value of a constant that a machine has.
pub fn constant<'m>(machine: &'m mut Machine, (tier, name): &Key) -> Option<&'m mut f64> {
    let constants = match tier {
        None => &mut machine.constants,
        Some(tier) => &mut machine.tiers.get_mut(tier)?.constants,
    };
    constants.0.get_mut(name).map(|constant| &mut constant.value)
}

/// Returns the largest value that a constant may have.
fn limit(machine: &Machine, name: &str) -> f64 {
    match name {
        name if name.ends_with("_efficiency") || name == "spread" => 1.0,
        // One thread block moves no more than the device.
        name if name.starts_with("block_") => machine.constants.get("memory_gb_per_s").unwrap_or(f64::INFINITY),
        _ => f64::INFINITY,
    }
}

impl Fit {
    /// Begins a fit of constants from the values that the machine has; those that it lacks are left out.
    pub fn new(machine: &mut Machine, keys: impl IntoIterator<Item = Key>) -> Self {
        let first = keys.into_iter().filter_map(|key| constant(machine, &key).map(|value| (key, *value)));
        Self { first: first.collect() }
    }

    /// Returns the part of a cost that is the distance of the constants from their first values.
    pub fn distance(&self, machine: &mut Machine) -> f64 {
        let far = |(key, first): &(Key, f64)| constant(machine, key).map_or(0.0, |value| (*value / first).ln().powi(2));
        DISTANCE * self.first.iter().map(far).sum::<f64>()
    }

    /// Multiplies and divides each constant by a step as long as the cost falls from `best`. Returns the cost.
    pub fn descend(
        &self,
        machine: &mut Machine,
        step: f64,
        mut best: f64,
        cost: &mut impl FnMut(&mut Machine) -> f64,
    ) -> f64 {
        for (key, _) in &self.first {
            for factor in [step, 1.0 / step] {
                loop {
                    let limit = limit(machine, &key.1);
                    let Some(value) = constant(machine, key) else { break };
                    let old = *value;
                    *value = (old * factor).min(limit).max(MIN_VALUE);
                    let new = cost(machine);
                    if new < best - MIN_GAIN {
                        best = new;
                        continue;
                    }
                    constant(machine, key).into_iter().for_each(|value| *value = old);
                    break;
                }
            }
        }
        best
    }
}
