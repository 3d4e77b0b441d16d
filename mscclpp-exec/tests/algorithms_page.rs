//! `docs/algorithms.md` agrees with the registry.

use std::fmt::Write as _;
use std::path::Path;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};

/// Generates the tables of algorithms, grouped by collective.
fn page() -> String {
    let mut page = String::from(
        "# Algorithms

<!-- Generated from the registry by `MSCCLPP_BLESS=1 cargo test -p mscclpp-exec --test integration algorithms_page`. -->

What the library comes with. `mscclpp run NAME --ranks N` runs one and checks the result. Each is a function in a file of
its own in `mscclpp-algorithms/src/`, and its first line says what it costs.

P is the number of ranks, N the number of nodes, G the number of ranks per node; the message is the larger of a rank's
input and output. All run on 2 ranks or more. Those that need multicast hardware run without it as well, with the same results: then
they read and write the ranks' memories one by one, which costs more, and no call selects them.
",
    );
    let mut collective = "";
    for algorithm in algorithms::all() {
        if algorithm.kind().name() != collective {
            collective = algorithm.kind().name();
            _ = write!(page, "\n## {collective}\n\n");
            page += "| name | runs on | in place | cost |\n|---|---|---|---|\n";
        }
        let (name, machine, cost) = (algorithm.name(), algorithm.requirement(), algorithm.cost());
        _ = writeln!(page, "| `{name}`{} | {machine} | {} | {cost} |", parameters(algorithm), placement(algorithm));
    }
    page
}

fn parameters(algorithm: &BuiltinAlgorithm) -> String {
    let names: Vec<_> = algorithm.params().iter().map(|param| format!("`{}`", param.name)).collect();
    if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
}

fn placement(algorithm: &BuiltinAlgorithm) -> &'static str {
    match algorithm.buffer_mode() {
        BufferMode::InPlace => "only",
        BufferMode::OutOfPlace => "no",
        BufferMode::Any => "yes",
    }
}

#[test]
fn the_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/algorithms.md");
    let expected = page();
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/algorithms.md is stale; run `MSCCLPP_BLESS=1 cargo test -p mscclpp-exec --test integration algorithms_page` and look at \
         the change"
    );
}
