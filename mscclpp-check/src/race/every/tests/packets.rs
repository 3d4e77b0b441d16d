//! Packets that are written at once and read window by window, and the reverse.

use super::random::brute_force;
use super::{found, plan};
use mscclpp_plan::diag::Code;

/// Both ranks have this block, and scratch is doubled.
fn codes(block: &str) -> (Option<Option<(u64, String)>>, Vec<Code>) {
    let mut plan = plan(&[&[block], &[block]]);
    plan.double_scratch = true;
    (brute_force(&plan, 26), found(&plan).into_iter().map(|(code, _)| code).collect())
}

#[track_caller]
fn right(block: &str) {
    assert_eq!(codes(block), (Some(None), Vec::new()));
}

#[track_caller]
fn wrong(block: &str, code: Code) {
    let (seen, codes) = codes(block);
    assert!(seen.flatten().is_some());
    assert_eq!(codes, [code; 2]);
}

const PUT: &str = "put.m i4 > r2:4 }; nop; signal.m#1; wait.m#1";

#[test]
fn packets_written_at_once_order_readers_of_windows() {
    right(&format!("ppkt.m i0 > r0:0; loop 64x1 {{ upkt s0 > o0; nop; {PUT}"));
    right(&format!("ppkt.m i0+3 > r0:0+3; loop 64x1 {{ upkt s1 > o1; nop; {PUT}"));
    right(&format!("ppkt.m i0+3 > r0:0+3; loop 128x2 {{ upkt s1+2 > o1+2 }}; nop; loop 64x1 {{ {PUT}"));
    // An earlier read orders it.
    right("upkt s0 > o0; loop 64x1 { upkt s1 > o1 }".replace("upkt s0", "ppkt.m i0+2 > r0:0+2; upkt s0").as_str());
    // The reverse.
    right(&format!("loop 64x1 {{ ppkt.m i0 > r0:0 }}; upkt s0 > o0; nop; loop 64x1 {{ {PUT}"));
}

#[test]
fn packets_written_in_parts_order_less_for_readers_of_windows() {
    // Nothing is read before the put.
    wrong(&format!("ppkt.m i0 > r0:0; loop 64x1 {{ {PUT}; upkt s0 > o0"), Code::EarlyAccess);
    // Windows of the rank's own packets are first, at three iterations in all of a window.
    let put = PUT.replace("i4 > r2:4", "i4+3 > r2:4+3");
    wrong(&format!("cpkt i0 > s0; ppkt.m i0+2 > r0:1+2; loop 96x3 {{ upkt s0+3 > o0+3; nop; {put}"), Code::EarlyAccess);
    // The second member has nothing of the smallest chunk.
    wrong(&format!("ppkt.m i0 > r0:0; loop 64x1 {{ upkt/1:2 s0 > o0; nop; {PUT}"), Code::EarlyAccess);
}

/// Readers of packets acquire the order of the writer's earlier accesses, not their visibility.
#[test]
fn packets_written_at_once_make_nothing_else_visible() {
    let block = "put.m i4 > r0:4; nop; ppkt.m i0 > r0:0; loop 64x1 { upkt s0 > o0; nop }; copy s4 > o4";
    let (seen, codes) = codes(block);
    assert!(seen.flatten().is_some());
    assert!(!codes.is_empty());
}
