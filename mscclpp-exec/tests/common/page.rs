//! Generated pages of the documentation.

use std::path::Path;

/// Checks that a generated page of `docs/` is that of the folder, or writes it if `MSCCLPP_BLESS` is set. `test`: what writes it.
pub(crate) fn check(name: &str, expected: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        std::fs::write(&path, expected).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{name} is stale; run `MSCCLPP_BLESS=1 cargo test -p mscclpp-exec --test integration {test}` and look at the change"
    );
}
