//! Device communicators, whose structures the clients use as kernels do.

use crate::clients::{Test, all_ok, ran, run};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("device_communicators_of_two_processes_are_right", || device_comm(2, &[])),
        ("device_communicators_of_four_processes_are_right", || device_comm(4, &[])),
        ("device_communicators_of_one_process_are_right", || ran(&run("device_comm", 1, &["one"], &[])?)),
        ("device_communicators_of_one_rank_are_right", || device_comm(1, &[])),
        ("device_communicators_of_ranks_that_share_a_device_are_right", || device_comm(2, &[("ONE_DEVICE", "1")])),
        ("device_communicators_of_several_nodes_are_refused", || all_ok(&run("device_comm", 2, &["nodes"], &[])?)),
        ("device_communicators_have_multicast_addresses_where_devices_have_them", || {
            device_comm(2, &[("MSCCLPP_MOCK_MULTICAST", "8")])
        }),
    ]
}

fn device_comm(ranks: usize, variables: &[(&str, &str)]) -> Result<(), String> {
    all_ok(&run("device_comm", ranks, &[], variables)?)
}
