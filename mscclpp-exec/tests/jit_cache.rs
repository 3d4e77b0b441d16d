//! The cache of compiled images. A compiler of the tests counts the images that are not found.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use mscclpp_exec::cuda::jit::{Cache, Compiler, Image, JitError, Source, compile};

/// Maximum number of files in a folder.
const MAX_FILES: usize = 1024;

#[derive(Default)]
struct Counting(AtomicUsize);

impl Compiler for Counting {
    fn identity(&self) -> &str {
        "counting"
    }

    fn compile(&self, _: &Source) -> Result<Image, JitError> {
        self.0.fetch_add(1, Relaxed);
        Ok(image())
    }
}

fn image() -> Image {
    Image { code: (0..200).collect(), log: "registers".into() }
}

/// Returns whether the cache has the image of a source.
fn is_found(cache: &Cache, source: &str) -> bool {
    let compiler = Counting::default();
    let found = compile(&compiler, cache, &Source::new("a.cu", source)).expect("an image");
    assert_eq!(found, image());
    compiler.0.load(Relaxed) == 0
}

/// Returns the files of a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
}

fn only_file(folder: &Path) -> PathBuf {
    let found = files(folder);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

#[test]
fn stored_image_is_found_under_its_own_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep/er");
    let cache = Cache::at(&path);
    assert_eq!([is_found(&cache, "one"), is_found(&cache, "one")], [false, true]);
    let first = only_file(&path);
    assert!(!is_found(&cache, "other"));
    // A file under another name does not contain the image of that name.
    let other = files(&path).into_iter().find(|file| *file != first).expect("another file");
    fs::rename(&first, &other).expect("renamed");
    assert_eq!([is_found(&cache, "other"), is_found(&cache, "one")], [false, false]);
}

#[test]
fn changed_file_is_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(folder.path());
    assert!(!is_found(&cache, "one"));
    let file = only_file(folder.path());
    let bytes = fs::read(&file).expect("it is there");
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        for damaged in [&changed[..], &bytes[..at]] {
            fs::write(&file, damaged).expect("written");
            assert!(!is_found(&cache, "one"), "byte {at}");
        }
    }
    fs::write(&file, [&bytes[..], &[0]].concat()).expect("written");
    assert_eq!([is_found(&cache, "one"), is_found(&cache, "one")], [false, true]);
}

#[test]
fn folder_and_files_that_others_can_write_are_not_used() {
    let root = tempfile::tempdir().expect("a folder");
    let folder = root.path().join("new");
    let cache = Cache::at(&folder);
    assert!(!is_found(&cache, "one"));
    let file = only_file(&folder);
    let mode = |path: &Path| fs::metadata(path).expect("it was stored").permissions().mode() & 0o777;
    assert_eq!([mode(&folder), mode(&file)], [0o700, 0o600]);
    for open in [0o720, 0o702] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(open)).expect("it is ours");
        assert_eq!([is_found(&cache, "one"), is_found(&cache, "two"), is_found(&cache, "two")], [false; 3]);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
    for open in [0o620, 0o602] {
        fs::set_permissions(&file, fs::Permissions::from_mode(open)).expect("it is ours");
        // It is stored again, in its place.
        assert_eq!([is_found(&cache, "one"), is_found(&cache, "one")], [false, true]);
    }
    // Only root can give a file away.
    for path in [&file, &folder] {
        if std::os::unix::fs::chown(path, Some(65534), None).is_ok() {
            assert!(!is_found(&cache, "one"), "{}", path.display());
            std::os::unix::fs::chown(path, Some(0), None).expect("it was ours");
        }
    }
    assert!(is_found(&cache, "one"));
}

#[test]
fn link_in_the_place_of_a_file_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(folder.path());
    assert!(!is_found(&cache, "one"));
    let (file, victim) = (only_file(folder.path()), folder.path().join("victim"));
    fs::write(&victim, "precious").expect("written");
    fs::remove_file(&file).expect("it is there");
    std::os::unix::fs::symlink(&victim, &file).expect("a link");
    assert_eq!([is_found(&cache, "one"), is_found(&cache, "one")], [false, true]);
    assert_eq!(fs::read(&victim).expect("it is there"), b"precious");
}

#[test]
fn unwritable_folder_is_no_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "not a folder").expect("written");
    for cache in [Cache::at(&file), Cache::NONE] {
        assert_eq!([is_found(&cache, "one"), is_found(&cache, "one")], [false, false]);
    }
}

#[test]
fn full_folder_evicts_oldest_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Cache::at(folder.path());
    for number in 0..MAX_FILES {
        fs::write(folder.path().join(format!("{number}.image")), "").expect("written");
    }
    fs::write(folder.path().join("other file"), "").expect("written");
    assert!(!is_found(&cache, "one"));
    assert_eq!(files(folder.path()).len(), MAX_FILES / 2 + 2);
    assert!(is_found(&cache, "one"));
}
