//! Small plans of random events: a plan that the checker accepts has the same results in every schedule.

use mscclpp_core::check::{LaunchBoundaries, check, launch_boundaries};
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_fuzz::{Outcome, ScheduleFuzzer};

use super::runs::{number, seeds};
use crate::testing;

/// A random number generator with a fixed sequence per seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn of<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len() as u64) as usize]
    }
}

/// The texts of two ranks of two blocks each. Events are in an order that can be executed, so no wait deadlocks.
pub(crate) struct Script {
    texts: [[Vec<String>; 2]; 2],
    packets: bool,
    /// Initial value of semaphore 2.
    initial: i64,
}

impl Script {
    pub(crate) fn random(random: &mut Random) -> Self {
        let mut script = Self { texts: Default::default(), packets: random.below(2) == 0, initial: 0 };
        let closed = random.below(8) > 0;
        if closed {
            script.handshake("rlx", random);
        }
        for _ in 0..1 + random.below(6) {
            script.event(random);
        }
        if closed {
            let relaxed = random.of(&["", "", "rlx"]);
            script.handshake(relaxed, random);
        }
        script
    }

    /// Returns blocks that use one channel, and one semaphore, alternately: mostly ordered, but sometimes the
    /// synchronization is missing.
    pub(crate) fn alternating(random: &mut Random) -> Self {
        let mut script = Self { texts: Default::default(), packets: random.below(4) == 0, initial: 0 };
        script.handshake("rlx", random);
        for round in 0..2 + random.below(4) {
            let (rank, block, other) = (random.below(2) as usize, random.below(2) as usize, random.below(2) as usize);
            let chunk = random.below(2);
            let relaxed = random.of(&["", "", "", "rlx"]);
            let kind = random.of(&["m", "m", "m", "p"]);
            let put = match kind {
                "p" => format!("put.p#0 i{chunk} > r0:{chunk}"),
                _ => format!("put.m{} i{chunk} > r0:{chunk}", random.of(&["", "", "/0:2", "/1:2"])),
            };
            if random.below(3) > 0 {
                script.add(rank, block, put);
            }
            script.add(rank, block, random.of(&["nop", "nop", "nop", "barrier#0=2"]).to_owned());
            if script.texts[rank][block].last().is_some_and(|last| last.starts_with("barrier")) {
                script.add(rank, 1 - block, "barrier#0=2".to_owned());
            }
            script.add(rank, block, format!("{relaxed}signal.{kind}#0"));
            script.add(1 - rank, other, format!("{relaxed}wait.{kind}#0"));
            if random.below(5) > 0 {
                script.add(1 - rank, other, "nop".to_owned());
            }
            if random.below(2) > 0 {
                script.add(
                    1 - rank,
                    other,
                    format!("copy{} s{chunk} > o{chunk}", random.of(&["", "", "/0:2", "/1:2"])),
                );
            }
            // Orders the next round after this one, on either rank.
            for rank in 0..2 {
                match random.below(8) {
                    0 => {}
                    1 | 2 => {
                        let from = random.below(2) as usize;
                        script.add(rank, from, "nop".to_owned());
                        script.add(rank, from, "sem_release#0".to_owned());
                        script.add(rank, 1 - from, "sem_acquire#0".to_owned());
                        script.add(
                            rank,
                            1 - from,
                            random.of(&["nop", "nop", "sem_release#1; sem_acquire#1"]).to_owned(),
                        );
                    }
                    3 if round % 2 == 0 => {
                        let (from, to) = (random.below(2) as usize, random.below(2) as usize);
                        script.add(rank, from, random.of(&["signal.m#1", "rlxsignal.m#1"]).to_owned());
                        script.add(1 - rank, to, "wait.m#1".to_owned());
                        script.add(1 - rank, to, "nop".to_owned());
                    }
                    _ => script.both(rank, "barrier#1=2", random),
                }
            }
        }
        script.handshake(random.of(&["", "", "rlx"]), random);
        script
    }

    /// Returns whether two blocks of a rank signal, or wait, on one channel other than that of the handshakes.
    fn shares_channels(&self) -> bool {
        let uses =
            |text: &str, what: &str| text.contains(&format!("{what}.m#0")) || text.contains(&format!("{what}.p#0"));
        self.texts.iter().any(|blocks| {
            ["signal", "wait"].iter().any(|what| blocks.iter().all(|ops| ops.iter().any(|op| uses(op, what))))
        })
    }

