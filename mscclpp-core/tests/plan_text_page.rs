//! The text in `docs/plan-format.md` is a plan that the checks accept.

use std::path::Path;

use mscclpp_core::check::check;
use mscclpp_core::plan::text::{parse, print};

#[test]
fn example_is_a_right_plan() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/plan-format.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (_, example) = page.split_once("```plan\n").expect("the page has an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    let plan = parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
    let found = check(&plan);
    assert!(found.is_empty(), "{found}");
    assert_eq!(parse(&print(&plan)), Ok(plan));
}
