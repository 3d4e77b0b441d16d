//! All ranks name the same root cause, whatever call a fault happens in: ranks that are threads. The same with processes, which
//! can be killed and suspended, is in `faults`. Nothing of the failed communicators remains.

use std::thread;
use std::time::Duration;

use mscclpp_bootstrap::Options;
use mscclpp_communicator::Communicator;
use mscclpp_exec::Error;

use crate::fault_case::{Case, Fault};
use crate::resources::Resources;
use crate::{alone, rounds};

/// Longer than any rank takes to arrive, however busy the machine is.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Number of cases that run at once: most of them wait.
const AT_ONCE: usize = 8;

/// Returns the ranks of a job; `part`: of a communicator that some of them form, with other numbers.
fn ranks(num_ranks: u32, part: bool) -> Vec<Communicator> {
    let job =
        |num_ranks| Communicator::local_with_options(num_ranks, Options::default().timeout(TIMEOUT)).expect("ranks");
    if !part {
        return job(num_ranks);
    }
    let members: Vec<u32> = (1..=num_ranks).rev().collect();
    let of = |comm: Communicator| comm.subgroup(&members).expect("all ranks call it");
    let mut part: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = job(num_ranks + 1).into_iter().map(|comm| scope.spawn(|| of(comm))).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    });
    part.sort_by_key(Communicator::rank);
    part
}

fn check(seed: u64) {
    let case = Case::new(seed, &Fault::OF_THREADS);
    let context = || format!("MSCCLPP_CAUSE_SEED={seed}: {case:?}");
    let ranks = ranks(case.ranks, seed.is_multiple_of(3));
    let errors: Vec<Option<Error>> = thread::scope(|scope| {
        let case = &case;
        let run = |comm| scope.spawn(move || case.run(&comm, |_| unreachable!("only processes strike")));
        let threads: Vec<_> = ranks.into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panic!("{}", context()))).collect()
    });
    let mut causes = Vec::new();
    for (rank, error) in errors.iter().enumerate() {
        match error {
            None => assert!(case.fault == Fault::Leaves && rank as u32 == case.victim, "{}", context()),
            Some(error) => {
                let cause = error.root_cause().unwrap_or_else(|| panic!("{}, rank {rank}: {error}", context()));
                assert_eq!(cause.rank, case.victim, "{}, rank {rank}: {error}", context());
                case.check_text(&cause.to_string());
                causes.push((rank, cause));
            }
        }
    }
    for (rank, cause) in &causes {
        assert_eq!(cause, &causes[0].1, "{}: rank {rank} and rank {} differ", context(), causes[0].0);
    }
}

#[test]
fn all_ranks_name_the_same_root_cause() {
    let _alone = alone();
    // The first rounds decode plans, and threads get memory of their own that the allocator retains.
    rounds::each(0, 48, AT_ONCE, check);
    let before = Resources::now();
    rounds::run("CAUSE", rounds::fresh_seed(), 120, AT_ONCE, check);
    before.check(64 << 20, "all rounds");
}
