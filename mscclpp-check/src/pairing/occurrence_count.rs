//! The number of executions of an operation, including loops.

use smallvec::SmallVec;

use crate::place::LocatedOp;

/// Number of executions, by the loop that repeats them: 1, or ⌈chunks of a loop × bytes of a chunk / unit⌉.
#[derive(Debug, Default)]
pub(super) struct OccurrenceCount {
    /// In ascending order of the keys.
    by_loop: SmallVec<[Occurrences; 1]>,
}

/// Executions in loops of one span per unit.
#[derive(Debug)]
struct Occurrences {
    /// Span and unit of the loop in lowest terms, which give the same number of iterations at every size; outside of
    /// loops (0, 0).
    key: (u64, u64),
    /// Executions per iteration.
    count: u64,
    /// Span and unit of the first such loop, as the program states them.
    stated: (u32, u64),
}

impl OccurrenceCount {
    pub(super) fn add(&mut self, at: &LocatedOp) {
        let repeated = at.inside.and_then(|(_, pipeline)| pipeline.body.as_ref());
        let stated = repeated.map_or((0, 0), |body| (body.num_chunks, body.unit));
        let key = lowest_terms(u64::from(stated.0), stated.1);
        match self.by_loop.binary_search_by_key(&key, |known| known.key) {
            Ok(found) => self.by_loop[found].count += 1,
            Err(place) => self.by_loop.insert(place, Occurrences { key, count: 1, stated }),
        }
    }

    fn counts(&self) -> impl Iterator<Item = ((u64, u64), u64)> {
        self.by_loop.iter().map(|known| (known.key, known.count))
    }

    /// Returns the total, for chunks of the given number of bytes.
    pub(super) fn total(&self, chunk_bytes: u64) -> u128 {
        self.counts().map(|(key, count)| u128::from(count) * u128::from(trips(key, chunk_bytes))).sum()
    }

    /// Returns the units of its loops, in lowest terms with their spans.
    pub(super) fn units(&self) -> impl Iterator<Item = u64> {
        self.counts().map(|((_, unit), _)| unit).filter(|unit| *unit > 0)
    }

    /// Returns a chunk size for which the totals differ from another one's. The sizes that are tried are one byte,
    /// where every loop has one iteration, and once and twice the units.
    pub(super) fn differs_at(&self, other: &Self) -> Option<u64> {
        let mut sizes: Vec<u64> = vec![1];
        sizes.extend(self.units().chain(other.units()).flat_map(|unit| [unit.saturating_mul(2), unit]));
        sizes.into_iter().find(|&size| self.total(size) != other.total(size))
    }

    /// Returns a text such as "waits twice", "never waits", "is released once", "is never released".
    pub(super) fn describe(&self, before: &str, verb: &str) -> String {
        let space = if before.is_empty() { "" } else { " " };
        match self.by_loop.is_empty() {
            true => format!("{before}{space}never {verb}"),
            false => format!("{before}{space}{verb} {self}"),
        }
    }
}

impl PartialEq for OccurrenceCount {
    fn eq(&self, other: &Self) -> bool {
        self.counts().eq(other.counts())
    }
}

impl Eq for OccurrenceCount {}

impl PartialOrd for OccurrenceCount {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OccurrenceCount {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.counts().cmp(other.counts())
    }
}

impl std::fmt::Display for OccurrenceCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, Occurrences { stated: (span, unit), count, .. }) in self.by_loop.iter().enumerate() {
            f.write_str(if i > 0 { " and " } else { "" })?;
            match (span, count) {
                (0, 1) => f.write_str("once")?,
                (0, 2) => f.write_str("twice")?,
                (0, count) => write!(f, "{count} times")?,
                (span, count) => {
                    let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
                    let chunks = if *span == 1 { "chunk" } else { "chunks" };
                    write!(f, "{times} per iteration of a loop of {unit} bytes over {span} {chunks}")?;
                }
            }
        }
        Ok(())
    }
}

fn trips((span, unit): (u64, u64), chunk_bytes: u64) -> u64 {
    match unit {
        0 => 1,
        unit => {
            u64::try_from((u128::from(span) * u128::from(chunk_bytes)).div_ceil(u128::from(unit))).unwrap_or(u64::MAX)
        }
    }
}

fn lowest_terms(a: u64, b: u64) -> (u64, u64) {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    let divisor = x.max(1);
    (a / divisor, b / divisor)
}
