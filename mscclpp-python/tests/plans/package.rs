//! The packages as a folder of links to the sources and to the extension module, without pip.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of this package.
pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Makes a folder for `PYTHONPATH`.
///
/// # Errors
/// What the script prints, or why a link cannot be made.
pub(crate) fn folder() -> Result<PathBuf, String> {
    // The library of this package is built before its tests, into the same folder.
    let library = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("libmscclpp_rs.so");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mscclpp-python-plans");
    let script = sources().join("../scripts/python-package.sh");
    let output = Command::new(script).arg(library).arg(&folder).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    for name in ["mscclpp", "msccl"] {
        link_files(&sources().join("compat").join(name), &folder.join(name))
            .map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(folder)
}

/// Links the files of a folder of sources, so that nothing that Python writes is among them.
fn link_files(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == "__pycache__" => {}
            true => link_files(&entry.path(), &target)?,
            false => link(&entry.path(), &target)?,
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    if fs::read_link(to).is_ok_and(|known| known == from) {
        return Ok(());
    }
    match fs::remove_file(to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => symlink(from, to),
    }
}
