//! What cargo builds, and the plans in it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::artifacts::Artifacts;
use crate::error::{Error, Result};
use crate::exit;

/// Kinds of targets whose files are not the crate's product.
const SKIPPED: [&str; 2] = ["custom-build", "proc-macro"];

/// Extensions of libraries.
const LIBRARIES: [&str; 6] = ["rlib", "a", "so", "dylib", "dll", "lib"];

/// Builds a crate and finds the plans in its programs and libraries. What cargo reports goes to standard error.
///
/// # Errors
/// [`Error::Start`] if there is no cargo; [`Error::Cargo`] if it fails, or builds nothing that can contain plans; files that cannot be
/// read.
pub(super) fn build(target: &[String]) -> Result<Artifacts> {
    let selection = Selection { packages: selected(target)?, libraries: takes_libraries(target) };
    let mut command = cargo();
    command.args(["build", "--message-format=json-render-diagnostics"]).args(target);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(not_started)?;
    let mut files = Vec::new();
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while matches!(output.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            // Build scripts may print lines that are no messages.
            if let Ok(message) = serde_json::from_slice(&line) {
                files.extend(artifact(&message, &selection));
            }
            line.clear();
        }
    }
    let status = child.wait().map_err(not_started)?;
    if !status.success() {
        return Err(Error::Cargo(format!("`cargo build` failed ({status}), so there are no plans to look at")));
    }
    if files.is_empty() {
        return Err(Error::Cargo("`cargo build` made no program and no library of the selected packages".into()));
    }
    let mut artifacts = Artifacts::default();
    for (path, place) in files {
        artifacts.add_file(&path, &place)?;
    }
    Ok(artifacts)
}

/// Cargo: the one that runs this program, if one does.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")))
}

fn not_started(source: std::io::Error) -> Error {
    Error::Start { program: "cargo".into(), source, code: exit::UNAVAILABLE }
}

/// Which artifacts are searched.
struct Selection {
    /// Ids of packages; `None` for all that are not from a registry.
    packages: Option<BTreeSet<String>>,
    /// Whether libraries are: cargo also builds the one that a program needs.
    libraries: bool,
}

/// Whether what is built includes the library for its own sake.
fn takes_libraries(target: &[String]) -> bool {
    let names =
        |word: &&String, names: &[&str]| names.contains(&word.split_once('=').map_or(&word[..], |(name, _)| name));
    let programs = ["--bin", "--bins", "--example", "--examples", "--test", "--tests"];
    target.iter().any(|word| names(&word, &["--lib", "--all-targets"]))
        || !target.iter().any(|word| names(&word, &programs))
}

/// The ids of the selected packages; `None` for all that are not from a registry.
fn selected(target: &[String]) -> Result<Option<BTreeSet<String>>> {
    let (mut packages, mut options) = (Vec::new(), Vec::new());
    let mut words = target.iter();
    while let Some(word) = words.next() {
        match &word[..] {
            "--workspace" | "--all" => return Ok(None),
            "-p" | "--package" => packages.extend(words.next().cloned()),
            "--manifest-path" => options.extend([Some(word.clone()), words.next().cloned()].into_iter().flatten()),
            "--locked" | "--offline" | "--frozen" => options.push(word.clone()),
            _ if word.starts_with("--package=") => packages.push(word["--package=".len()..].to_owned()),
            _ if word.starts_with("--manifest-path=") => options.push(word.clone()),
            _ => {}
        }
    }
    let id = |package: Option<&String>| {
        let output =
            cargo().arg("pkgid").args(&options).args(package).stdin(Stdio::null()).output().map_err(not_started)?;
        let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok((output.status.success() && !id.is_empty()).then_some(id))
    };
    if packages.is_empty() {
        // A workspace without a package of its own has no id.
        return Ok(id(None)?.map(|id| BTreeSet::from([id])));
    }
    let ids: Vec<Option<String>> = packages.iter().map(|package| id(Some(package))).collect::<Result<_>>()?;
    // A package without an id is a pattern, or a name that cargo itself refuses.
    Ok(ids.into_iter().collect())
}

/// The files of a message that can contain plans, each with its name in messages.
fn artifact(message: &Value, selection: &Selection) -> Vec<(PathBuf, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if message["reason"] != "compiler-artifact" {
        return Vec::new();
    }
    let id = text(&message["package_id"]);
    let is_selected = selection.packages.as_ref().map_or_else(|| id.starts_with("path+"), |ids| ids.contains(&id));
    let kind = text(&message["target"]["kind"][0]);
    if !is_selected || SKIPPED.contains(&&kind[..]) {
        return Vec::new();
    }
    let kind = match &kind[..] {
        "bin" | "example" | "test" | "bench" => kind,
        _ => "library".to_owned(),
    };
    let place = format!("{kind} `{}`", text(&message["target"]["name"]));
    if let Some(executable) = message["executable"].as_str() {
        return vec![(PathBuf::from(executable), place)];
    }
    // Examples may be libraries, too.
    if kind == "library" && !selection.libraries {
        return Vec::new();
    }
    let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(PathBuf::from);
    let is_library = |path: &PathBuf| {
        let extension = Path::extension(path).and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| LIBRARIES.contains(&extension))
    };
    files.filter(is_library).map(|path| (path, place.clone())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn library_that_a_program_needs_is_not_searched_for_the_program() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (text, expected) in [("-p x", true), ("--lib --bin x", true), ("--bin x", false), ("--example=x -r", false)]
        {
            assert_eq!(takes_libraries(&words(text)), expected, "{text}");
        }
    }

    #[test]
    fn programs_and_libraries_of_the_selected_packages_are_searched() {
        let message = |id: &str, kind: &str, executable: Value| {
            json!({ "reason": "compiler-artifact", "package_id": id, "target": { "kind": [kind], "name": "x" },
                "filenames": ["/t/libx.rlib", "/t/libx.rmeta"], "executable": executable })
        };
        let one = Selection { packages: Some(BTreeSet::from(["path+file:///x#0.1.0".to_owned()])), libraries: true };
        let any = Selection { packages: None, libraries: true };
        let programs = Selection { packages: None, libraries: false };
        let id = "path+file:///x#0.1.0";
        let found = artifact(&message(id, "lib", Value::Null), &one);
        assert_eq!(found, [(PathBuf::from("/t/libx.rlib"), "library `x`".to_owned())]);
        let found = artifact(&message(id, "example", json!("/t/x")), &one);
        assert_eq!(found, [(PathBuf::from("/t/x"), "example `x`".to_owned())]);
        assert!(artifact(&message("path+file:///y#0.1.0", "lib", Value::Null), &one).is_empty());
        assert!(artifact(&message("registry+https://y#0.1.0", "lib", Value::Null), &any).is_empty());
        assert_eq!(artifact(&message("path+file:///y#0.1.0", "lib", Value::Null), &any).len(), 1);
        assert!(artifact(&message(id, "lib", Value::Null), &programs).is_empty());
        assert_eq!(artifact(&message(id, "bin", json!("/t/x")), &programs).len(), 1);
        assert!(artifact(&message(id, "proc-macro", Value::Null), &one).is_empty());
        assert!(artifact(&json!({ "reason": "build-finished" }), &any).is_empty());
        assert!(artifact(&json!([1, "two"]), &any).is_empty());
    }
}