    /// Synchronizes all blocks, both ranks, then all blocks. Sometimes a part of it is missing.
    fn handshake(&mut self, relaxed: &str, random: &mut Random) {
        for rank in 0..2 {
            self.both(rank, "barrier#7=2", random);
            self.add(rank, 0, format!("{relaxed}signal.m#3"));
        }
        for rank in 0..2 {
            self.add(rank, 0, format!("{relaxed}wait.m#3"));
            self.both(rank, "barrier#7=2", random);
        }
    }

    fn both(&mut self, rank: usize, text: &str, random: &mut Random) {
        if random.below(24) > 0 {
            (0..2).for_each(|block| self.add(rank, block, text.to_owned()));
        }
    }

    fn add(&mut self, rank: usize, block: usize, text: String) {
        self.texts[rank][block].push(text);
    }

    fn event(&mut self, random: &mut Random) {
        let (rank, block, other) = (random.below(2) as usize, random.below(2) as usize, random.below(2) as usize);
        let (a, b) = (random.below(3), random.below(3));
        let port = random.below(2);
        let relaxed = random.of(&["", "", "", "rlx"]);
        let part = random.of(&["", "", "", "/0:2", "/1:2"]);
        let local = random.of(&["i", "o", "s"]);
        // Mostly with the block syncs that they need.
        let sync = |script: &mut Self, rank, block, random: &mut Random| {
            if random.below(6) > 0 {
                script.add(rank, block, "nop".into());
            }
        };
        match random.below(if self.packets { 22 } else { 16 }) {
            0 => self.add(rank, block, format!("copy{part} i{a} > {}{b}", random.of(&["o", "s"]))),
            1 => self.add(rank, block, format!("copy{part} s{a} > o{b}")),
            2 => self.add(rank, block, format!("re i{a} {}{b} > o{b}", random.of(&["s", "o"]))),
            3 => self.add(rank, block, format!("put.m{part} {local}{a} > r{}:{b}", random.of(&["0", "2"]))),
            4 => self.add(rank, block, format!("get.m#0 r{}:{a} > {}{b}", random.below(3), random.of(&["o", "s"]))),
            5 | 6 => {
                sync(self, rank, block, random);
                self.add(rank, block, format!("{relaxed}signal.m#{port}"));
                self.add(1 - rank, other, format!("{relaxed}wait.m#{port}"));
                sync(self, 1 - rank, other, random);
            }
            7 => {
                sync(self, rank, block, random);
                let id = random.below(2);
                self.add(rank, block, format!("sem_release#{id}"));
                self.add(rank, 1 - block, format!("sem_acquire#{id}"));
                sync(self, rank, 1 - block, random);
            }
            8 => self.both(rank, "barrier#0=2", random),
            9 => {
                sync(self, rank, block, random);
                let name = random.of(&["pws", "pwsf", "put"]);
                self.add(rank, block, format!("{name}.p#{port} {local}{a} > r{}:{b}", random.of(&["0", "2"])));
                // A put without a signal is flushed, and reported by its channel or another one.
                let by = if name == "put" { random.of(&["p#0", "p#1", "m#0", "m#1"]) } else { "" };
                if name == "put" {
                    self.add(rank, block, format!("flush.p#{port}"));
                    sync(self, rank, block, random);
                    self.add(rank, block, format!("signal.{by}"));
                }
                self.add(1 - rank, other, if by.is_empty() { format!("wait.p#{port}") } else { format!("wait.{by}") });
                sync(self, 1 - rank, other, random);
            }
            10 if random.below(2) == 0 => {
                // Two threads at once.
                sync(self, rank, block, random);
                match random.below(3) {
                    0 => {
                        let name = random.of(&["put.p", "pws.p"]);
                        self.add(rank, block, format!("{name}#0,1 {local}{a} i{b} > r2:{b} r0:{a}"));
                        if name == "put.p" {
                            sync(self, rank, block, random);
                            self.add(rank, block, random.of(&["signal.p#0,1", "signal.p#1; signal.p#0"]).to_owned());
                        }
                        self.add(1 - rank, other, random.of(&["wait.p#0,1", "wait.p#1; wait.p#0"]).to_owned());
                    }
                    1 => {
                        self.add(rank, block, random.of(&["signal.m#0,1", "signal.m#1; signal.m#0"]).to_owned());
                        self.add(1 - rank, other, random.of(&["wait.m#0,1", "wait.m#1; wait.m#0"]).to_owned());
                    }
                    _ => {
                        let number = random.of(&["0,1", "1,0"]);
                        self.add(rank, block, format!("sem_release#{number}"));
                        self.add(
                            rank,
                            1 - block,
                            random.of(&["sem_acquire#0,1", "sem_acquire#1; sem_acquire#0"]).into(),
                        );
                        sync(self, rank, 1 - block, random);
                        return;
                    }
                }
                sync(self, 1 - rank, other, random);
            }
            10 => {
                self.add(rank, block, format!("flush.p#{port}"));
                sync(self, rank, block, random);
            }
            11 => self.group(rank, random),
            12 => self.add(rank, block, format!("gstore.w{part} {}{a} > w0:{b}", random.of(&["i", "o"]))),
            13 => self.add(rank, block, format!("glre.w{part} w0:{a} > o{b}")),
            14 => {
                let name = random.of(&["res.m", "rre.m", "rres.m"]);
                let sources = if name == "res.m" { format!("i{a} s{b}") } else { format!("i{a} r0:{b}") };
                let results = if name == "rre.m" { format!("o{a}") } else { format!("o{a} r2:{b}") };
                self.add(rank, block, format!("{name}{part} {sources} > {results}"));
            }
            15 => self.pipeline(rank, random),
            // Packets are in the upper chunks, plain data in the lower ones.
            16 => {
                self.add(rank, block, format!("ppkt.m{part} {}{a} > r0:{}", random.of(&["i", "o"]), 4 + b));
                if random.below(3) > 0 {
                    self.add(1 - rank, other, format!("upkt{part} s{} > o{a}", 4 + b));
                }
            }
            17 => self.add(rank, block, format!("upkt{part} s{} > o{b}", 4 + a)),
            18 => {
                // A packet that is forwarded.
                self.add(rank, block, format!("ppkt.m i{a} > r0:4"));
                let by = random.of(&["rppkt.m s4 > r0:5", "rppkt.p#0 s4 > r0:5", "respkt.m i2 s4 > o2 r0:5"]);
                self.add(1 - rank, other, by.to_owned());
                self.add(rank, random.below(2) as usize, format!("upkt s5 > o{b}"));
            }
            19 => self.add(rank, block, format!("repkt{part} i{a} s{} > o{a}", 4 + b)),
            _ => self.echo(rank, block, random),
        }
    }

