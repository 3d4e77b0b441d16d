//! The proof compared with brute force, on random programs.
#![allow(clippy::disallowed_methods, reason = "variables set how many programs there are")]

use std::fmt::Write;

use crate::model::{self, Model, Size};
use crate::pairing::{self, Pairs};
use crate::rates::Rate;
use crate::run::run;
use crate::testing::plan;
use crate::{check, shape};
use mscclpp_plan::origin::Origin;
use mscclpp_plan::raw::{Expectation, PlanTree};

/// A small random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below.max(1)
    }

    fn one_in(&mut self, chances: usize) -> bool {
        self.roll(chances) == 0
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.roll(list.len())].clone()
    }
}

#[derive(Clone, Debug)]
enum Item {
    Op(String),
    Loop(u64, u32, Vec<String>),
}

/// The blocks of both ranks.
#[derive(Clone, Debug, Default)]
struct Program {
    blocks: [Vec<Vec<Item>>; 2],
    /// Initial values of semaphores of rank 0.
    initial: [i64; 4],
    double_scratch: bool,
    /// Chunks that are moved from input to output of this rank: the first one and their number.
    result: (u32, u32),
}

impl Program {
    fn plan(&self) -> PlanTree {
        let text = |block: &Vec<Item>| {
            let mut text = Vec::new();
            for item in block {
                text.push(match item {
                    Item::Op(op) => op.clone(),
                    Item::Loop(unit, span, ops) => format!("loop {unit}x{span} {{ {} }}", ops.join("; ")),
                });
            }
            text.join("; ")
        };
        let texts = self.blocks.each_ref().map(|blocks| blocks.iter().map(text).collect::<Vec<_>>());
        let texts = texts.each_ref().map(|texts| texts.iter().map(String::as_str).collect::<Vec<_>>());
        let mut plan = plan(&[&texts[0], &texts[1]]);
        plan.ranks[0].semaphores.copy_from_slice(&self.initial);
        plan.double_scratch = self.double_scratch;
        let (rank, len) = self.result;
        for chunk in 0..len {
            let inputs = vec![(0, chunk)];
            plan.expectations.push(Expectation { rank, chunk, len: 1, inputs, origin: Origin::UNKNOWN });
        }
        plan
    }

    fn lists(&mut self) -> Vec<&mut Vec<Item>> {
        self.blocks.iter_mut().flatten().collect()
    }

    /// Applies a random change.
    fn mutate(&mut self, dice: &mut Dice) {
        let mut lists = self.lists();
        let number = dice.roll(lists.len());
        let block = &mut *lists[number];
        if block.is_empty() {
            return;
        }
        let at = dice.roll(block.len());
        match dice.roll(10) {
            // Remove, or copy.
            0 => drop(block.remove(at)),
            1 => block.insert(at, Item::Op("nop".into())),
            // Swap neighbors.
            2 if at + 1 < block.len() => block.swap(at, at + 1),
            3..=5 => {
                if let Item::Loop(_, _, ops) = &mut block[at]
                    && !ops.is_empty()
                {
                    let (i, j) = (dice.roll(ops.len()), dice.roll(ops.len()));
                    match dice.roll(3) {
                        0 => ops.swap(i, j),
                        1 => drop(ops.remove(i)),
                        _ => ops.insert(i, "nop".into()),
                    }
                }
            }
            // Split a loop in two, or merge two into one.
            6 => {
                if let Item::Loop(unit, span, ops) = block[at].clone() {
                    let cut = dice.roll(ops.len() + 1);
                    block[at] = Item::Loop(unit, span, ops[..cut].to_vec());
                    block.insert(at + 1, Item::Loop(unit, span, ops[cut..].to_vec()));
                }
            }
            7 if at + 1 < block.len() => {
                if let (Item::Loop(unit, span, ops), Item::Loop(_, _, more)) =
                    (block[at].clone(), block[at + 1].clone())
                {
                    block[at] = Item::Loop(unit, span, [ops, more].concat());
                    block.remove(at + 1);
                }
            }
            // A credit: released before and acquired after, or the reverse; by the same or another block.
            _ => {
                let counter = dice.roll(3);
                let (give, take) = (format!("sem_release#{counter}"), format!("sem_acquire#{counter}"));
                let other = dice.roll(lists.len());
                let place = |dice: &mut Dice, len: usize| if dice.one_in(2) { 0 } else { dice.roll(len + 1) };
                let from = place(dice, lists[number].len());
                lists[number].insert(from, Item::Op(give));
                let to = match dice.one_in(2) {
                    true => lists[other].len(),
                    false => place(dice, lists[other].len()),
                };
                lists[other].insert(to, Item::Op(take));
            }
        }
    }
}

