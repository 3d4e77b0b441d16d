//! How long simulations take.

use std::time::Duration;

use mscclpp_algorithms as algorithms;
use mscclpp_predict::{Machine, predict};

/// Returns the processor time of this thread, which does not depend on what else the machine runs.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    Duration::from_nanos(text.split_whitespace().next().and_then(|ns| ns.parse().ok()).expect("nanoseconds"))
}

/// A machine of the given number of H100 nodes.
fn nodes(count: u32) -> Machine {
    let text = format!(
        "name = \"nodes\"\ndescription = \"H100\"\nbase = \"2x8xh100\"\nranks = {}\nranks_per_node = 8\n",
        8 * count
    );
    Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Measures all algorithms that a machine can run, and returns the longest time of those with at most a number of operations.
fn longest(machine: &Machine, bytes: u64, max_operations: usize) -> (Duration, String) {
    let mut longest = (Duration::ZERO, String::new());
    for algorithm in algorithms::all() {
        if !algorithm.supports(machine.ranks, machine.ranks_per_node) {
            continue;
        }
        let spec = algorithm.spec(machine.ranks, machine.ranks_per_node);
        let blocks = machine.blocks_of(algorithm.name()).unwrap_or(1);
        let (mut spec, arguments) = algorithm.with_parallel_blocks(spec, blocks);
        spec.collective.in_place |= algorithm.buffer_mode() == algorithms::BufferMode::InPlace;
        let Ok(trace) = algorithm.record(spec, &arguments) else { continue };
        let Ok(plan) = mscclpp_core::lower::lower(&trace) else { continue };
        let mut operations = 0;
        // The clock of a thread counts in milliseconds.
        let runs = match machine.ranks {
            ..=16 => 50,
            17..=64 => 5,
            _ => 1,
        };
        let start = processor_time();
        for _ in 0..runs {
            let Ok(found) = predict(&plan, machine, bytes, None) else { break };
            operations = found.execution.nodes.len();
        }
        let took = (processor_time() - start) / runs;
        if operations == 0 {
            continue;
        }
        println!("{:4} ranks {:36} {operations:>8} operations {took:>10.3?}", machine.ranks, algorithm.name());
        if took > longest.0 && operations <= max_operations {
            longest = (took, algorithm.name().to_owned());
        }
    }
    longest
}

#[test]
#[ignore = "measures a release build, for minutes"]
fn simulations_are_fast() {
    let one = Machine::builtin("8xh100").expect("it is built in");
    let machines = [(one, usize::MAX, 5), (nodes(8), 10_000, 100), (nodes(128), 1_000_000, 5000)];
    let found = machines.map(|(machine, max_operations, limit_ms)| {
        let (took, name) = longest(&machine, 64 << 20, max_operations);
        println!("{} ranks: at most {took:.3?}, {name}", machine.ranks);
        (machine.ranks, took, Duration::from_millis(limit_ms))
    });
    for (ranks, took, limit) in found {
        assert!(took <= limit, "{ranks} ranks took {took:?}, expected {limit:?}");
    }
}
