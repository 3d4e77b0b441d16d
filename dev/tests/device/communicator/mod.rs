//! Calls of a communicator on device memory: ranks are threads with their own bootstraps on devices of one simulated host, or
//! each with its own host, or processes.

mod access;
mod captures;
mod cases;
mod channel_failures;
mod channel_nodes;
mod channels;
mod cover;
mod empty_calls;
mod experts;
mod failures;
mod first_captures;
mod frees;
mod kernels;
mod memory;
mod packets;
mod registrations;
mod row_norms;
mod switches;
mod transfer_failures;
mod transfers;

use std::thread;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use mscclpp_bootstrap as bootstrap;
use mscclpp_communicator::Communicator;
use mscclpp_core::types::ReduceOp;
use mscclpp_dev::{Options, machine, simulator};
use mscclpp_exec::Error;
use mscclpp_exec::cuda::Device;

use self::cases::{Home, every_case};
use super::devices::{seeds_of_case, with_seeds};
use super::processes::{Job, Player, machine_options};

/// Body of a rank.
trait Rank: Fn(&Communicator, &Device) -> Result<(), Failed> + Sync {}
impl<F: Fn(&Communicator, &Device) -> Result<(), Failed> + Sync> Rank for F {}

pub(crate) fn tests(seeds: std::ops::Range<u64>) -> Vec<Trial> {
    type Test = fn(u64) -> Result<(), Failed>;
    let tests: [(&str, Test); 93] = [
        ("hosts_in_one_domain", access::hosts_in_one_domain),
        ("hosts_in_two_domains", access::hosts_in_two_domains),
        ("domain_that_cannot_be_used", access::domain_that_cannot_be_used),
        ("devices_without_access_of_one_process", access::devices_without_access_of_one_process),
        ("devices_without_access_of_processes", access::devices_without_access_of_processes),
        ("pairs_of_devices_with_access", access::pairs_of_devices_with_access),
        ("kernels_gather_and_sum_by_channels", channels::gathered_and_summed),
        ("kernels_gather_and_sum_by_channels_on_separate_hosts", channels::on_separate_hosts),
        ("selected_kernels_serve_calls", kernels::selected_kernels_serve_calls),
        ("kernels_of_plans_are_compiled_meanwhile", kernels::kernels_of_plans_are_compiled_meanwhile),
        ("kernels_compiled_ahead_of_time_run_first_calls", kernels::kernels_compiled_ahead_of_time_run_first_calls),
        ("kernels_that_do_not_compile_are_reported", kernels::kernels_that_do_not_compile_are_reported),
        ("wait_of_kernel_without_signal_is_reported", channels::wait_without_signal_is_reported),
        ("different_channels_are_reported", channels::different_channels_are_reported),
        ("misuse_of_channels_is_rejected", channels::misuse_is_rejected),
        ("channels_gather_between_nodes", channel_nodes::gathered),
        ("request_of_channel_beyond_the_memory_is_reported", channel_nodes::request_beyond_the_memory_is_reported),
        ("channels_report_every_failed_call", channel_failures::every_call_fails_once),
        ("failed_call_of_a_peer_ends_waits_of_channels", channel_failures::failed_call_of_a_peer_ends_the_waits),
        ("rank_that_leaves_its_channels_is_reported", channel_failures::rank_that_leaves_is_reported),
        ("killed_process_with_channels_is_reported", channel_failures::killed_process_is_reported),
        ("calls_equal_those_on_slices", calls_equal_those_on_slices),
        ("calls_equal_those_on_slices_on_separate_hosts", calls_on_separate_hosts),
        ("calls_equal_those_on_slices_between_nodes", calls_between_nodes),
        ("registered_memory_is_freed_when_all_ranks_dropped_it", memory::registered_memory_is_freed),
        ("registered_call_copies_nothing", memory::registered_call_copies_nothing),
        ("input_that_a_plan_overwrites_is_copied", memory::input_that_a_plan_overwrites_is_copied),
        ("graphs_are_replayed_10_000_times", captures::graphs_are_replayed_10_000_times),
        ("three_communicators_on_64_streams", captures::three_communicators_on_64_streams),
        ("memory_of_callers_is_used_in_place", registrations::memory_of_callers_is_used_in_place),
        ("memory_that_cannot_be_shared_is_reported", registrations::memory_that_cannot_be_shared_is_reported),
        ("different_registrations_are_reported", registrations::different_registrations_are_reported),
        ("choices_have_all_pairs", cover::choices_have_all_pairs),
        ("rank_frees_while_another_waits", frees::rank_frees_while_another_waits),
        ("long_call_is_made_in_pieces", memory::long_call_is_made_in_pieces),
        ("packets_of_both_sizes_serve_calls", packets::packets_of_both_sizes_serve_calls),
        ("switches_serve_what_the_order_allows", switches::switches_serve_what_the_order_allows),
        ("launch_limits_hold_for_calls_of_a_communicator", memory::launch_limits_hold),
        ("stream_and_memory_of_another_device_are_rejected", memory::another_device_is_rejected),
        ("tensor_is_freed_after_its_calls", memory::tensor_is_freed_after_its_calls),
        ("invalid_arguments_are_rejected_before_launch", memory::invalid_arguments_are_rejected),
        ("three_communicators_on_interleaved_streams", captures::three_communicators_on_interleaved_streams),
        ("captured_calls_replay_between_eager_ones", captures::captured_calls_replay_between_eager_ones),
        (
            "rank_that_synchronizes_is_not_held_by_later_launches",
            captures::rank_that_synchronizes_is_not_held_by_later_launches,
        ),
        ("transfers_bring_what_was_sent", transfers::transfers_bring_what_was_sent),
        ("counts_without_room_are_reported_by_all_ranks", transfers::counts_without_room_are_reported_by_all_ranks),
        ("counts_on_registered_memory", transfers::counts_on_registered_memory),
        ("counts_are_exchanged_between_nodes", transfers::counts_are_exchanged_between_nodes),
        ("captured_calls_take_new_counts", transfers::captured_calls_take_new_counts),
        ("tokens_reach_their_experts_in_order", experts::tokens_reach_their_experts_in_order),
        ("random_routes_equal_a_computation_on_one_rank", experts::random_routes_equal_a_computation_on_one_rank),
        ("experts_are_on_several_nodes", experts::experts_are_on_several_nodes),
        ("rows_travel_with_their_scales", experts::rows_travel_with_their_scales),
        ("refused_tokens_are_reported_by_all_ranks", experts::refused_tokens_are_reported_by_all_ranks),
        ("captured_dispatches_take_new_choices", experts::captured_dispatches_take_new_choices),
        ("different_shapes_of_experts_are_reported", experts::different_shapes_are_reported),
        ("ranks_continue_with_the_experts_that_remain", experts::ranks_continue_without_one_that_left),
        ("rows_have_the_bits_of_calls_on_slices", row_norms::rows_have_the_bits_of_calls_on_slices),
        ("compiled_kernels_normalize_rows", row_norms::compiled_kernels_normalize_rows),
        ("captured_row_norms_replay", row_norms::captured_calls_replay),
        (
            "transformer_block_has_the_same_bits_as_with_row_norms_apart",
            row_norms::transformer_block_has_the_same_bits_fused_and_unfused,
        ),
        ("mistakes_of_row_norms_are_reported", row_norms::mistakes_are_reported),
        ("different_row_norms_of_ranks_are_reported", row_norms::different_norms_of_ranks_are_reported),
        ("a_rank_that_does_not_come_is_named", transfers::a_rank_that_does_not_come_is_named),
        ("calls_without_elements_are_compared", empty_calls::calls_without_elements_are_compared),
        (
            "calls_without_elements_are_compared_between_nodes",
            empty_calls::calls_without_elements_are_compared_between_nodes,
        ),
        ("transfers_of_different_lengths_are_reported", transfers::different_lengths_are_reported_by_both_ranks),
        ("prepared_transfers_create_no_events", transfers::prepared_transfers_create_no_events),
        ("both_ranks_may_send_first", transfers::both_ranks_may_send_first),
        ("receives_return_before_the_sender_calls", transfers::receives_return_before_the_sender_calls),
        ("memory_of_long_transfers_is_dropped_at_once", transfer_failures::memory_of_long_transfers_is_dropped_at_once),
        ("failed_waits_end_uses_of_memory", transfer_failures::failed_waits_end_uses_of_memory),
        ("failed_peer_ends_waits_for_transfers", transfer_failures::failed_peer_ends_waits_for_transfers),
        ("interrupted_first_transfer_ends", transfer_failures::interrupted_first_transfer_ends),
        (
            "failure_is_reported_while_another_thread_is_in_a_call",
            transfer_failures::failure_is_reported_while_another_thread_is_in_a_call,
        ),
        (
            "long_sends_that_wait_for_each_other_are_named",
            transfer_failures::long_sends_that_wait_for_each_other_are_named,
        ),
        (
            "transfers_share_no_queue_with_callers_and_proxies",
            transfer_failures::transfers_share_no_queue_with_callers_and_proxies,
        ),
        ("invalid_transfers_are_rejected", transfers::invalid_transfers_are_rejected),
        ("eager_calls_around_a_capture_keep_their_order", captures::eager_calls_around_a_capture_keep_their_order),
        ("first_calls_are_captured", first_captures::first_calls_are_captured),
        ("set_up_in_an_unsafe_mode_is_detected", first_captures::set_up_in_an_unsafe_mode_is_detected),
        ("one_rank_captures_what_others_call", first_captures::one_rank_captures_what_others_call),
        ("buffers_grow_in_later_captures", first_captures::buffers_grow_in_later_captures),
        ("first_transfers_are_captured", first_captures::first_transfers_are_captured),
        ("captured_sends_keep_their_order", first_captures::captured_sends_keep_their_order),
        ("algorithms_are_set_in_captures", first_captures::algorithms_are_set_in_captures),
        ("wait_in_capture_is_rejected", first_captures::wait_in_capture_is_rejected),
        ("different_call_is_reported_with_both_places", failures::different_call_is_reported),
        (
            "call_on_slices_against_one_on_devices_is_reported",
            failures::call_on_slices_against_one_on_devices_is_reported,
        ),
        ("different_offset_is_reported", failures::different_offset_is_reported),
        ("exchange_against_a_gather_is_reported", failures::exchange_against_a_gather_is_reported),
        ("rank_that_leaves_is_reported", failures::rank_that_leaves_is_reported),
        ("late_rank_is_reported_at_timeout_of_the_call", failures::late_rank_is_reported),
    ];
    // Pairs of properties, of which other seeds make other calls.
    let covers: [(&str, Test); 2] =
        [("cover_of_threads", cover::of_threads), ("cover_of_processes", cover::of_processes)];
    let tests = tests.into_iter().chain(covers).enumerate();
    let trial =
        |(number, (name, test))| with_seeds(format!("communicator::{name}"), seeds_of_case(&seeds, number), test);
    tests.map(trial).collect()
}

