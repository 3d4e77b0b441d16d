//! Random programs: the kept sizes find what all sizes find.
//!
//! `MSCCLPP_SLICES=<programs>` sets the number of programs, `MSCCLPP_SEED=<seed>` the first seed.
#![allow(clippy::disallowed_methods, reason = "variables set how many programs there are")]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{expect_copy, found_at, found_conservatively, sizes};
use crate::testing::plan;
use crate::{Pairs, check, layout, pairing, shape};
use mscclpp_plan::raw::PlanTree;

/// Number of programs unless the environment sets another.
const PROGRAMS: u64 = 300;

/// Group sizes that are used together.
const POOLS: &[&[u32]] =
    &[&[1, 2], &[2], &[1, 3], &[2, 3], &[2, 4], &[1, 4], &[2, 3, 4], &[1, 4, 8], &[3, 5], &[6, 4], &[7, 3], &[8, 6]];

struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end.max(1)
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// What one member of a group does in a stage: its block, and its slice of a range.
#[derive(Clone, Copy)]
struct Piece {
    block: usize,
    start: u32,
    len: u32,
    of: u32,
    index: u32,
}

impl Piece {
    fn range(&self, units: u64) -> (u64, u64) {
        let (all, of) = (u64::from(self.len) * units, u64::from(self.of));
        let cut = |member: u64| u64::from(self.start) * units + member * (all / of) + member.min(all % of);
        (cut(self.index.into()), cut(u64::from(self.index) + 1))
    }

    fn overlaps(&self, other: &Self, units: u64) -> bool {
        let ((a, b), (c, d)) = (self.range(units), other.range(units));
        a.max(c) < b.min(d)
    }
}

/// Chunks that are copied.
const CHUNKS: u32 = 4;

/// Programs that copy the input to the output through some ranges in scratch, each with its own groups.
struct Program {
    random: Random,
    pool: &'static [u32],
    ranks: usize,
    blocks: usize,
    texts: Vec<String>,
    semaphores: usize,
    /// Whether all ranges are all chunks, which then count as one.
    whole: bool,
    /// Sizes at which all may differ.
    bound: u64,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..4).for_each(|_| _ = random.below(2));
        let pool = random.of(POOLS);
        let most = pool.iter().copied().max().unwrap_or(1);
        let period = (1..).find(|all| pool.iter().all(|of| all % of == 0)).unwrap_or(1);
        let ranks = if most <= 4 && random.one_in(4) { 2 } else { 1 };
        let whole = random.one_in(4);
        Self {
            random,
            whole,
            pool,
            ranks,
            blocks: most as usize,
            texts: vec![String::new(); most as usize],
            semaphores: 0,
            bound: u64::from((3 + most / 4) * period) + 2,
        }
    }

    /// All chunks, in ranges that are cut.
    fn stage(&mut self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < CHUNKS {
            let len = match self.whole {
                true => CHUNKS,
                false => 1 + self.random.below((CHUNKS - start) as usize) as u32,
            };
            let of = self.random.of(self.pool);
            // Members on the blocks of their numbers, or on others.
            let shift = if self.random.one_in(3) { self.random.below(self.blocks) } else { 0 };
            for index in 0..of {
                pieces.push(Piece { block: (index as usize + shift) % self.blocks, start, len, of, index });
            }
            start += len;
        }
        if self.random.one_in(12) {
            let lost = self.random.below(pieces.len());
            pieces.remove(lost);
        }
        pieces
    }

    fn add(&mut self, block: usize, ops: &str) {
        let text = &mut self.texts[block];
        let _ = write!(text, "{}{ops}", if text.is_empty() { "" } else { "; " });
    }

    fn all(&mut self, ops: &str) {
        (0..self.blocks).for_each(|block| self.add(block, ops));
    }

    fn moves(&mut self, kind: &str, pieces: &[Piece], from: (&str, u32), to: (&str, u32)) {
        for Piece { block, start, len, of, index } in pieces {
            let (read, write) = (from.1 + start, to.1 + start);
            self.add(*block, &format!("{kind}/{index}:{of} {}{read}+{len} > {}{write}+{len}", from.0, to.0));
        }
    }

    /// Adds waits of blocks for those whose slices they read, though not all that are necessary.
    fn hand_over(&mut self, writers: &[Piece], readers: &[Piece]) {
        let known: BTreeSet<u64> = match self.random.below(6) {
            0 => [self.bound - 2].into(),
            1 => [1, 2, self.bound - 2].into(),
            2 => (0..self.bound).map(|_| 1 + self.random.below(self.bound as usize) as u64).take(6).collect(),
            _ => (1..=self.bound).collect(),
        };
        let mut pairs: BTreeSet<(usize, usize)> = BTreeSet::new();
        for writer in writers {
            let reads = |reader: &&Piece| known.iter().any(|units| writer.overlaps(reader, *units));
            pairs.extend(readers.iter().filter(reads).map(|reader| (writer.block, reader.block)));
        }
        pairs.retain(|(writer, reader)| writer != reader);
        if self.random.one_in(4) && !pairs.is_empty() {
            let lost = self.random.below(pairs.len());
            let lost = pairs.iter().nth(lost).copied();
            pairs.retain(|pair| Some(*pair) != lost);
        }
        self.all("nop");
        let first = self.semaphores;
        self.semaphores += pairs.len();
        for (id, (writer, _)) in (first..).zip(&pairs) {
            self.add(*writer, &format!("sem_release#{id}"));
        }
        for (id, (_, reader)) in (first..).zip(&pairs) {
            self.add(*reader, &format!("sem_acquire#{id}"));
        }
        self.all("nop");
    }

    /// Lets blocks overwrite what others have read, which then signal that with packets.
    fn overwrite(&mut self) {
        let (read, write) = (self.stage(), if self.random.one_in(2) { self.stage() } else { Vec::new() });
        self.moves("copy", &read, ("i", 4), ("o", 4));
        if self.random.one_in(2) {
            self.all("nop");
        }
        let to = if self.random.one_in(3) { self.stage() } else { read.clone() };
        self.moves("cpkt", &to, ("i", 0), ("s", 16));
        let from = if self.random.one_in(3) { self.stage() } else { to.clone() };
        self.moves("upkt", &from, ("s", 16), ("s", 8));
        if !self.random.one_in(8) {
            self.all("nop");
        }
        let again = if write.is_empty() { &from } else { &write };
        self.moves("copy", again, ("s", 8), ("i", 4));
    }

    fn finish(mut self) -> (PlanTree, u64) {
        let stages = 2 + self.random.below(2);
        let mut last: Option<Vec<Piece>> = None;
        let mut packets = false;
        if self.random.one_in(3) {
            self.overwrite();
        }
        for number in 0..stages {
            let pieces = match &last {
                Some(last) if self.random.one_in(4) => last.clone(),
                _ => self.stage(),
            };
            if let Some(last) = &last
                && !packets
            {
                match self.random.below(8) {
                    0 => self.all("nop"),
                    1 => {}
                    2 => {
                        let blocks = self.blocks;
                        self.all(&format!("barrier#{}={blocks}", number - 1));
                    }
                    _ => self.hand_over(last, &pieces),
                }
            }
            let into = number + 1 < stages && self.random.one_in(5);
            let place = |place: usize, packets: bool| match place {
                0 => ("i", 0),
                _ if place == stages => ("o", 0),
                // Packets are after plain data.
                _ => ("s", 4 * (place as u32 - 1) + if packets { 8 } else { 0 }),
            };
            let (from, to) = (place(number, packets), place(number + 1, into && !packets));
            match (packets, into) {
                (false, false) => self.moves("copy", &pieces, from, to),
                (false, true) if self.ranks == 2 => self.moves("ppkt.m", &pieces, from, ("r0:", to.1)),
                (false, true) => self.moves("cpkt", &pieces, from, to),
                (true, _) => self.moves("upkt", &pieces, from, to),
            }
            packets = into && !packets;
            last = Some(pieces);
        }
        if self.ranks == 2 && self.random.one_in(2) {
            for block in 0..self.blocks {
                self.add(block, &format!("nop; signal.m#{block}; wait.m#{block}"));
            }
        }
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        let mut plan = match self.ranks {
            2 => plan(&[&texts, &texts]),
            _ => plan(&[&texts, &[""]]),
        };
        plan.double_scratch = self.ranks == 2 && !texts.iter().any(|text| text.contains("copy"));
        for rank in 0..self.ranks {
            plan.ranks[rank].semaphores = vec![0; self.semaphores];
            plan.ranks[rank].scratch_chunks = 20;
        }
        plan.ranks[1].scratch_chunks = 20;
        // Expectations are about chunks.
        if !self.whole && !texts.iter().any(|text| text.contains("ppkt")) && !self.random.one_in(4) {
            (0..CHUNKS).for_each(|chunk| expect_copy(&mut plan, 0, chunk));
        }
        (plan, self.bound)
    }
}