/// Equal rates with different spans, and another rate.
const SHAPES: [(u64, u32); 5] = [(32, 1), (32, 1), (64, 2), (96, 3), (48, 1)];

/// Returns a chain of stages, each of which passes windows or whole buffers to the next.
fn program(dice: &mut Dice) -> Program {
    let mut program = Program::default();
    let usual = dice.pick(&SHAPES);
    let stages = 2 + dice.roll(2);
    let packets = dice.one_in(12);
    let whole_span = if dice.one_in(3) { 1 } else { dice.pick(&[1, 2, 3]) };
    let far = !packets && dice.one_in(4);
    program.result = (u32::from(far), whole_span);
    let mut before: Option<bool> = None;
    for stage in 0..stages {
        let last = stage + 1 == stages;
        // The last stage is at the other rank.
        let rank = usize::from(far && last);
        let from = if stage == 0 { "i0".to_owned() } else { format!("s{}", 3 * (stage - 1)) };
        let to = if last { "o0".to_owned() } else { format!("s{}", 3 * stage) };
        let puts = far && stage + 2 == stages;
        let (kind, to) = match (packets, stage, last) {
            _ if puts => ("put.m", format!("r0:{}", 3 * stage)),
            (true, 0, false) => ("cpkt", to),
            (true, _, true) if stages == 2 => ("upkt", to),
            _ => ("copy", to),
        };
        let shape = if dice.one_in(5) { dice.pick(&SHAPES) } else { usual };
        let in_loop = !dice.one_in(6);
        // Whether the next one receives window by window.
        let windows = in_loop && !dice.one_in(3);
        let members = if !far && dice.one_in(6) { 2 } else { 1 };
        let by_signal = |before: bool| far && before == last;
        let receive = if by_signal(true) { "wait.m#0".to_owned() } else { format!("sem_acquire#{}", stage.max(1) - 1) };
        let send = if puts { "signal.m#0".to_owned() } else { format!("sem_release#{stage}") };
        for member in 0..members {
            let mut block = Vec::new();
            if far && last {
                block.push(Item::Op("signal.m#1".into()));
            }
            if puts {
                block.extend([Item::Op("wait.m#1".into()), Item::Op("nop".into())]);
            }
            let mut ops = Vec::new();
            if let Some(windows_before) = before {
                match (in_loop, windows_before) {
                    (true, true) => ops.extend([receive.clone(), "nop".into()]),
                    (false, true) => {
                        block.extend([Item::Loop(usual.0, usual.1, vec![receive.clone()]), Item::Op("nop".into())])
                    }
                    (_, false) => block.extend([Item::Op(receive.clone()), Item::Op("nop".into())]),
                }
            }
            let size = |in_loop: bool| if in_loop { shape.1 } else { whole_span };
            let name = if members > 1 { format!("{kind}/{member}:2") } else { kind.to_owned() };
            let op = |size: u32, at: u32| {
                let place = |text: &str| {
                    let (name, number) = text.split_at(text.len() - 1);
                    format!("{name}{}+{size}", number.parse::<u32>().expect("a chunk") + at)
                };
                format!("{name} {} > {}", place(&from), place(&to))
            };
            let pieces = |size: u32| (0..whole_span.div_ceil(size)).map(move |piece| piece * size);
            if in_loop {
                pieces(size(true)).for_each(|at| ops.push(op(size(true), at)));
            } else {
                block.push(Item::Op(op(whole_span, 0)));
            }
            if !last && windows {
                ops.extend(["nop".into(), send.clone()]);
            }
            if in_loop {
                block.push(Item::Loop(shape.0, shape.1, ops));
            }
            if !last && !windows {
                block.extend([Item::Op("nop".into()), Item::Op(send.clone())]);
            }
            program.blocks[rank].push(block);
        }
        before = (!packets || stages > 2).then_some(windows);
    }
    if program.blocks[1].is_empty() {
        program.blocks[1].push(Vec::new());
    }
    // Windows ahead: credits of a semaphore, acquired before a stage and released after the next one.
    if dice.one_in(4) {
        let ahead = dice.pick(&[1, 2, 3, 5]);
        program.initial[3] = ahead;
        let all = &mut program.blocks[0];
        let many = all.len();
        if many >= 2 {
            for (number, op) in [(0, "sem_acquire#3"), (1, "sem_release#3")] {
                for item in &mut all[number] {
                    if let Item::Loop(_, _, ops) = item {
                        match number {
                            0 => ops.insert(0, op.into()),
                            _ => ops.extend(["nop".into(), op.into()]),
                        }
                    }
                }
            }
        }
    }
    for _ in 0..dice.roll(4) {
        program.mutate(dice);
    }
    program
}

