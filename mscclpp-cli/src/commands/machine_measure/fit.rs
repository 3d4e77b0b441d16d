//! Fits constants to measured times.

use mscclpp_predict::Machine;
use mscclpp_predict::fit::Fit;

/// Factors of the steps, smaller and smaller, and the most rounds with each.
const STEPS: [f64; 5] = [3.0, 1.7, 1.25, 1.08, 1.03];
const MAX_ROUNDS: usize = 5;

/// Changes the named constants of a machine so that the cost is least.
pub(super) fn fit(machine: &mut Machine, names: &[&str], cost: impl Fn(&Machine) -> f64) {
    let fit = Fit::new(machine, names.iter().map(|name| (None, (*name).to_owned())));
    let mut cost = |machine: &mut Machine| cost(machine) + fit.distance(machine);
    let mut best = cost(machine);
    for step in STEPS {
        for _ in 0..MAX_ROUNDS {
            let before = best;
            best = fit.descend(machine, step, best, &mut cost);
            if best > before - 1e-4 {
                break;
            }
        }
    }
}

/// Returns the mean of numbers; 0 of none.
pub(super) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}
