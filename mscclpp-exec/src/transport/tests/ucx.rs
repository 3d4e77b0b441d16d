//! The contract, on UCX. `scripts/ucx.sh` runs these tests with several of its transports.

use super::*;

/// Engines over UCX that agree on it, whose connection is set up.
fn ucx(keys: [Option<StreamKeys>; 2]) -> Pair {
    let engine = || -> Box<dyn Transport<Vec<u8>>> { Box::new(Ucx::new(true).expect("a UCX, see scripts/ucx-env.sh")) };
    let mut pair = open([engine(), engine()], keys);
    for from in [0, 1] {
        let (sender, receiver) = (from, 1 - from);
        pair[sender].signal(receiver as u32, id(0), Signal::Call);
        let mut is_received = false;
        while !is_received || (0..2).any(|rank| !pair[rank].is_flushed(1 - rank as u32)) {
            pair[sender].progress();
            pair[receiver].progress();
            is_received |= matches!(pair[receiver].receive(sender as u32, 0, &mut |_| None), Ok(Received::Message(..)));
        }
    }
    pair
}

fn plain_ucx() -> Pair {
    ucx([None, None])
}

fn authenticated_ucx() -> Pair {
    ucx(StreamKeys::pair().expect("random numbers").map(Some))
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_keeps_the_order() {
    check_order(plain_ucx(), "UCX").unwrap();
    check_order(authenticated_ucx(), "authenticated UCX").unwrap();
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_keeps_messages_of_later_launches_and_without_buffer() {
    check_stay(plain_ucx());
    check_stay(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_reports_a_closed_connection_after_its_last_message() {
    check_last(plain_ucx());
    check_last(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_delivers_no_message_after_part_of_another_one() {
    check_close(plain_ucx());
    check_close(authenticated_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_frees_sources_for_a_lost_peer() {
    check_lost(plain_ucx());
}

#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_report_names_the_library() {
    let report = crate::try_ucx().expect("a UCX, see scripts/ucx-env.sh");
    assert!(report.library.starts_with("UCX 1."), "{report:?}");
}

/// Pairs that may use UCX, or of which only one has it.
#[test]
#[ignore = "needs UCX, see scripts/ucx.sh"]
fn ucx_and_tcp_agree() {
    for [zero, one] in [[true, true], [true, false], [false, true], [false, false]] {
        let engine = |has_ucx: bool| -> Box<dyn Transport<Vec<u8>>> {
            Box::new(if has_ucx { Ucx::new(false).expect("an engine") } else { Ucx::without_library() })
        };
        for keys in [[None, None], StreamKeys::pair().expect("random numbers").map(Some)] {
            check_order(open([engine(zero), engine(one)], keys), &format!("UCX {zero}, {one}")).unwrap();
        }
    }
}

#[test]
fn engines_without_ucx_use_tcp() {
    let engine = || -> Box<dyn Transport<Vec<u8>>> { Box::new(Ucx::without_library()) };
    check_order(open([engine(), engine()], [None, None]), "no UCX").unwrap();
}
