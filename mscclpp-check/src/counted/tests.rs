//! Findings about plans whose sizes are counts, with positions of the plan.

use mscclpp_plan::diag::{Code, Site};
use mscclpp_plan::raw::{OpKind, PlanTree};
use mscclpp_plan::types::ChannelKind;
use mscclpp_plan::{Format, Plan};

use super::at_full_counts;
use crate::{LoadPlan, check, launch_boundaries};

/// Two ranks read what the other one has for them. Rank 1 has a second channel.
const PULL: &str = "plan pull\ncollective alltoallv\nranks 2\n\
    rank 0 (input 2, output 2, scratch 0) {\n  channels memory 1\n  block 0:\n    counts\n    \
    getv memory output[1] <- rank 1 input[0] count 1 -> 0\n    copyv output[0] <- input[0] count 0 -> 0\n    nop\n    \
    rlxsignal memory rank 1\n    rlxwait memory rank 1\n}\n\
    rank 1 (input 2, output 2, scratch 0) {\n  channels memory 0, 0\n  block 0:\n    counts\n    \
    getv memory output[0] <- rank 0 input[1] count 0 -> 1\n    copyv output[1] <- input[1] count 1 -> 1\n    nop\n    \
    rlxsignal memory rank 0\n    rlxwait memory rank 0\n}\n";

fn read(text: &str) -> PlanTree {
    PlanTree::read(text.as_bytes(), Default::default()).expect("a plan").0
}

#[test]
fn plan_with_counts_is_accepted_in_all_forms() {
    let plan = Plan::new(&read(PULL));
    for file in Format::ALL.map(|format| plan.to_bytes(format)) {
        assert_eq!(Plan::load(&file).expect("a right plan"), plan);
    }
}

#[test]
fn findings_at_full_counts_have_positions_of_the_plan() {
    // Rank 1 returns before its input was read.
    let found = check(&read(&PULL.replace("    rlxwait memory rank 0\n", "")));
    let finding = found.iter().next().expect("a finding");
    assert_eq!(finding.code, Code::UnmatchedWait, "{found}");
    let Site::Path(path) = &finding.site else { panic!("{:?}", finding.site) };
    assert_eq!(path, "rank 0 / thread block 0 / operation 4 (rlxsignal)");
    // Rank 0 tells that it has read before it has.
    let early = "    rlxsignal memory rank 1\n    getv memory output[1] <- rank 1 input[0] count 1 -> 0\n";
    let text = PULL.replace("    nop\n    rlxsignal memory rank 1\n", "    nop\n");
    let text = text.replace("    getv memory output[1] <- rank 1 input[0] count 1 -> 0\n", early);
    let found = check(&read(&text));
    assert!(found.iter().all(|finding| finding.code == Code::LateAccess), "{found}");
    let text = found.to_string();
    assert!(text.contains("rank 0 / thread block 0 / operation 2 (getv)"), "{text}");
}

#[test]
fn exchange_uses_channels_that_nothing_else_uses() {
    let full = at_full_counts(&read(PULL));
    assert_eq!(full.ranks[0].peers(ChannelKind::Memory), [1, 1, 1]);
    assert_eq!(full.ranks[1].peers(ChannelKind::Memory), [0, 0, 0]);
    for rank in &full.ranks {
        let [signal, wait, sync, ..] = &rank.blocks[0].ops[..] else { panic!("{:?}", rank.blocks[0].ops) };
        let kinds = [signal.kind, wait.kind, sync.kind];
        assert_eq!(kinds, [OpKind::RelaxedSignal, OpKind::RelaxedWait, OpKind::Nop]);
        assert_eq!(rank.blocks[0].channels(ChannelKind::Memory)[signal.ids[0] as usize], 2);
    }
}

#[test]
fn launch_begins_when_counts_are_known_and_needs_no_barrier() {
    let boundaries = launch_boundaries(&read(PULL));
    assert!(boundaries.accesses_follow_begin && boundaries.can_end_without_barrier, "{boundaries:?}");
    let unchecked = launch_boundaries(&read(&PULL.replacen("    counts\n", "", 1)));
    assert!(!unchecked.accesses_follow_begin, "{unchecked:?}");
}
