use proptest::prelude::*;
use proptest::sample::Index;

use super::{PlanText, TextError, is_text, parse, print};
use crate::arbitrary::tree;
use crate::{Op, Plan, PlanTree, json};

fn pair() -> PlanTree {
    json::read(include_str!("../pair.json"), json::ReadOptions { strict: true }).unwrap().0
}

fn count(ops: &[Op]) -> usize {
    ops.iter().map(|op| 1 + op.body.as_ref().map_or(0, |body| count(&body.ops))).sum()
}

/// Something to write into a text.
const PIECES: &[&str] = &[
    "",
    " ",
    "\n",
    ";",
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "..",
    "<-",
    "#",
    "-",
    "4294967296",
    "18446744073709551616",
    "rank 0",
    "rank 1.1",
    "via",
    "uses channels memory",
    "channels port 1",
    "buffers",
    "block 0:",
    "unit 16 chunks 1 {",
    "multicast #0[0]",
    "slice 1/2",
    "sync both",
    "put",
    "memory",
    "input[0..9]",
    "\u{0}",
    "ä",
    "\\u{110000}",
    "expect rank 0 output[0] = ",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_tree_is_printed_and_parsed_to_the_same_tree(tree in tree()) {
        let text = print(&tree);
        let parsed = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert_eq!(&parsed, &tree, "{}", text);
        prop_assert_eq!(&print(&parsed), &text);
        let commented = PlanText::new(&tree).with_comments().to_string();
        prop_assert_eq!(parse(&commented), Ok(tree.clone()), "{}", commented);
        prop_assert_eq!(parse(&text.replace('\n', "\r\n")), Ok(tree));
    }

    #[test]
    fn any_tree_can_be_shown(tree in tree()) {
        let text = print(&tree);
        let blocks = tree.ranks.iter().flat_map(|rank| &rank.blocks);
        prop_assert!(text.lines().count() > blocks.map(|block| count(&block.ops)).sum());
        prop_assert!(PlanText::new(&tree).with_rank(0).to_string().len() <= text.len());
    }

    #[test]
    fn mutated_text_is_rejected_or_prints_and_parses_equal(
        tree in prop_oneof![tree(), Just(pair())],
        edits in prop::collection::vec((any::<Index>(), 0..9_usize, prop::sample::select(PIECES)), 1..4),
    ) {
        let mut chars: Vec<char> = print(&tree).chars().collect();
        for (at, len, piece) in edits {
            let at = at.index(chars.len() + 1);
            let end = (at + len).min(chars.len());
            chars.splice(at..end, piece.chars());
        }
        let text: String = chars.into_iter().collect();
        match parse(&text) {
            Ok(plan) => prop_assert_eq!(parse(&print(&plan)), Ok(plan)),
            Err(TextError { line, column, expected, found }) => {
                prop_assert!(line <= text.split('\n').count());
                prop_assert!(column <= text.split('\n').nth(line - 1).unwrap().chars().count() + 1);
                prop_assert!(!expected.is_empty() && !found.is_empty());
            }
        }
    }

    #[test]
    fn random_text_is_rejected_without_panic(text in "\\PC{0,200}") {
        prop_assert!(parse(&text).is_err());
        let text = format!("plan x\ncollective allreduce\nranks 1\n{text}");
        prop_assert!(parse(&text).is_err());
    }
}

#[test]
fn plan_is_printed_like_this() {
    let expected = "\
plan pair
collective allreduce
ranks 2
protocol Simple
threads_per_block 512
buffer_alignment 16
max_message_size 1048576
in_place

rank 0 (input 2, output 2, scratch 1) {
  channels switch input (0, 1)
  semaphores 1
  block 0:
    put memory rank 1 scratch[0] <- input[1]
    nop
    signal memory rank 1
    wait memory rank 1
    barrier 0 blocks 2
    res memory sum input[0], rank 1 input[0] <- input[0], scratch[0] slice 0/2
    sem_acquire 0
    pipeline unit 1024 chunks 2 {
      glres switch max multicast 0 input[0..2] <- multicast 0 input[0..2]
    }
  block 1:
}
";
    let shown = PlanText::new(&pair()).with_rank(0).to_string();
    assert_eq!(shown, expected, "{shown}");
}

#[test]
fn tables_that_differ_from_the_order_of_first_use_are_stated() {
    let mut plan = pair();
    plan.ranks[0].blocks[0].remote_buffers[0].1.reverse();
    plan.ranks[0].remote_buffers.reverse();
    let text = print(&plan);
    assert!(text.contains("  buffers rank 1 input memory, rank 1 scratch memory\n"), "{text}");
    assert!(!text.contains("uses"), "{text}");
    plan.ranks[0].blocks[0].channels[0].1.push(0);
    plan.ranks[0].blocks[0].channels[0].1.push(7);
    let text = print(&plan);
    assert!(text.contains("    uses channels memory rank 1, rank 1, #7\n    uses channels switch 0\n"), "{text}");
    assert_eq!(parse(&text), Ok(plan));
}

