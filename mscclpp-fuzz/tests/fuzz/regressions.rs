//! Defective plans that the checker once accepted, each with the cause.

use mscclpp_core::check::check;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::text;
use mscclpp_fuzz::ScheduleFuzzer;

use crate::testing;

/// A plan, and whether the checker rejects it now.
struct Regression {
    overlooked: &'static str,
    ranks: &'static [&'static [&'static str]],
    refused: bool,
    /// The initial value of semaphore 2.
    units: i64,
}

const REGRESSIONS: &[Regression] = &[
    Regression {
        overlooked: "two blocks push to one port channel in no order, so either put may come last",
        ranks: &[
            &[
                "rlxsignal.m#3; rlxwait.m#3; barrier#0=2; pwsf.p#0 i0 > r2:0; barrier#0=2; signal.m#3; wait.m#3",
                "barrier#0=2; pwsf.p#0 i1 > r2:0; barrier#0=2",
            ],
            &["rlxsignal.m#3; rlxwait.m#3; wait.p#0; wait.p#0; nop; signal.m#3; wait.m#3"],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a slot that gets two packets in one launch: the reader takes either",
        ranks: &[&["ppkt.m i0 > r0:4; ppkt.m i1 > r0:4; wait.m#3"], &["upkt s4 > o0; nop; signal.m#3"]],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "two blocks wait for signals of one channel: either may get the first one, and one of them must",
        ranks: &[&["wait.m#1", "wait.m#1; rlxsignal.m#2"], &["signal.m#1; rlxwait.m#2; signal.m#1"]],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "the same, the other way around",
        ranks: &[&["wait.m#1; rlxsignal.m#2", "wait.m#1"], &["signal.m#1; rlxwait.m#2; signal.m#1"]],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "two blocks acquire one semaphore: either may get the first unit, and one of them must",
        ranks: &[
            &["sem_acquire#0", "sem_acquire#0; sem_release#1", "sem_release#0; sem_acquire#1; sem_release#0"],
            &[""],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "the same, the other way around",
        ranks: &[
            &["sem_acquire#0; sem_release#1", "sem_acquire#0", "sem_release#0; sem_acquire#1; sem_release#0"],
            &[""],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "two threads of a block wait at one channel: the relaxed wait may get the signal that publishes",
        ranks: &[
            &["rlxsignal.m#0,1; nop; put.m i0 > r0:0; nop; signal.m#1; wait.m#3"],
            &["rlxwait.m#0,1; wait.m#1; nop; copy s0 > o0; nop; signal.m#3"],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a flush by another thread than the one that pushed, which may find nothing there yet",
        ranks: &[&["rlxwait.m#3; nop; pws.p#0 i0 > r2:0; flush.p#1,0"], &["rlxsignal.m#3; wait.p#0"]],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a flush by another block than the one that pushes, which may find nothing there yet",
        ranks: &[
            &["rlxwait.m#3; barrier#0=2; wait.m#1; flush.p#0", "barrier#0=2; pws.p#0 i0 > r2:0"],
            &["rlxsignal.m#3; barrier#0=2; barrier#1=2", "barrier#0=2; barrier#1=2; signal.m#1; wait.p#0"],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a port's signal by another thread than the one that pushed the put, and before it",
        ranks: &[
            &["rlxwait.m#3; nop; put.p#0,1 i0 i1 > r2:0 r2:1; signal.p#1,0; nop; flush.p#0,1"],
            &["rlxsignal.m#3; wait.p#0,1"],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a packet that is known to be over, but not visible, lands after the one that overwrites it",
        ranks: &[
            &["ppkt.m i0 > r0:0; nop; rlxsignal.m#0; wait.m#1"],
            &["rlxwait.m#0; nop; cpkt i1 > s0; nop; signal.m#1; upkt s0 > o0"],
        ],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "the second half of a chunk of 16 bytes is empty, and its packets order nobody",
        ranks: &[&["ppkt.m/1:2 i2 > r0:4; wait.p#0"], &["upkt/1:2 s4 > o2; nop; pwsf.p#0 i0 > r2:1"]],
        refused: true,
        units: 0,
    },
    Regression {
        overlooked: "a loop of one iteration, in which the semaphore's own unit suffices",
        ranks: &[
            &[
                "loop 64x1 { sem_acquire#2; nop; copy i0 > s3; nop; sem_release#3 }; copy/0:2 i1 > o0",
                "loop 64x1 { sem_acquire#3; nop; copy s3 > o0; nop; sem_release#2 }",
            ],
            &[""],
        ],
        refused: true,
        units: 1,
    },
    Regression {
        overlooked: "two loops of one iteration each, through the same window, for which the semaphore's own units suffice",
        ranks: &[
            &[
                "loop 64x1 { sem_acquire#2; nop; copy i0 > s3; nop; sem_release#3 }; \
                 loop 64x1 { sem_acquire#2; nop; copy i1 > s3; nop; sem_release#3 }",
                "loop 64x1 { sem_acquire#3; nop; copy s3 > o0; nop; sem_release#2 }; \
                 loop 64x1 { sem_acquire#3; nop; copy s3 > o1; nop; sem_release#2 }",
            ],
            &[""],
        ],
        refused: true,
        units: 2,
    },
];

#[test]
fn earlier_false_negatives_fail_and_are_rejected() {
    for Regression { overlooked, ranks, refused, units } in REGRESSIONS {
        let mut plan = testing::plan(ranks);
        plan.ranks.iter_mut().for_each(|rank| rank.semaphores[2] = *units);
        plan.protocol = mscclpp_core::types::Protocol::LL;
        let broken = ScheduleFuzzer::new(&plan).find_failure(0..400).expect("it can be run");
        let found = check(&plan);
        println!("{overlooked}: {broken:?}, {found}");
        assert!(broken.is_some(), "{overlooked}: the fuzzer does not break it");
        assert!(!found.is_empty() || !refused, "{overlooked}: accepted");
    }
}

/// Rank 0 unpacks two chunks of packets, and its port sends the first one back; `SPLIT` is where another block may begin.
const RETURNED: &str = "plan returned
collective custom 2 -> 2
ranks 2
protocol LL
double_scratch
expect rank 0 output[0..2] = rank 1 input[0..2]
expect rank 1 output[0] = rank 1 input[0]
rank 0 (input 2, output 2, scratch 2) {
  block 0:
    upkt output[0] <- scratch[0]
SPLIT
    upkt output[1] <- scratch[1]
    nop
    ppkt port rank 1 scratch[0] <- scratch[0] via rank 1
}
rank 1 (input 2, output 2, scratch 1) {
  block 0:
    ppkt memory rank 0 scratch[0] <- input[0]
    ppkt memory rank 0 scratch[1] <- input[1]
    upkt output[0] <- scratch[0]
}
";

#[test]
fn packets_that_an_unordered_block_has_found_are_not_sent() {
    let plan = |split: &str| text::parse(&RETURNED.replace("SPLIT", split)).expect("a plan");
    let one = plan("");
    assert!(check(&one).is_empty(), "{}", check(&one));
    assert_eq!(ScheduleFuzzer::new(&one).find_failure(0..200), Ok(None));
    let mut two = plan("  block 1:");
    for _ in 0..2 {
        let found = check(&two);
        assert!(found.iter().all(|finding| finding.code == Code::Race) && !found.is_empty(), "{found}");
        let broken = ScheduleFuzzer::new(&two).find_failure(0..400).expect("it can be run");
        assert!(broken.is_some(), "the fuzzer does not break it");
        two.ranks[0].blocks.swap(0, 1);
    }
}