/// Returns blocks with loops, signals and waits in pairs at random positions, and a few accesses.
fn soup(dice: &mut Dice) -> Program {
    let mut program = Program::default();
    let shapes = [dice.pick(&SHAPES), dice.pick(&SHAPES)];
    let (blocks, far) = (2 + dice.roll(2), dice.one_in(3));
    for block in 0..blocks {
        let mut items = Vec::new();
        for _ in 0..1 + dice.roll(3) {
            let (unit, span) = shapes[usize::from(dice.one_in(4))];
            items.push(Item::Loop(unit, span, Vec::new()));
        }
        program.blocks[usize::from(far && block + 1 == blocks)].push(items);
    }
    if program.blocks[1].is_empty() {
        program.blocks[1].push(Vec::new());
    }
    let lists: usize = program.blocks.iter().map(Vec::len).sum();
    // Inserts an operation on the given number of chunks into a loop of a shape, or outside of loops.
    let place = |program: &mut Program, dice: &mut Dice, list: usize, shape: Option<(u64, u32)>, ops: &[String]| {
        let mut lists = program.lists();
        let items = &mut *lists[list];
        let Some(shape) = shape else {
            let at = dice.roll(items.len() + 1);
            items.splice(at..at, ops.iter().cloned().map(Item::Op));
            return;
        };
        let fit: Vec<usize> =
            (0..items.len()).filter(|i| matches!(items[*i], Item::Loop(u, s, _) if (u, s) == shape)).collect();
        if fit.is_empty() {
            items.push(Item::Loop(shape.0, shape.1, ops.to_vec()));
            return;
        }
        if let Item::Loop(_, _, own) = &mut items[dice.pick(&fit)] {
            let at = dice.roll(own.len() + 1);
            own.splice(at..at, ops.iter().cloned());
        }
    };
    for counter in 0..1 + dice.roll(3) {
        let shape = if dice.one_in(3) { None } else { Some(shapes[usize::from(dice.one_in(4))]) };
        let (from, to) = (dice.roll(blocks), dice.roll(blocks));
        if dice.one_in(8) {
            for list in [from, to].into_iter().filter(|list| !far || list + 1 < blocks) {
                if list == from || from != to {
                    place(&mut program, dice, list, shape, &[format!("barrier#{counter}=2")]);
                }
            }
            continue;
        }
        let times = 1 + usize::from(dice.one_in(4));
        let is_far = |list: usize| far && list + 1 == blocks;
        let port = dice.one_in(4);
        let (signal, wait) = match (is_far(from), is_far(to)) {
            (false, false) | (true, true) => (format!("sem_release#{counter}"), format!("sem_acquire#{counter}")),
            _ if port => (format!("signal.p#{counter}"), format!("wait.p#{counter}")),
            _ if dice.one_in(5) => (format!("rlxsignal.m#{counter}"), format!("rlxwait.m#{counter}")),
            _ => (format!("signal.m#{counter}"), format!("wait.m#{counter}")),
        };
        for _ in 0..times {
            // If there are several, another block may signal one of them.
            let from = if dice.one_in(6) && is_far(from) == is_far(0) { 0 } else { from };
            place(&mut program, dice, from, shape, &["nop".into(), signal.clone()]);
        }
        match (times, dice.roll(3)) {
            (2, 0) => place(&mut program, dice, to, shape, &[format!("{wait},{counter}"), "nop".into()]),
            _ => (0..times).for_each(|_| place(&mut program, dice, to, shape, &[wait.clone(), "nop".into()])),
        }
        // Credits.
        if dice.one_in(3) {
            let (first, last) = if dice.one_in(2) { (from, to) } else { (to, from) };
            let (first_op, last_op) = if first == from { (signal, wait) } else { (wait, signal) };
            let mut lists = program.lists();
            for _ in 0..1 + dice.roll(3) {
                let at = if dice.one_in(3) { dice.roll(lists[first].len() + 1) } else { 0 };
                lists[first].insert(at, Item::Op(first_op.clone()));
                let at = if dice.one_in(3) { dice.roll(lists[last].len() + 1) } else { lists[last].len() };
                lists[last].insert(at, Item::Op(last_op.clone()));
            }
        }
        program.initial[counter] = if dice.one_in(5) { 1 + dice.roll(4) as i64 } else { 0 };
    }
    let start = dice.roll(2);
    let packets = dice.one_in(4);
    program.double_scratch = packets && dice.one_in(2);
    for _ in 0..2 + dice.roll(2) + usize::from(packets) {
        let list = dice.roll(lists.min(blocks));
        let shape = if dice.one_in(3) { None } else { Some(shapes[usize::from(dice.one_in(4))]) };
        let size = shape.map_or(1 + dice.roll(3) as u32, |shape| shape.1);
        let at = if dice.one_in(3) { dice.roll(3) } else { start };
        let slice = if dice.one_in(6) { format!("/{}:2", dice.roll(2)) } else { String::new() };
        let into = if dice.one_in(2) { "i0" } else { "o0" };
        let op = match dice.roll(7) {
            0 | 1 if packets => format!("cpkt{slice} i0+{size} > s{at}+{size}"),
            2 if packets => format!("repkt{slice} i0+{size} s{at}+{size} > {into}+{size}"),
            3 | 4 if packets => format!("upkt{slice} s{at}+{size} > {into}+{size}"),
            _ if packets => format!("ppkt.m{slice} i0+{size} > r0:{at}+{size}"),
            0 | 1 => format!("copy{slice} i0+{size} > s{at}+{size}"),
            2 | 3 => format!("copy{slice} s{at}+{size} > o{list}+{size}"),
            4 => format!("re{slice} s{at}+{size} i0+{size} > s{at}+{size}"),
            5 => format!("put.m{slice} i0+{size} > r0:{at}+{size}"),
            _ => format!("put.p#0{slice} i0+{size} > r0:{at}+{size}"),
        };
        place(&mut program, dice, list, shape, &[op]);
    }
    program
}

