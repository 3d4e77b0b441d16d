//! Hostile command lines and files: whatever is asked, the command ends by itself with a documented exit code.

use crate::common::plans::{good, max, text};
use crate::common::{mscclpp, mscclpp_reading};
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Words that mean something somewhere.
const WORDS: &[&str] = &[
    "run",
    "check",
    "plan",
    "list",
    "show",
    "stats",
    "graph",
    "export",
    "diff",
    "explain",
    "help",
    "--help",
    "-h",
    "--version",
    "--json",
    "--strict",
    "--no-check",
    "--level",
    "--device",
    "--executor",
    "h100",
    "--accumulate",
    "--packet-type",
    "--allow",
    "basic",
    "race",
    "--in-place",
    "--compact",
    "--comments",
    "--format",
    "--ranks",
    "--param",
    "--size",
    "--begin",
    "--end",
    "--factor",
    "--count",
    "--dtype",
    "--op",
    "--iters",
    "--warmup",
    "--seed",
    "--root",
    "--target",
    "-",
    "--",
    "-o",
    "--output=/dev/null",
    "allreduce_ring",
    "send_recv",
    "M0001",
    "chunk-out-of-range",
    "f32",
    "e4m3",
    "max",
    "mscclpp",
    "machine",
    "simulate",
    "bound",
    "timeline",
    "analyze",
    "--machine",
    "8xh100",
    "--tier",
    "--launch",
    "--html=/dev/null",
];

/// Values for options; nothing between a few KiB and what no machine has, so that a run is short or refused.
const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "3",
    "8",
    "4K",
    "7k",
    "1T",
    "1099511627776",
    "18446744073709551615",
    "18446744073709551616",
    "-1",
    "1.5",
    "1e9",
    "0x10",
    "K",
    "tbg=2",
    "tbg=",
    "=",
    "=1",
    "tbg=-9223372036854775808",
    "\u{0}",
    "ä",
    "🦀",
    "../..",
    "/",
    ".",
    "/dev/null",
    "nan",
    "true",
    "%s%n",
    "\u{1b}[31m",
    "a b",
    "'",
    "\"",
];

/// One word of a command line.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        5 => select(WORDS).prop_map(str::to_owned),
        3 => select(VALUES).prop_map(str::to_owned),
        1 => ".{0,12}",
    ]
    // A process argument cannot hold a zero byte.
    .prop_map(|word| word.replace('\0', ""))
    // Nothing of this test may write files.
    .prop_filter("no stray output", |word| !word.starts_with("-o") || word == "-o")
}

/// An option of a command that takes a plan, with a value that may fit it.
fn option() -> impl Strategy<Value = Vec<String>> {
    let valued = &[
        "--ranks",
        "--ranks-per-node",
        "--instances",
        "--root",
        "--param",
        "--size",
        "--count",
        "--begin",
        "--end",
        "--factor",
        "--dtype",
        "--op",
        "--iters",
        "--warmup",
        "--seed",
        "--rank",
        "--target",
    ][..];
    let flags = &["--json", "--strict", "--no-check", "--any-size", "--in-place", "--compact"][..];
    let values = &[
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "7",
        "1K",
        "5K",
        "1T",
        "18446744073709551615",
        "group=2",
        "group=18446744073709551615",
        "f16",
        "i8",
        "e5m2",
        "avg",
        "min",
        "mscclpp",
        "ours",
    ][..];
    let with_value = (select(valued), select(values)).prop_map(|(name, value)| vec![name.into(), value.into()]);
    prop_oneof![3 => with_value, 1 => select(flags).prop_map(|flag: &str| vec![flag.to_owned()])]
}

/// An option of a command about calls, with a value that may fit it.
fn call_option() -> impl Strategy<Value = Vec<String>> {
    let valued =
        &["--root", "--dtype", "--op", "--begin", "--factor", "--plan", "--blocks", "--table", "--ranks-per-node"][..];
    let flags = &["--json", "--unregistered", "--registered", "--in-place", "--multicast"][..];
    let values = &[
        "0",
        "1",
        "2",
        "5",
        "1K",
        "1T",
        "18446744073709551615",
        "f16",
        "avg",
        "allreduce_ring",
        "allgather_ring",
        "allreduce_rng",
        "/dev/null",
        "/",
    ][..];
    let with_value = (select(valued), select(values)).prop_map(|(name, value)| vec![name.into(), value.into()]);
    prop_oneof![3 => with_value, 1 => select(flags).prop_map(|flag: &str| vec![flag.to_owned()])]
}

