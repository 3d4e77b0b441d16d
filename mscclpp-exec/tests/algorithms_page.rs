//! `docs/algorithms.md` agrees with the registry.

use std::fmt::Write as _;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm, OrderScope};
use mscclpp_core::collective::CollectiveKind;

/// Generates the tables of algorithms, grouped by collective.
fn page() -> String {
    let mut page = String::from(
        "# Algorithms

<!-- Generated from the registry by `MSCCLPP_BLESS=1 cargo test -p mscclpp-exec --test integration algorithms_page`. -->

What the library comes with. `mscclpp run NAME --ranks N` runs one and checks the result. Each is a function in a file of
its own in `mscclpp-algorithms/src/`, and its first line says what it costs.

P is the number of ranks, N the number of nodes, G the number of ranks per node; the message is the larger of a rank's
input and output. All run on 2 ranks or more. Those that need multicast hardware run without it as well, with the same results: then
they read and write the ranks' memories one by one, which costs more, and no call selects them. Which one a call on devices
gets by default is in [Plans by default on devices](default-plans.md). *Counts*: of `all` every number of elements is right, which the
checks prove of every plan that is built; `dividing` would take counts that divide evenly only ([Sizes](execution.md#sizes)).

## Order of reduction

Sums, products and averages of floats round, so their last bits depend on the order in which the ranks' elements are reduced. A
call demands what it needs of that order (`Communicator::set_order_policy`, `Request::order`, `mscclpp select --order`); integers,
minima and maxima are the same in every order.

| policy | demand |
|---|---|
| `any` | None. Ranks may get different bits. |
| `in-switch` | All ranks get the same bits. A switch may sum, in an unspecified order that may differ from launch to launch. |
| `same-on-all-ranks`, the default | All ranks get the same bits, and equal calls give equal bits. An element's bits may depend on its place in the message, the size of the message and the mode. |
| `rank-order` | Every element is reduced from left to right in the order of ranks, whatever its place, the size of the message and the mode: its bits depend on the ranks' elements only, as results that may not depend on the size of a batch require. |

Below, *order* says what the order of an algorithm depends on: *rank order* on nothing, which the checks prove of every plan that is
built for a call with that policy; *element* on the place in the message; *switch* on the switch; *rank* and *node* on where the
result is. A call for which no algorithm has the demanded order fails with the reasons (`SelectError::NoAlgorithm`): `rank-order`
has algorithms for all-reduce, reduce-scatter and reduce on any number of nodes. With two ranks all orders but those of switches are one.
",
    );
    let mut collective = "";
    for algorithm in algorithms::all() {
        if algorithm.kind().name() != collective {
            collective = algorithm.kind().name();
            _ = write!(page, "\n## {collective}\n\n");
            page += match reduces(algorithm) {
                true => "| name | runs on | in place | counts | order | cost |\n|---|---|---|---|---|---|\n",
                false => "| name | runs on | in place | counts | cost |\n|---|---|---|---|---|\n",
            };
        }
        let (name, machine, cost) = (algorithm.name(), algorithm.requirement(), algorithm.cost());
        let order = if reduces(algorithm) { format!(" {} |", order(algorithm)) } else { String::new() };
        _ = writeln!(
            page,
            "| `{name}`{} | {machine} | {} | {} |{order} {cost} |",
            parameters(algorithm),
            placement(algorithm),
            counts(algorithm)
        );
    }
    page
}

fn parameters(algorithm: &BuiltinAlgorithm) -> String {
    let names: Vec<_> = algorithm.params().iter().map(|param| format!("`{}`", param.name)).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn reduces(algorithm: &BuiltinAlgorithm) -> bool {
    matches!(algorithm.kind(), CollectiveKind::AllReduce | CollectiveKind::ReduceScatter | CollectiveKind::Reduce)
}

fn order(algorithm: &BuiltinAlgorithm) -> &'static str {
    match algorithm.order_varies_across() {
        None => "rank order",
        Some(OrderScope::Elements) => "element",
        Some(OrderScope::Launches) => "switch",
        Some(OrderScope::Ranks) => "rank",
        Some(OrderScope::Nodes) => "node",
        Some(OrderScope::FirstTwo) => "rank order, but each operation rounds",
    }
}

fn placement(algorithm: &BuiltinAlgorithm) -> &'static str {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => "only",
        BufferMode::OutOfPlace => "no",
        BufferMode::Any => "yes",
    }
}

fn counts(algorithm: &BuiltinAlgorithm) -> &'static str {
    if algorithm.spec(2, 2).collective.dividing { "dividing" } else { "all" }
}

#[test]
fn every_algorithm_takes_every_count() {
    assert!(algorithms::all().iter().all(|algorithm| counts(algorithm) == "all"));
}

#[test]
fn the_page_is_current() {
    crate::common::page::check("algorithms.md", &page(), "algorithms_page");
}
