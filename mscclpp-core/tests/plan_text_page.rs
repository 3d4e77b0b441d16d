//! `docs/plan-text.md` has the grammar of the module's documentation, and its examples are plans.

use std::path::Path;

use mscclpp_core::check::check;
use mscclpp_core::plan::text::{parse, print};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of a page in a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    page.split(&start).skip(1).map(|block| block.split("```").next().unwrap()).collect()
}

#[test]
fn examples_are_right_plans() {
    let page = read("../docs/plan-text.md");
    let examples = blocks(&page, "plan");
    assert_eq!(examples.len(), 1);
    for example in examples {
        let plan = parse(example).unwrap_or_else(|error| panic!("{error}\n{example}"));
        let found = check(&plan);
        assert!(found.is_empty(), "{found}");
        assert_eq!(parse(&print(&plan)), Ok(plan));
    }
}

#[test]
fn page_and_module_have_the_same_grammar() {
    let page = read("../docs/plan-text.md");
    let module = read("src/plan/text/mod.rs");
    let module: Vec<_> = module.lines().filter_map(|line| line.strip_prefix("//!")).collect();
    let module = module.iter().map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect::<String>();
    assert_eq!(blocks(&page, "text"), blocks(&module, "text"));
    assert_eq!(blocks(&page, "text").len(), 1);
}
