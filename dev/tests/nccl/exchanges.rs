//! Sends and receives in the orders that NCCL allows.

use std::process::Output;

use crate::clients::{SHORT_TIMEOUT, SHORT_WAIT, Test, all_ok, run, text};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("two_ranks_that_send_first_receive_afterwards", || exchange("sends_first", 2)),
        ("four_ranks_that_send_first_receive_afterwards", || exchange("sends_first", 4)),
        ("long_transfers_of_two_streams_are_made_in_any_order", || exchange("two_streams", 2)),
        ("group_of_one_rank_meets_single_calls_of_the_other", || exchange("group_and_alone", 2)),
        ("group_of_one_rank_meets_single_long_calls_of_the_other", || exchange("long_group_and_alone", 2)),
        ("transfers_of_a_rank_with_itself_are_matched_in_a_group", || exchange("itself", 2)),
        ("random_orders_of_transfers_are_right", random_orders),
        ("sends_that_wait_for_each_other_are_a_timeout", || failure("deadlock", &[0, 1], 8)),
        ("transfers_of_different_lengths_name_both_functions", different_lengths),
        ("receive_from_a_rank_that_is_lost_ends", || failure("lost", &[0], 6)),
    ]
}

fn exchange(name: &str, ranks: usize) -> Result<(), String> {
    all_ok(&run("exchanges", ranks, &[name], &[("MSCCLPP_TIMEOUT", "60"), SHORT_WAIT])?)
}

fn random_orders() -> Result<(), String> {
    let day = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs() / 86_400);
    for (seed, ranks) in [(day, 2), (day + 1, 3), (day + 2, 4)] {
        println!("seed {seed} of random transfers of {ranks} ranks");
        all_ok(&run("exchanges", ranks, &["random", &seed.to_string()], &[("MSCCLPP_TIMEOUT", "60"), SHORT_WAIT])?)?;
    }
    Ok(())
}

fn different_lengths() -> Result<(), String> {
    let outputs = run("exchanges", 2, &["different"], &[("MSCCLPP_TIMEOUT", "20"), SHORT_WAIT])?;
    reports(&outputs, &[0, 1], 5)?;
    let names = |output: &Output| {
        ["calls transfer of ", "at ncclSend", "at ncclRecv"].iter().all(|name| text(output).contains(name))
    };
    // A failure that is found later has the direction of the transfer too.
    let directions = ["send of rank 0 with rank 1", "recv of rank 1 with rank 0"];
    let has_directions = outputs.iter().zip(directions).all(|(output, direction)| text(output).contains(direction));
    if has_directions && outputs.iter().all(names) { Ok(()) } else { Err(outputs.iter().map(text).collect()) }
}

/// Some ranks learn of a failure, and their streams continue.
fn failure(name: &str, ranks: &[usize], code: u32) -> Result<(), String> {
    let variables = [&SHORT_TIMEOUT[..], &[SHORT_WAIT]].concat();
    reports(&run("exchanges", 2, &[name], &variables)?, ranks, code)
}

/// Checks that some ranks have printed a failure with a code, and succeeded.
pub(crate) fn reports(outputs: &[Output], ranks: &[usize], code: u32) -> Result<(), String> {
    for &rank in ranks {
        let text = text(&outputs[rank]);
        let is_reported = text.lines().any(|line| line.starts_with(&format!("rank {rank}: code {code}: ")));
        if !outputs[rank].status.success() || !is_reported {
            return Err(format!("expected code {code} on rank {rank}, found:\n{text}"));
        }
    }
    Ok(())
}