/// Every run of digits in a text: first byte and length.
fn numbers(text: &str) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let digit = |i: &usize| bytes.get(*i).is_some_and(u8::is_ascii_digit);
    (0..bytes.len())
        .filter(|i| digit(i) && (*i == 0 || !digit(&(i - 1))))
        .map(|start| (start, (start..).take_while(digit).count()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_words_end_with_a_documented_code(words in prop::collection::vec(word(), 0..8)) {
        let words: Vec<_> = words.iter().map(|word| if word == "-o" { "--output=/dev/null" } else { word }).collect();
        let code = mscclpp(&words).code();
        prop_assert!([0, 1, 2, 3].contains(&code), "{:?} ended with {}", words, code);
    }

    #[test]
    fn any_options_end_with_a_documented_code(
        command in select(&["run", "check", "plan show", "plan stats", "plan graph", "plan export", "plan diff allreduce_ring"][..]),
        algorithm in select(&["allreduce_ring", "allgather_two_nodes", "allreduce_one_shot_packets", "send_recv",
            "broadcast_scatter", "allreduce_switch_pipeline", "alltoall_rotated"][..]),
        options in prop::collection::vec(option(), 0..4),
    ) {
        let words: Vec<_> = command.split(' ').map(str::to_owned).chain([algorithm.to_owned()]).chain(options.concat()).collect();
        let code = mscclpp(&words).code();
        prop_assert!([0, 1, 2, 3].contains(&code), "{:?} ended with {}", words, code);
    }

    #[test]
    fn any_calls_end_with_a_documented_code(
        command in select(&["select", "bench -e 1K -n 1", concat!("tune -e 1K -n 1 -o ", env!("CARGO_TARGET_TMPDIR"), "/hostile.toml")][..]),
        collective in select(&["all_reduce", "all_gather", "broadcast", "send_recv", "all_things"][..]),
        ranks in select(&["1", "2", "3", "0", "1025", "4294967296"][..]),
        options in prop::collection::vec(call_option(), 0..4),
    ) {
        let words: Vec<_> = command.split(' ').chain([collective, "--ranks", ranks]).map(str::to_owned).chain(options.concat()).collect();
        let code = mscclpp(&words).code();
        prop_assert!([0, 1, 2, 3].contains(&code), "{:?} ended with {}", words, code);
    }

    #[test]
    fn a_plan_with_a_number_changed_ends_with_a_documented_code(
        reduces: bool,
        as_text: bool,
        place: Index,
        number in select(&["0", "1", "2", "3", "16", "4294967295", "4294967296", "18446744073709551616", "-1", "0.5"][..]),
    ) {
        let tree = if reduces { max() } else { good() };
        let mut plan = if as_text { mscclpp_core::plan::text::print(&tree) } else { text(&tree) };
        let numbers = numbers(&plan);
        let (start, len) = numbers[place.index(numbers.len())];
        plan.replace_range(start..start + len, number);
        for words in [&["check", "-", "--fuzz", "3"][..], &["check", "-", "--executor", "all"], &["plan", "show", "-"], &["plan", "stats", "-"], &["plan", "graph", "-"], &["plan", "export", "-"],
                      &["run", "-", "--count", "7", "--no-check", "--iters", "1"], &["run", "-", "--count", "7"]] {
            let code = mscclpp_reading(words, &plan).code();
            prop_assert!([0, 1, 2, 3].contains(&code), "{:?} ended with {}:\n{}", words, code, plan);
        }
    }

    #[test]
    fn any_text_as_a_plan_ends_with_2(text in ".{0,64}") {
        for command in [&["check", "-"][..], &["run", "-"], &["plan", "show", "-"], &["plan", "stats", "-"], &["plan", "graph", "-"],
                        &["plan", "export", "-"], &["plan", "diff", "-", "-"]] {
            mscclpp_reading(command, &text).ends_with(2);
        }
    }
}
