//! Random programs of two ranks whose blocks signal and wait in loops.

use crate::testing::plan;
use mscclpp_plan::raw::PlanTree;

/// A random number generator (splitmix64).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Loops of a program, as unit and span: one rate, spans above the unit, two rates, three.
const RATES: &[&[(u64, u32)]] = &[
    &[(64, 1)],
    &[(64, 1), (192, 3)],
    &[(16, 3)],
    &[(64, 1), (128, 1)],
    &[(32, 1), (48, 1)],
    &[(16, 1), (48, 2), (80, 1)],
];

/// A part of a block: operations outside of loops, or a loop.
struct Part {
    rate: Option<usize>,
    ops: Vec<String>,
}

/// Returns the program of a seed, and the largest trip count at which to execute it.
pub(super) fn random(seed: u64) -> (PlanTree, u64) {
    let random = &mut Random::new(seed);
    let rates = RATES[if random.chance(50) { 0 } else { random.below(RATES.len()) }];
    let counts = [1 + random.below(3), random.below(3)];
    let mut blocks: Vec<Vec<Part>> = Vec::new();
    for _ in 0..counts.iter().sum() {
        let mut parts = vec![Part { rate: None, ops: Vec::new() }];
        for _ in 0..1 + random.below(3) {
            parts.push(Part { rate: Some(random.below(rates.len())), ops: Vec::new() });
            parts.push(Part { rate: None, ops: Vec::new() });
        }
        blocks.push(parts);
    }
    let ranks = [0..counts[0], counts[0]..counts[0] + counts[1]];
    let mut semaphores = [[0_i64; 4]; 2];
    let mut most = 0;
    let mut credits = |random: &mut Random| {
        let credits = match random.below(20) {
            0..12 => random.below(3),
            12..18 => random.below(12),
            18 => random.below(60),
            _ => random.below(301),
        };
        most = most.max(credits);
        credits
    };
    // Counters: semaphores and channels.
    let count = 1 + random.below(4);
    for number in (0..4).take(count) {
        let rank = if ranks[1].is_empty() { 0 } else { random.below(2) };
        let is_channel = !ranks[1].is_empty() && random.chance(60);
        let signallers = ranks[rank].clone();
        let waiters = ranks[if is_channel { 1 - rank } else { rank }].clone();
        let (up, down) = if is_channel { ("signal.m", "wait.m") } else { ("sem_release", "sem_acquire") };
        let (up, down) = (format!("{up}#{number}"), format!("{down}#{number}"));
        if !is_channel && random.chance(50) {
            semaphores[rank][number] = credits(random) as i64;
        }
        let waiter = waiters.start + random.below(waiters.len());
        let mut signaler = signallers.start + random.below(signallers.len());
        // Outside of loops.
        if random.chance(40) {
            let count = credits(random);
            let first = random.below(blocks[signaler].len().div_ceil(2));
            insert(&mut blocks[signaler], None, first, &up, count, random);
            let last = random.below(blocks[waiter].len().div_ceil(2));
            insert(&mut blocks[waiter], None, last, &down, count, random);
        }
        // In loops.
        for _ in 0..1 + random.below(2) {
            if random.chance(20) {
                signaler = signallers.start + random.below(signallers.len());
            }
            let rate = random.below(rates.len());
            let times = if random.chance(80) { 1 } else { 2 };
            for (op, block) in [(&up, signaler), (&down, waiter)] {
                // All in one loop, or in several.
                let apart = times == 2 && random.chance(50);
                for _ in 0..if apart { 2 } else { 1 } {
                    let which = random.below(4);
                    insert(&mut blocks[block], Some(rate), which, op, if apart { 1 } else { times }, random);
                }
            }
        }
    }
    // Barriers.
    for number in 0..if random.chance(30) { 1 + random.below(2) } else { 0 } {
        let rank = random.below(2);
        if ranks[rank].len() < 2 {
            continue;
        }
        let rate = random.chance(70).then(|| random.below(rates.len()));
        let op = format!("barrier#{number}={}", ranks[rank].len());
        for block in ranks[rank].clone() {
            let which = random.below(4);
            insert(&mut blocks[block], rate, which, &op, 1, random);
        }
    }
    let text = |part: &Part| match part.rate {
        _ if part.ops.is_empty() => "nop".to_owned(),
        None => part.ops.join("; "),
        Some(rate) => format!("loop {}x{} {{ {} }}", rates[rate].0, rates[rate].1, part.ops.join("; ")),
    };
    let texts: Vec<String> = blocks.iter().map(|parts| parts.iter().map(text).collect::<Vec<_>>().join("; ")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let mut plan = plan(&[&texts[ranks[0].clone()], &texts[ranks[1].clone()]]);
    for (tables, values) in plan.ranks.iter_mut().zip(semaphores) {
        tables.semaphores = values.to_vec();
    }
    (plan, (3 * most as u64).max(64))
}

/// Inserts an operation repeatedly in one of the parts outside of loops, or of the loops of a rate; if there is none, a
/// loop is added.
fn insert(parts: &mut Vec<Part>, rate: Option<usize>, which: usize, op: &str, count: usize, random: &mut Random) {
    let fits: Vec<usize> = (0..parts.len()).filter(|&i| parts[i].rate == rate).collect();
    let part = match fits.is_empty() {
        false => fits[which % fits.len()],
        true => {
            let at = random.below(parts.len() + 1);
            parts.insert(at, Part { rate, ops: Vec::new() });
            at
        }
    };
    let ops = &mut parts[part].ops;
    let at = random.below(ops.len() + 1);
    ops.splice(at..at, std::iter::repeat_n(op.to_owned(), count));
}

/// Returns a plan as text.
pub(super) fn text(plan: &PlanTree) -> String {
    let mut out = String::new();
    for (number, rank) in plan.ranks.iter().enumerate() {
        out += &format!("rank {number}, semaphores {:?}\n", rank.semaphores);
        for block in &rank.blocks {
            out += &format!("  {}\n", crate::testing::text(&block.ops));
        }
    }
    out
}