#[test]
fn channels_to_one_peer_that_are_named_out_of_order_are_stated() {
    let text = |channels: &str, first: &str, second: &str| {
        let lines = format!("{channels}  block 0:\n    signal port {first}\n    wait port {second}\n");
        format!("plan x\ncollective sendrecv\nranks 1\nrank 0 (input 1, output 1, scratch 0) {{\n{lines}}}\n")
    };
    let plan = parse(&text("  channels port 1, 1\n", "rank 1.1", "rank 1")).unwrap();
    assert!(print(&plan).contains("  channels port 1, 1\n"), "{}", print(&plan));
    assert_eq!(parse(&print(&plan)), Ok(plan));
    let plan = parse(&text("  channels port 1, 1\n", "rank 1", "rank 1.1")).unwrap();
    assert!(!print(&plan).contains("channels"), "{}", print(&plan));
    assert!(parse(&text("", "rank 1.1", "rank 1")).is_err());
}

/// The message for a text made of the printed pair with one place replaced.
fn message(old: &str, new: &str) -> String {
    let text = print(&pair());
    assert!(text.contains(old), "{old}");
    parse(&text.replacen(old, new, 1)).unwrap_err().to_string()
}

#[test]
fn mistakes_name_line_column_expected_and_found() {
    assert_eq!(
        parse("").unwrap_err().to_string(),
        "line 1, column 1: expected `plan` and the plan's name, found the end of the text"
    );
    assert_eq!(
        message("memory rank 1 scratch[0]", "memory rank 1 skratch[0]"),
        "line 14, column 23: expected `input`, `output` or `scratch`, or the end of the line, found `skratch[0] <- input[1]`"
    );
    assert_eq!(
        message("rank 0 (", "rank 1 ("),
        "line 10, column 6: expected rank number 0, found `1 (input 2, output 2, scratch 1) {`"
    );
    assert_eq!(
        message("wait memory rank 1", "wait memory rank 1.2"),
        "line 17, column 17: expected a channel of the rank's `channels` lines, or without these the next channel to its peer, found `rank 1.2`"
    );
    assert_eq!(
        message("wait memory rank 1", "wait rank 1"),
        "line 17, column 10: expected `memory`, `port` or `switch` between `wait` and its channels, found `rank 1`"
    );
    assert_eq!(message("ranks 2", "ranks 3"), "line 29, column 1: expected `rank 2`, found the end of the text");
    assert_eq!(
        message("ranks 2", "ranks 4294967296"),
        "line 3, column 7: expected a number, at most 4294967295, found `4294967296`"
    );
    assert_eq!(
        message("512", "18446744073709551616"),
        "line 5, column 19: expected a number below 2^64, found `18446744073709551616`"
    );
    assert_eq!(
        message("in_place", "in_place\nin_place"),
        "line 9, column 1: expected each line of the header once, found `in_place`"
    );
    assert_eq!(
        message("input[1]\n", "input[1..0]\n"),
        "line 14, column 46: expected an end of the chunks that is at least 1, found `0]`"
    );
    assert_eq!(
        message("multicast 0 input", "multicast 0 output"),
        "line 22, column 24: expected number and buffer of a switch channel of the rank's `channels` lines, found `multicast 0 output[0..2] <- multicast 0 …`"
    );
}

/// Repeats a line many times within a thread block.
fn long_block(tables: &str, line: &dyn Fn(usize) -> String) -> String {
    let lines: String = (0..10_000).map(|i| line(i) + "\n").collect();
    format!(
        "plan x\ncollective allreduce\nranks 1\nrank 0 (input 1, output 1, scratch 0) {{\n{tables}block 0:\n{lines}}}\n"
    )
}

/// Texts that are slow to read or print if any step is quadratic.
#[test]
fn long_texts_are_printed_and_parsed() {
    let switches = "channels switch input (0)\n".repeat(10_000);
    for text in [
        long_block("", &|i| format!("signal memory rank {i}")),
        long_block("", &|i| format!("signal memory rank 1{}", if i == 0 { String::new() } else { format!(".{i}") })),
        long_block(&switches, &|i| format!("glre switch sum input[0] <- multicast {i} input[0]")),
        long_block("", &|i| format!("put port rank {i} input[0] <- input[0] via rank {i}")),
        long_block("", &|_| "nop".into()),
    ] {
        let plan = parse(&text).unwrap();
        assert_eq!(parse(&print(&plan)), Ok(plan));
    }
}

#[test]
fn pipelines_nest_to_a_limit() {
    let nested = |depth: usize| {
        let body = format!("{}{}", "pipeline unit 16 chunks 1 {\n".repeat(depth), "}\n".repeat(depth));
        parse(&format!(
            "plan x\ncollective allreduce\nranks 1\nrank 0 (input 1, output 1, scratch 0) {{\nblock 0:\n{body}}}\n"
        ))
    };
    let plan = nested(super::MAX_DEPTH).unwrap();
    assert_eq!(Plan::new(&plan).tree(), plan);
    let error = nested(100_000).unwrap_err().to_string();
    assert!(error.contains("at most 8 pipelines within one another"), "{error}");
}

#[test]
fn text_is_distinguished_from_other_files_by_its_beginning() {
    for text in ["plan x", "\u{feff}plan x", " \n; a comment\n plan x"] {
        assert!(is_text(text.as_bytes()), "{text}");
    }
    for other in [b"".as_slice(), b"{}", b"\xef\xbb\xbf{", b"[", b"12", b"\xff", Plan::new(&pair()).image()] {
        assert!(!is_text(other), "{other:?}");
    }
}