    /// Packets of two chunks, answered per chunk and unpacked together, or the reverse; sometimes wrongly.
    fn echo(&mut self, rank: usize, block: usize, random: &mut Random) {
        let (a, b) = (random.below(2), if random.below(4) > 0 { 0 } else { 1 });
        let other = random.below(2) as usize;
        let chunks = |random: &mut Random| if random.below(6) > 0 { [0, 1] } else { [1, random.below(2)] };
        match random.below(2) {
            0 => self.add(rank, block, format!("ppkt.m i{a}+2 > r0:4+2")),
            _ => (0..2).for_each(|chunk| {
                self.add(rank, block ^ chunk, format!("ppkt.m i{} > r0:{}", a + chunk as u64, 4 + chunk))
            }),
        }
        let unfused = random.below(3) == 0;
        match random.below(4) {
            0 => self.add(1 - rank, other, "respkt.m o0+2 s4+2 > o0+2 r0:6+2".to_owned()),
            1 => self.add(1 - rank, other, "rppkt.m s4+2 > r0:6+2".to_owned()),
            _ => {
                for (chunk, to) in (0..2).zip(chunks(random)) {
                    let text = match unfused {
                        true => format!("repkt o{chunk} s{} > o{chunk}; ppkt.m o{chunk} > r0:{}", 4 + chunk, 6 + to),
                        false => format!("respkt.m o{chunk} s{} > o{chunk} r0:{}", 4 + chunk, 6 + to),
                    };
                    self.add(1 - rank, other ^ (chunk as usize & 1), text);
                }
            }
        }
        let to = random.of(&["i", "i", "o"]);
        match random.below(2) {
            0 => self.add(rank, 1 - block, format!("upkt s6+2 > {to}{}+2", a ^ b)),
            _ => (0..2).for_each(|chunk| {
                self.add(rank, chunk, format!("upkt s{} > {to}{}", 6 + chunk, (a ^ b) + chunk as u64))
            }),
        }
    }