pub(crate) fn on_mock(seed: u64) -> Vec<Trial> {
    vec![
        Trial::test("mock::communicator::processes", move || Job::start("communicator", "mock", seed, 2, 2)?.succeed()),
        Trial::test("mock::communicator::counts_between_nodes", move || {
            Job::start("communicator_counts", "mock", seed, 4, 2)?.succeed()
        }),
        Trial::test("mock::communicator::devices_without_access", move || {
            access::in_processes("communicator_apart", "mock", seed)
        }),
        Trial::test("mock::communicator::pairs_of_devices_with_access", move || {
            access::in_processes("communicator_pairs", "mock", seed)
        }),
        Trial::test("mock::communicator::hosts_in_one_domain", move || {
            (seed..seed + 2).try_for_each(|seed| access::in_processes("communicator_domain", "mock", seed))
        }),
        Trial::test("mock::communicator::domain_that_cannot_be_used", move || {
            access::in_processes("communicator_domain_without_export", "mock", seed)?;
            access::in_processes("communicator_domain_without_import", "mock", seed)
        }),
        Trial::test("mock::communicator::captures_in_processes", move || {
            Job::start("communicator_captures", "mock", seed, 2, 2)?.succeed()
        }),
        Trial::test("mock::communicator::first_calls_are_captured", move || first_captures::on_mock(seed)),
        Trial::test("mock::communicator::memory_of_cudarc", move || memory::memory_of_cudarc(seed)),
        Trial::test("mock::communicator::killed_process_is_reported", move || {
            failures::killed_process_is_reported(seed)
        }),
    ]
}

