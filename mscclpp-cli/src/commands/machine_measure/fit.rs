//! Fits constants by descent along one of them at a time, with smaller and smaller steps.

use mscclpp_predict::Machine;

/// Factors of the steps, and the most rounds with each.
const STEPS: [f64; 5] = [3.0, 1.7, 1.25, 1.08, 1.03];
const MAX_ROUNDS: usize = 5;
/// The least value of a constant.
const MIN_VALUE: f64 = 1e-3;

/// Changes the named constants of a machine so that the cost is least.
pub(super) fn fit(machine: &mut Machine, names: &[&str], cost: impl Fn(&Machine) -> f64) {
    let mut best = cost(machine);
    for step in STEPS {
        for _ in 0..MAX_ROUNDS {
            let before = best;
            for name in names {
                for factor in [step, 1.0 / step] {
                    while let Some(old) = machine.constants.get(name) {
                        set(machine, name, (old * factor).max(MIN_VALUE));
                        let new = cost(machine);
                        if new >= best - 1e-6 {
                            set(machine, name, old);
                            break;
                        }
                        best = new;
                    }
                }
            }
            if best > before - 1e-4 {
                break;
            }
        }
    }
}

fn set(machine: &mut Machine, name: &str, value: f64) {
    if let Some(constant) = machine.constants.0.get_mut(name) {
        constant.value = value;
    }
}

/// Returns the mean of numbers; 0 of none.
pub(super) fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}