/// Returns two blocks of either rank that use one channel one after the other, in loops and outside, with barriers in
/// between.
fn turns(dice: &mut Dice) -> Program {
    let mut program = Program { blocks: [vec![Vec::new(); 2], vec![Vec::new(); 2]], ..Program::default() };
    let meet = |program: &mut Program, dice: &mut Dice| {
        for blocks in &mut program.blocks {
            if !dice.one_in(12) {
                blocks.iter_mut().for_each(|block| block.push(Item::Op("barrier#0=2".into())));
            }
        }
    };
    program.blocks[1][dice.roll(2)].push(Item::Op("rlxsignal.m#1".into()));
    program.blocks[0][dice.roll(2)].push(Item::Op("wait.m#1".into()));
    meet(&mut program, dice);
    let phases = 2 + dice.roll(3);
    program.result = (1, phases as u32);
    for phase in 0..phases {
        let (from, to) = (dice.roll(2), dice.roll(2));
        let shape = if dice.one_in(3) { None } else { Some(dice.pick(&[(32, 1), (64, 1), (48, 1), (32, 1)])) };
        let signal = if dice.one_in(8) { "rlxsignal.m#0" } else { "signal.m#0" };
        let mut sides = [
            vec![format!("put.m i{phase} > r0:{phase}"), "nop".into(), signal.into()],
            vec!["wait.m#0".into(), "nop".into(), format!("copy s{phase} > o{phase}")],
        ];
        // Signals for the next windows are first, or the other block uses what is waited for.
        match dice.roll(8) {
            0 => sides[0].rotate_left(2),
            1 => sides[1].rotate_right(1),
            _ => {}
        }
        let blocks = [from, to];
        for (side, ops) in sides.into_iter().enumerate() {
            let block = &mut program.blocks[side][blocks[side]];
            match shape {
                Some((unit, span)) => block.push(Item::Loop(unit, span, ops)),
                None => block.extend(ops.into_iter().map(Item::Op)),
            }
        }
        if dice.one_in(6) {
            program.blocks[1][1 - to].push(Item::Op(format!("copy s{phase} > o{phase}")));
        }
        meet(&mut program, dice);
    }
    for _ in 0..dice.roll(4) {
        program.mutate(dice);
    }
    program
}

