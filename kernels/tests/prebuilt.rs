//! That `prebuilt/` was built from these sources.

use std::path::Path;

use sha2::{Digest, Sha256};

/// Every source that `executor.cu` includes, in the order of their names, with its hash.
fn sources() -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(here)
        .expect("this folder")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
        .filter(|name| name.ends_with(".h") || name.ends_with(".cu") || name.starts_with("build") || name == "types")
        .collect();
    files.sort();
    let hash = |name: &String| {
        let digest = Sha256::digest(std::fs::read(here.join(name)).expect("it can be read"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}  {name}\n")
    };
    files.iter().map(hash).collect()
}

#[test]
fn images_are_as_new_as_their_sources() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("prebuilt/SOURCES");
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == sources(), "kernels/prebuilt is older than its sources: run kernels/build.sh");
}
