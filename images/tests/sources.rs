//! That the images were compiled from the present headers; those of `mscclpp-exec` compare the sources that are generated.

use std::path::Path;

use sha2::{Digest, Sha256};

#[test]
fn images_are_as_new_as_the_headers() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = std::fs::read_to_string(here.join("SOURCES")).expect("images/SOURCES");
    let folder = here.join("../kernels");
    let mut headers: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of the kernels")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".h"))
        .collect();
    headers.sort();
    let hash = |name: &String| {
        let digest = Sha256::digest(std::fs::read(folder.join(name)).expect("it can be read"));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{digest}  {name}")
    };
    let changed: Vec<&String> = headers.iter().filter(|name| !found.lines().any(|line| line == hash(name))).collect();
    let is_complete = found.lines().count() == headers.len();
    assert!(
        changed.is_empty() && is_complete,
        "images/ is older than kernels/ (changed: {changed:?}): run images/build.sh"
    );
}