    /// Both blocks of a rank, on their parts of the same chunks.
    fn group(&mut self, rank: usize, random: &mut Random) {
        let (a, b, size) = (random.below(3), random.below(3), 1 + random.below(2));
        let (first, second) = if random.below(6) > 0 { ("/0:2", "/1:2") } else { ("/0:3", "/1:2") };
        for (block, part) in [first, second].into_iter().enumerate() {
            let text = match random.below(3) {
                0 => format!("copy{part} i{a}+{size} > s{b}+{size}"),
                1 => format!("put.m{part} i{a}+{size} > r0:{b}+{size}"),
                _ => format!("copy{part} s{a}+{size} > o{b}+{size}"),
            };
            self.add(rank, block, text);
        }
        self.both(rank, random.of(&["barrier#0=2", "nop"]), random);
    }

    /// One block passes windows to the other through scratch.
    fn pipeline(&mut self, rank: usize, random: &mut Random) {
        let units = random.of(&["32x1", "64x1", "32x1"]);
        let mut sync = || if random.below(12) > 0 { "nop; " } else { "" };
        let writer = format!("sem_acquire#2; {}copy i0 > s3; {}sem_release#3", sync(), sync());
        let reader = format!("sem_acquire#3; {}copy s3 > o0; {}sem_release#2", sync(), sync());
        self.initial = random.below(3) as i64;
        self.add(rank, 0, format!("loop {units} {{ {writer} }}"));
        self.add(rank, 1, format!("loop {units} {{ {reader} }}"));
    }

    pub(crate) fn plan(&self) -> PlanTree {
        let texts = self.texts.each_ref().map(|blocks| blocks.each_ref().map(|ops| ops.join("; ")));
        let blocks = texts.each_ref().map(|blocks| blocks.each_ref().map(String::as_str));
        let mut plan = testing::plan(&[&blocks[0], &blocks[1]]);
        plan.ranks.iter_mut().for_each(|rank| rank.semaphores[2] = self.initial);
        plan.protocol = mscclpp_core::types::Protocol::LL;
        plan
    }

    /// Removes operations that are not needed for a plan that is accepted and still fails.
    fn shrink(mut self, breaks: impl Fn(&PlanTree) -> bool) -> Self {
        loop {
            let mut smaller = None;
            let places: Vec<_> = (0..4).map(|i| (i / 2, i % 2)).collect();
            let all: Vec<_> =
                places.iter().flat_map(|&(r, b)| (0..self.texts[r][b].len()).map(move |i| (r, b, i))).collect();
            let without = |list: &[(usize, usize, usize)]| {
                let mut texts = self.texts.clone();
                let mut list = list.to_vec();
                list.sort_unstable();
                list.iter().rev().for_each(|&(r, b, i)| drop(texts[r][b].remove(i)));
                Self { texts, packets: self.packets, initial: self.initial }
            };
            'found: for (n, &first) in all.iter().enumerate() {
                let one = without(&[first]);
                if breaks(&one.plan()) {
                    smaller = Some(one);
                    break 'found;
                }
                for &second in &all[n + 1..] {
                    let two = without(&[first, second]);
                    if breaks(&two.plan()) {
                        smaller = Some(two);
                        break 'found;
                    }
                }
            }
            match smaller {
                Some(next) => self = next,
                None => return self,
            }
        }
    }
}

fn fuzz(plan: &PlanTree, seeds: u64) -> Option<String> {
    fuzz_with(ScheduleFuzzer::new(plan), seeds)
}

fn fuzz_with(fuzzer: ScheduleFuzzer, seeds: u64) -> Option<String> {
    for seed in 0..seeds {
        match fuzzer.run(seed).expect("it can be run") {
            Outcome::Failed(failure) => return Some(format!("seed {seed}: {failure}")),
            Outcome::Passed { unordered: 0 } | Outcome::StepLimit => {}
            Outcome::Passed { unordered } => return Some(format!("seed {seed}: {unordered} unordered accesses")),
        }
    }
    None
}

#[test]
fn accepted_small_plans_pass() {
    expect_pass(Script::random, "MSCCLPP_SCRIPTS", 400);
}

