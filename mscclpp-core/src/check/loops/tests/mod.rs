//! Loops for every size, held against runs of single sizes.

mod brute;
mod programs;

use super::proof::{Proof, prove};
use super::rolled::Rolled;
use crate::check::pairing::{self, Pairs};
use crate::plan::PlanTree;

/// The proof about a plan, and what it is about; `None` where there is nothing to prove.
fn proof(plan: &PlanTree) -> Option<(Proof, Vec<u64>)> {
    let pairs = Pairs::of(plan);
    let rolled = Rolled::of(plan.into(), &pairs).unwrap_or_else(|obstacle| panic!("{}", obstacle.message))?;
    // The sizes at which combinations of trip counts come up first.
    let sizes = (0..2000).map(|number| rolled.trips.size(number) * rolled.sizes.grain).collect();
    Some((prove(&rolled), sizes))
}

/// Programs that are tried, unless the environment says how many.
const PROGRAMS: u64 = 3000;

/// Random programs: the proof says of all of them what running them at every size says, the smallest size included.
#[test]
fn random_programs_are_judged_as_by_running_every_size() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let programs = number("MSCCLPP_LOOP_PROGRAMS").unwrap_or(PROGRAMS);
    let seed = number("MSCCLPP_LOOP_SEED").unwrap_or(1);
    let mut verdicts = [0_u64; 4];
    let mut undecided = Vec::new();
    let (mut most_runs, mut most_steps) = ((0, 0), (0, 0));
    for seed in seed..seed + programs {
        let (plan, trips) = programs::random(seed);
        assert!(pairing::check((&plan).into(), &Pairs::of(&plan)).is_empty(), "seed {seed}");
        let Some((proof, sizes)) = proof(&plan) else {
            verdicts[3] += 1;
            continue;
        };
        let brute = sizes.iter().take_while(|size| brute::most_trips(&plan, **size) <= trips);
        let stuck = brute.clone().position(|&size| brute::is_stuck(&plan, size)).map(|number| number as u64);
        let text = || programs::text(&plan);
        match proof {
            Proof::Completes(effort) => {
                verdicts[0] += 1;
                most_runs = most_runs.max((effort.runs, seed));
                most_steps = most_steps.max((effort.steps, seed));
                assert_eq!(stuck, None, "seed {seed}\n{}", text());
            }
            Proof::Deadlock { number, .. } => {
                verdicts[1] += 1;
                let beyond =
                    stuck.is_none() && number >= brute.count() as u64 && brute::is_stuck(&plan, sizes[number as usize]);
                assert!(stuck == Some(number) || beyond, "seed {seed}: {number}, {stuck:?}\n{}", text());
            }
            Proof::Undecided { number } => {
                verdicts[2] += 1;
                assert!(stuck.is_none_or(|stuck| stuck >= number), "seed {seed}: {number}, {stuck:?}\n{}", text());
                undecided.push(seed);
            }
        }
    }
    println!("{verdicts:?} most runs {most_runs:?} most steps {most_steps:?} undecided {undecided:?}");
    assert!(undecided.len() as u64 * 1000 <= programs, "{} of {programs} undecided: {undecided:?}", undecided.len());
    assert!(verdicts[0] * 10 > programs && verdicts[1] * 100 > programs, "the programs are all alike: {verdicts:?}");
}
