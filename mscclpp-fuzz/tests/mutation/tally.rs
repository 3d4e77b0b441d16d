//! Counts of the mutants' outcomes.

use std::collections::BTreeMap;
use std::fmt;

use mscclpp_core::diag::Entry;

use super::mutants::Operator;

/// The outcome of a mutant.
pub(crate) enum MutantOutcome {
    /// The checker rejects it; whether the fuzzer passed it, if it was fuzzed.
    Killed { code: &'static Entry, unbroken: Option<bool> },
    /// Neither the checker nor the fuzzer finds a defect.
    Equivalent { reason: String },
    /// The checker accepts it, and the fuzzer fails it.
    Lost { how: String },
}

/// Counts by operator, rule and reason.
#[derive(Default)]
pub(crate) struct Tally {
    operators: BTreeMap<Operator, Count>,
    rules: BTreeMap<(&'static str, &'static str), Rule>,
    /// Per reason, the number and the first one's name.
    reasons: BTreeMap<String, (usize, String)>,
    lost: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    total: usize,
    killed: usize,
    equivalent: usize,
}

#[derive(Clone, Default)]
struct Rule {
    killed: usize,
    /// Fuzzed, and passed; the first of those.
    fuzzed: usize,
    unbroken: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, operator: Operator, name: String, mutant_outcome: MutantOutcome) {
        let count = self.operators.entry(operator).or_default();
        count.total += 1;
        match mutant_outcome {
            MutantOutcome::Killed { code, unbroken } => {
                count.killed += 1;
                let rule = self.rules.entry((code.number, code.slug)).or_default();
                rule.killed += 1;
                rule.fuzzed += usize::from(unbroken.is_some());
                if unbroken == Some(true) {
                    rule.unbroken.push(name);
                }
            }
            MutantOutcome::Equivalent { reason } => {
                count.equivalent += 1;
                self.reasons.entry(reason).or_insert((0, name)).0 += 1;
            }
            MutantOutcome::Lost { how } => self.lost.push(format!("{name}: {how}")),
        }
    }

    pub(crate) fn merge(mut self, other: Self) -> Self {
        for (operator, count) in other.operators {
            let sum = self.operators.entry(operator).or_default();
            sum.total += count.total;
            sum.killed += count.killed;
            sum.equivalent += count.equivalent;
        }
        for (code, rule) in other.rules {
            let sum = self.rules.entry(code).or_default();
            sum.killed += rule.killed;
            sum.fuzzed += rule.fuzzed;
            sum.unbroken.extend(rule.unbroken);
            sum.unbroken.sort();
        }
        for (reason, (count, first)) in other.reasons {
            let sum = self.reasons.entry(reason).or_insert((0, first.clone()));
            *sum = (sum.0 + count, std::mem::take(&mut sum.1).min(first));
        }
        self.lost.extend(other.lost);
        self.lost.sort();
        self
    }

    /// Mutants that the checker accepts though they fail.
    pub(crate) fn lost(&self) -> &[String] {
        &self.lost
    }

    pub(crate) fn total(&self) -> usize {
        self.operators.values().map(|count| count.total).sum()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<14} {:>7} {:>7} {:>11} {:>7}", "", "mutants", "killed", "equivalent", "missed")?;
        let mut sum = Count::default();
        for (operator, &Count { total, killed, equivalent }) in &self.operators {
            let name = format!("{operator:?}");
            writeln!(f, "{name:<14} {total:>7} {killed:>7} {equivalent:>11} {:>7}", total - killed - equivalent)?;
            sum.total += total;
            sum.killed += killed;
            sum.equivalent += equivalent;
        }
        let Count { total, killed, equivalent } = sum;
        writeln!(f, "{:<14} {total:>7} {killed:>7} {equivalent:>11} {:>7}", "all", total - killed - equivalent)?;
        let share = 100.0 * killed as f64 / (total - equivalent).max(1) as f64;
        writeln!(f, "killed: {killed} of {} that are not equivalent, {share:.2} %\n", total - equivalent)?;
        writeln!(f, "{:<28} {:>7} {:>9} {:>9}", "killed by", "", "fuzzed", "unbroken")?;
        for ((number, slug), Rule { killed, fuzzed, unbroken }) in &self.rules {
            let name = format!("{number} {slug}");
            write!(f, "{name:<28} {killed:>7} {fuzzed:>9} {:>9}", unbroken.len())?;
            writeln!(f, "{}", unbroken.first().map_or(String::new(), |first| format!("  such as {first}")))?;
        }
        writeln!(f, "\nequivalent because")?;
        for (reason, (count, first)) in &self.reasons {
            writeln!(f, "{count:>7} {reason}, such as {first}")?;
        }
        Ok(())
    }
}
