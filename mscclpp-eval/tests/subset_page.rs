//! `docs/subset.md` says what the tables say.

use std::path::Path;

#[test]
fn the_page_is_up_to_date() {
    let page = mscclpp_eval::subset_page();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/subset.md");
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, &page).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/subset.md is stale; run `MSCCLPP_BLESS=1 cargo test -p mscclpp-eval --test integration subset_page` and look at the change"
    );
}
