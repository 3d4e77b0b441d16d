//! `docs/errors.md` says what the catalogue says.

use std::fmt::Write;
use std::path::Path;

use mscclpp_core::diag::Code;

const INTRO: &str = "# Errors

<!-- Generated from mscclpp-core/src/diag/codes by `MSCCLPP_BLESS=1 cargo test -p mscclpp-core --test errors_page`. -->

Every message ends with the rule that was broken, its code and its slug. `mscclpp explain M0004` (or
`mscclpp explain chunk-out-of-range`) prints what stands here.
";

fn page() -> String {
    let mut page = INTRO.to_owned();
    for (title, entries) in Code::areas() {
        write!(page, "\n- [{title}](#{})", title.to_lowercase().replace(' ', "-")).expect("strings take everything");
        for (_, entry) in entries {
            write!(page, "\n  - {} [{}](#{})", entry.number, entry.slug, entry.slug).expect("strings take everything");
        }
    }
    page.push('\n');
    for (title, entries) in Code::areas() {
        write!(page, "\n## {title}\n").expect("strings take everything");
        for (_, entry) in entries {
            let (number, slug, rule) = (entry.number, entry.slug, entry.rule);
            let explanation = entry.explanation.trim();
            write!(page, "\n### <a id=\"{slug}\"></a>{number} {slug}\n\n**{}.**\n\n{explanation}\n", capitalised(rule))
                .expect("strings take everything");
        }
    }
    page
}

fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn the_page_is_not_stale() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/errors.md");
    let expected = page();
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("the page lies in a folder")).expect("docs can be made");
        std::fs::write(&path, &expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/errors.md is stale; run `MSCCLPP_BLESS=1 cargo test -p mscclpp-core --test errors_page` and look at the change"
    );
}

#[test]
fn every_explanation_shows_a_wrong_program_and_its_repair() {
    // A fault of ours has no program that would be wrong.
    for (_, entry) in Code::all().filter(|(code, _)| !matches!(code, Code::Internal | Code::ExecutorFault)) {
        let shows = entry.explanation.contains("Wrong") && entry.explanation.contains("Right");
        assert!(shows, "{} {} has no `Wrong: … Right: …`", entry.number, entry.slug);
    }
}