#[test]
fn accepted_plans_whose_blocks_share_channels_pass() {
    let accepted = expect_pass(Script::alternating, "MSCCLPP_TURNS", 150);
    assert!(accepted.iter().filter(|script| script.shares_channels()).count() > 20, "they share nothing");
}

/// Fuzzes the accepted plans of some scripts, and returns those scripts.
fn expect_pass(make: impl Fn(&mut Random) -> Script, scripts: &str, default: u64) -> Vec<Script> {
    let (mut accepted, mut broken) = (Vec::new(), Vec::new());
    let first = number("MSCCLPP_FIRST", 0);
    let scripts = number(scripts, default);
    for script in first..first + scripts {
        let script = make(&mut Random(script));
        let plan = script.plan();
        if !check(&plan).is_empty() {
            continue;
        }
        if fuzz(&plan, seeds(8)).is_none() {
            accepted.push(script);
            continue;
        }
        let small = script.shrink(|plan| check(plan).is_empty() && fuzz(plan, seeds(8).max(60)).is_some());
        let how = fuzz(&small.plan(), 1000);
        broken.push(format!("{:?}: {how:?}", small.texts));
        if broken.len() as u64 == number("MSCCLPP_BROKEN", 5) {
            break;
        }
    }
    let shared = accepted.iter().filter(|script| script.shares_channels()).count();
    println!("{} of {scripts} accepted, {shared} of them with channels that several blocks use", accepted.len());
    assert!(broken.is_empty(), "{} accepted plans\n{}", broken.len(), broken.join("\n"));
    accepted
}

#[test]
fn plans_that_need_no_barrier_pass_without() {
    let facts = |facts: LaunchBoundaries| facts.can_start_without_barrier && facts.can_end_without_barrier;
    expect_pass_without("MSCCLPP_SCRIPTS", facts, |plan| ScheduleFuzzer::new(plan).without_barriers());
}

#[test]
fn plans_whose_sizes_may_follow_pass_without_synchronization() {
    let facts = |facts: LaunchBoundaries| facts.can_start_without_barrier && facts.sizes_may_follow;
    expect_pass_without("MSCCLPP_SIZES", facts, |plan| ScheduleFuzzer::new(plan).launches(4).sizes_follow());
}

#[test]
fn plans_that_can_free_scratch_without_barrier_pass() {
    let needs_none = |facts: LaunchBoundaries| facts.can_start_without_barrier && facts.can_end_without_barrier;
    let facts = |facts: LaunchBoundaries| needs_none(facts) && facts.can_free_without_barrier;
    expect_pass_without("MSCCLPP_FREES", facts, |plan| ScheduleFuzzer::new(plan).without_barriers().frees_scratch());
}

/// Fuzzes accepted scripts without the synchronization that they do not need.
fn expect_pass_without(
    scripts: &str,
    says: impl Fn(LaunchBoundaries) -> bool,
    fuzzer: impl for<'p> Fn(&'p PlanTree) -> ScheduleFuzzer<'p>,
) {
    let (mut accepted, mut free, mut broken_else, mut broken) = (0, 0, 0, Vec::new());
    let first = number("MSCCLPP_FIRST", 0);
    let scripts = number(scripts, 400);
    for script in first..first + scripts {
        let script = Script::random(&mut Random(script));
        let plan = script.plan();
        if !check(&plan).is_empty() {
            continue;
        }
        accepted += 1;
        let is_free = |plan: &PlanTree| check(plan).is_empty() && says(launch_boundaries(plan));
        let fuzz = |plan: &PlanTree, seeds: u64| fuzz_with(fuzzer(plan), seeds);
        match (is_free(&plan), fuzz(&plan, seeds(8))) {
            (true, None) => free += 1,
            (true, Some(_)) => {
                let small = script.shrink(|plan| is_free(plan) && fuzz(plan, seeds(8).max(60)).is_some());
                broken.push(format!("{:?}: {:?}", small.texts, fuzz(&small.plan(), 1000)));
            }
            (false, how) => broken_else += u64::from(how.is_some()),
        }
    }
    println!("{accepted} of {scripts} accepted, {free} do not need it; {broken_else} others break without");
    assert!(broken.is_empty(), "{} of {accepted} accepted plans\n{}", broken.len(), broken.join("\n"));
    assert!(free > 0 && broken_else > 0);
}