/// Returns blocks that pass windows by a semaphore or a barrier, some of them an iteration ahead.
fn ahead(dice: &mut Dice) -> Program {
    let mut program = Program::default();
    let (blocks, shape) = (2 + dice.roll(2), dice.pick(&SHAPES));
    let barrier = dice.one_in(2).then(|| format!("barrier#0={blocks}"));
    let most = dice.roll(3);
    program.result = (0, 1);
    for block in 0..blocks {
        let before = dice.roll(most + 1);
        let last = block + 1 == blocks;
        let from = if block == 0 { "i0".to_owned() } else { format!("s{}", 3 * (block - 1)) };
        let to = if last { "o0".to_owned() } else { format!("s{}", 3 * block) };
        let other = if dice.one_in(8) { dice.pick(&SHAPES) } else { shape };
        let access = format!("copy {from}+{} > {to}+{}", other.1, other.1);
        let (take, give) = match &barrier {
            Some(barrier) => (Some(barrier.clone()), None),
            None => (
                (block > 0).then(|| format!("sem_acquire#{}", block - 1)),
                (!last).then(|| format!("sem_release#{block}")),
            ),
        };
        let (mut items, mut ops) = (Vec::new(), vec![access]);
        for op in take.iter().chain(&give) {
            let at = if Some(op) == give.as_ref() { ops.len() } else { dice.roll(ops.len() + 1) };
            ops.insert(at, op.clone());
        }
        for _ in 0..dice.roll(4) {
            ops.insert(dice.roll(ops.len() + 1), "nop".into());
        }
        // A unit that is acquired before the loop is released after the earlier loop.
        let wanted = |op: &Option<String>, times: usize| vec![Item::Op(op.clone().unwrap_or("nop".into())); times];
        items.extend(wanted(&take, before));
        if dice.one_in(2) {
            items.push(Item::Op("nop".into()));
        }
        items.push(Item::Loop(other.0, other.1, ops));
        items.extend(wanted(&take, most - before));
        items.extend(wanted(&give, most));
        if dice.one_in(4) {
            items.push(Item::Op(format!("copy {from} > o1")));
        }
        program.blocks[0].push(items);
    }
    program.blocks[1].push(Vec::new());
    for _ in 0..dice.roll(3) {
        program.mutate(dice);
    }
    program
}