/// The part of a process.
pub(crate) fn play(role: &str, player: &Player, comm: &Communicator) -> Result<(), Failed> {
    if access::is_role(role) {
        return access::play(role, comm, player);
    }
    if role == "communicator_channels_killed" {
        return channel_failures::play(comm, player.seed);
    }
    let (device, _rig) = player.device(machine_options(player.seed, comm.rank(), false))?;
    match role {
        "communicator" => work(comm, &device),
        "communicator_counts" => transfers::play_counts(comm, &device, player.seed),
        "communicator_experts" => experts::play(comm, &device, player.seed),
        "communicator_empty_calls" => empty_calls::play(comm, &device),
        "communicator_cover" => cover::play(comm, &device, player),
        "communicator_channels_of_nodes" => channel_nodes::play(comm, &device),
        "communicator_channels_beyond" => channel_nodes::play_beyond(comm, &device),
        "communicator_captures" => first_captures::replayed(comm, &device),
        _ => failures::play(comm, &device),
    }
}

fn group_options(timeout: u64) -> bootstrap::Options {
    bootstrap::Options::default().timeout(Duration::from_secs(timeout))
}

/// How long the first transfer of a size waits for the other rank on the host.
const FIRST_TRANSFER_WAIT: Duration = Duration::from_millis(20);

