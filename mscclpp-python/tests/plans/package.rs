//! The packages as a folder of links to the sources and to the extension module, without pip.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of this package.
pub(crate) fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Builds the extension module and returns a folder for `PYTHONPATH`.
///
/// # Errors
/// What cargo prints, or why a link cannot be made.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    // target/debug/deps/plans-…
    let built = program.ancestors().nth(2).ok_or("the test is not in a target folder")?;
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => return Err("the target folder has no name".into()),
    };
    // Cargo does not build a `cdylib` for the tests of its package.
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--package", "mscclpp-python", "--profile", profile])
        .current_dir(sources())
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let folder = built.join("python-plans");
    let links = [
        (sources().join("python/mscclpp_rs"), folder.join("mscclpp_rs")),
        (sources().join("compat/mscclpp"), folder.join("mscclpp")),
    ];
    for (from, to) in links {
        link_files(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let module = folder.join("mscclpp_rs/_native.abi3.so");
    link(&built.join("libmscclpp_rs.so"), &module).map_err(|error| format!("{}: {error}", module.display()))?;
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
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => symlink(from, to),
    }
}
