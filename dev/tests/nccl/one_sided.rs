//! One-sided calls, and addresses of windows.

use crate::clients::{SHORT_TIMEOUT, Test, all_ok, run};
use crate::exchanges::reports;

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("data_and_signals_of_one_side_arrive", || one_sided(2, &[])),
        ("data_and_signals_of_four_ranks_arrive", || one_sided(4, &[])),
        ("windows_have_multicast_addresses_where_devices_have_them", || {
            one_sided(2, &[("MSCCLPP_MOCK_MULTICAST", "8")])
        }),
        ("wait_for_signals_of_a_rank_that_is_lost_ends", || {
            reports(&run("one_sided", 2, &["lost"], &SHORT_TIMEOUT)?, &[0], 6)
        }),
    ]
}

fn one_sided(ranks: usize, variables: &[(&str, &str)]) -> Result<(), String> {
    all_ok(&run("one_sided", ranks, &[], variables)?)
}