/// Returns the smallest size with a mistake, up to the given number of iterations: units, iterations, mistake. All
/// sizes with few iterations are executed, and some of each larger number. `None` if the plan deadlocks at one of them.
pub(super) fn brute_force(plan: &PlanTree, trips: u64) -> Option<Option<(u64, String)>> {
    let pairs = Pairs::of(plan);
    let fastest = model::rates(plan.into()).into_iter().max_by(Rate::cmp_speed)?;
    let mut last = (0, 0);
    for units in 1..10_000 {
        let now = fastest.trips(16 * units) as u64;
        if now > trips {
            break;
        }
        last = if last.0 == now { (now, last.1 + 1) } else { (now, 0) };
        if now > 9 && (!now.is_multiple_of(5) || last.1 > 0) {
            continue;
        }
        let size = Size::real(plan.into(), units, 16)?;
        let verdict = run(std::iter::once(Model::of(plan.into(), &pairs, size)));
        let [deadlocks, rest @ ..] = verdict.in_order();
        if !deadlocks.is_empty() {
            return None;
        }
        let found = rest.into_iter().flatten().next();
        if let Some(found) = found {
            return Some(Some((units, format!("{now} iterations: {}", found.message))));
        }
    }
    Some(None)
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn brute_force_agrees() {
    let seed = number("MSCCLPP_LOOP_SEED", 0x5eed);
    let count = number("MSCCLPP_LOOP_PROGRAMS", 600);
    let trips = number("MSCCLPP_LOOP_TRIPS", 26);
    println!("MSCCLPP_LOOP_SEED={seed} MSCCLPP_LOOP_PROGRAMS={count} MSCCLPP_LOOP_TRIPS={trips}");
    let mut told = String::new();
    let (mut right, mut wrong, mut late, mut over, mut stuck) = ([0; 4], 0, 0, [0; 4], 0);
    for nth in 0..count {
        let mut dice = Dice((seed ^ (nth + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1);
        (0..4).for_each(|_| {
            dice.roll(2);
        });
        let program = match nth % 4 {
            0 => program(&mut dice),
            1 => soup(&mut dice),
            2 => turns(&mut dice),
            _ => ahead(&mut dice),
        };
        let plan = program.plan();
        let pairs = Pairs::of(&plan);
        let loops = !model::rates((&plan).into()).is_empty();
        if !loops || !shape::check((&plan).into()).is_empty() || !pairing::check((&plan).into(), &pairs).is_empty() {
            continue;
        }
        let found = check(&plan);
        let Some(seen) = brute_force(&plan, trips) else {
            stuck += 1;
            continue;
        };
        let first = found.iter().next().map(|found| found.message.clone());
        match (first, seen) {
            (None, None) => right[nth as usize % 4] += 1,
            (Some(_), Some((units, _))) => {
                wrong += 1;
                late += u64::from(units > 2);
            }
            (None, Some(seen)) => panic!("program {nth} is accepted: {seen:?}\n{program:#?}"),
            (Some(found), None) => {
                over[nth as usize % 4] += 1;
                if number("MSCCLPP_LOOP_TELL", 0) > 0 {
                    let _ = writeln!(told, "program {nth} is refused: {found}\n{program:?}\n");
                }
            }
        }
    }
    println!(
        "{told}right {right:?}, wrong {wrong} ({late} at more than two units), refused though right {over:?}, stuck {stuck}"
    );
    assert!(right.iter().all(|right| *right > 0) && wrong > 0);
}