/// Runs ranks in threads on the devices of one host; rank r has device r modulo `devices`.
fn on_devices(seed: u64, ranks: u32, devices: u32, run: impl Rank) -> Result<(), Failed> {
    each_on(machine_options(seed, 0, false), ranks, devices, group_options(120), run).into_iter().collect()
}

/// Runs ranks in threads on the devices of one host, and returns the result of each.
fn each_on(
    options: Options,
    ranks: u32,
    devices: u32,
    group: bootstrap::Options,
    run: impl Rank,
) -> Vec<Result<(), Failed>> {
    // Kernels of one device run at once only on a host with several. They wait for those that other threads enqueue later.
    let all: Result<Vec<Device>, String> =
        machine(options, devices.max(2)).map(|all| all.into_iter().map(Device::with_driver).collect());
    in_threads(ranks, group, |rank| Ok(all.clone()?[(rank % devices) as usize].clone()), run)
}

/// Runs ranks in threads, and returns the result of each.
fn in_threads(
    ranks: u32,
    group: bootstrap::Options,
    device: impl Fn(u32) -> Result<Device, Failed> + Sync,
    run: impl Rank,
) -> Vec<Result<(), Failed>> {
    let comms = match Communicator::local_with_options(ranks, group) {
        Ok(comms) => comms,
        Err(error) => return vec![Err(error.into())],
    };
    thread::scope(|scope| {
        let rank = |comm: Communicator| {
            let (device, run) = (&device, &run);
            scope.spawn(move || {
                let device = device(comm.rank())?;
                let rank = comm.rank();
                // The ranks of some tests wait for each other before they make a transfer.
                comm.set_first_transfer_wait(FIRST_TRANSFER_WAIT);
                run(&comm, &device).map_err(|failed| super::at(format_args!("rank {rank}"), &failed))
            })
        };
        let threads: Vec<_> = comms.into_iter().map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".into()))).collect()
    })
}

/// A few calls of each kind.
fn work(comm: &Communicator, device: &Device) -> Result<(), Failed> {
    for home in [Home::Registered, Home::Own] {
        every_case::<f32>(comm, device, home, &[53], &[ReduceOp::Sum])?;
    }
    Ok(())
}

fn calls_equal_those_on_slices(seed: u64) -> Result<(), Failed> {
    let homes = [Home::Registered, Home::Own, Home::Raw];
    let home = |number: u64| homes[((seed + number) % 3) as usize];
    on_devices(seed, 2, 2, |comm, device| {
        for home in homes {
            every_case::<f32>(comm, device, home, &[1, 53, 128], &[ReduceOp::Sum, ReduceOp::Avg])?;
            every_case::<i32>(comm, device, home, &[17], &[ReduceOp::Min])?;
            every_case::<u8>(comm, device, home, &[13, 0], &[ReduceOp::Max])?;
        }
        Ok(())
    })?;
    // Two ranks on one device.
    on_devices(seed, 2, 1, work)?;
    on_devices(seed, 4, 4, |comm, device| every_case::<f64>(comm, device, home(0), &[19], &[ReduceOp::Prod]))?;
    on_devices(seed, 4, 2, |comm, device| every_case::<u32>(comm, device, home(1), &[21], &[ReduceOp::Sum]))?;
    on_devices(seed, 8, 8, |comm, device| every_case::<i64>(comm, device, home(2), &[3], &[ReduceOp::Sum]))?;
    on_devices(seed, 1, 1, work)
}

/// Ranks on different nodes reach each other through port channels.
fn calls_between_nodes(seed: u64) -> Result<(), Failed> {
    Job::start("communicator", "simulator", seed, 2, 1)?.succeed()
}

/// Memory of the other ranks is mapped.
fn calls_on_separate_hosts(seed: u64) -> Result<(), Failed> {
    for files in [false, true] {
        let device = |rank| Ok(Device::with_driver(simulator(machine_options(seed, rank, files))?));
        in_threads(2, group_options(120), device, work).into_iter().collect::<Result<(), Failed>>()?;
    }
    Ok(())
}

/// Returns whether the error of every rank has the same root cause, and returns them.
fn errors(results: &[Result<(), Failed>]) -> Vec<String> {
    results
        .iter()
        .map(|result| result.as_ref().err().and_then(Failed::message).unwrap_or("no error").to_owned())
        .collect()
}

/// Returns the error of a call that must fail.
fn failure<T>(result: Result<T, Error>) -> Result<Error, Failed> {
    result.err().ok_or_else(|| "a call that must fail has succeeded".into())
}