fn text(plan: &PlanTree) -> String {
    let blocks = plan.ranks.iter().flat_map(|rank| &rank.blocks);
    blocks.map(|block| crate::testing::text(&block.ops) + "\n").collect()
}

#[test]
fn kept_sizes_of_random_programs_find_what_all_sizes_find() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (programs, first) = (number("MSCCLPP_SLICES").unwrap_or(PROGRAMS), number("MSCCLPP_SEED").unwrap_or(1));
    println!("seeds {first} to {}", first + programs - 1);
    let (mut right, mut usual, mut uneven, mut runs) = (0, 0, 0, 0);
    // Programs with fewer conservative executions: those in which these find something, and those in which they do not.
    let mut fewer = [0; 2];
    for seed in first..first + programs {
        let (plan, bound) = Program::new(seed).finish();
        let early = [shape::check((&plan).into()), layout::check((&plan).into())];
        assert!(
            early.iter().all(|found| found.is_empty()),
            "seed {seed}: {}\n{}",
            early[1].iter().next().map_or("", |f| &f.message),
            text(&plan)
        );
        assert!(pairing::check((&plan).into(), &Pairs::of(&plan)).is_empty(), "seed {seed}\n{}", text(&plan));
        let kept = sizes((&plan).into(), None).unwrap_or_else(|finding| panic!("seed {seed}: {finding:?}")).sizes;
        runs += kept.len();
        let found = check(&plan);
        let expected = if !found_at(&plan, std::iter::empty()).is_empty() {
            usual += 1;
            true
        } else {
            let at = (1..=bound).find(|units| !found_at(&plan, std::iter::once(*units)).is_empty());
            uneven += u64::from(at.is_some());
            right += u64::from(at.is_none());
            at.is_some()
        };
        assert_eq!(!found.is_empty(), expected, "seed {seed}: {found}\n{}", text(&plan));
        if let Some(found) = found_conservatively(&plan) {
            assert!(!found.is_empty() || !expected, "seed {seed}\n{}", text(&plan));
            fewer[usize::from(found.is_empty())] += 1;
        }
    }
    println!("{right} right, {usual} wrong at usual sizes, {uneven} at others only; {runs} sizes kept");
    println!("conservative runs: {} wrong, {} right", fewer[0], fewer[1]);
    assert!(programs < 100 || fewer[1] > programs / 60, "too few are right in conservative runs");
    assert!(programs < 100 || right.min(usual).min(uneven) > programs / 60, "too few of a kind");
}
