//! How long simulations take.

use std::time::{Duration, Instant};

use mscclpp_algorithms as algorithms;
use mscclpp_predict::{Machine, predict};

/// A machine of the given number of H100 nodes.
fn nodes(count: u32) -> Machine {
    let text = format!(
        "name = \"nodes\"\ndescription = \"H100\"\nbase = \"2x8xh100\"\nranks = {}\nranks_per_node = 8\n",
        8 * count
    );
    Machine::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Measures all algorithms that a machine can run, and returns the longest time.
fn longest(machine: &Machine, bytes: u64) -> (Duration, String) {
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
        let start = Instant::now();
        let Ok(found) = predict(&plan, machine, bytes, None) else { continue };
        let took = start.elapsed();
        println!("{:40} {:>9} nodes {:>10.3?}", algorithm.name(), found.execution.nodes.len(), took);
        if took > longest.0 {
            longest = (took, algorithm.name().to_owned());
        }
    }
    longest
}

#[test]
#[ignore = "measures a release build, for minutes"]
fn simulations_are_fast() {
    let one = Machine::builtin("8xh100").expect("it is built in");
    for (machine, bytes, limit_ms) in [(one, 64 << 20, 5), (nodes(8), 64 << 20, 100), (nodes(128), 64 << 20, 5000)] {
        let (took, name) = longest(&machine, bytes);
        println!("{} ranks: at most {took:.3?}, {name}", machine.ranks);
        assert!(took <= Duration::from_millis(limit_ms), "{} ranks: {name} took {took:?}", machine.ranks);
    }
}
