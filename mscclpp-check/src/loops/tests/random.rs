//! Random programs, compared with executions at every size.
#![allow(clippy::disallowed_methods, reason = "variables set how many programs there are")]

use super::super::proof::{Proof, prove};
use super::brute::Brute;
use super::{programs, rolled};
use crate::pairing::{self, Pairs};

/// Number of programs, unless the environment sets another.
const PROGRAMS: u64 = 2000;

/// Random programs: the proof agrees with executions at every size, the smallest size included.
#[test]
fn proof_of_random_programs_agrees_with_execution_at_every_size() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let programs = number("MSCCLPP_LOOP_PROGRAMS").unwrap_or(PROGRAMS);
    let seed = number("MSCCLPP_LOOP_SEED").unwrap_or(1);
    let mut verdicts = [0_u64; 4];
    let mut undecided = Vec::new();
    let (mut most_runs, mut most_steps) = ((0, 0), (0, 0));
    for seed in seed..seed + programs {
        let (plan, trips) = programs::random(seed);
        assert!(pairing::check((&plan).into(), &Pairs::of(&plan)).is_empty(), "seed {seed}");
        let Some(rolled) = rolled(&plan) else {
            verdicts[3] += 1;
            continue;
        };
        let proof = prove(&rolled);
        // The smallest sizes at which combinations of trip counts occur.
        let sizes = (0..).map(|number| rolled.trips.size(number) * rolled.sizes.grain);
        let brute = Brute::of(&plan);
        let mut tried = sizes.take_while(|size| brute.most_trips(*size) <= trips);
        let stuck = tried.position(|size| brute.is_stuck(size)).map(|number| number as u64);
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
                let size = rolled.trips.size(number) * rolled.sizes.grain;
                let beyond = stuck.is_none() && brute.most_trips(size) > trips && brute.is_stuck(size);
                assert!(stuck == Some(number) || beyond, "seed {seed}: {number}, {stuck:?}\n{}", text());
            }
            Proof::Undecided { number } => {
                verdicts[2] += 1;
                assert!(stuck.is_none_or(|stuck| stuck >= number), "seed {seed}: {number}, {stuck:?}\n{}", text());
                println!("seed {seed} is not decided from {number} on\n{}", text());
                undecided.push(seed);
            }
        }
    }
    println!("{verdicts:?} most runs {most_runs:?} most steps {most_steps:?} undecided {undecided:?}");
    assert!(undecided.len() as u64 * 1000 <= programs, "{} of {programs} undecided: {undecided:?}", undecided.len());
    assert!(verdicts[0] * 10 > programs && verdicts[1] * 100 > programs, "the programs are all alike: {verdicts:?}");
}
