//! `mscclpp analyze`: analyzes the dumps of a failed job together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mscclpp_communicator::flight_recorder::{Analysis, Dump, analyze as analyze_dumps};
use serde_json::json;

use super::analyze_page;
use crate::args::AnalyzeArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json, warn, write_file};

/// Reads dumps and prints their analysis.
///
/// # Errors
/// [`Error::Read`] for a folder and [`Error::Dump`] for a file that cannot be read; [`Error::Usage`] if there is no
/// dump; failures of standard output.
pub(crate) fn analyze(args: &AnalyzeArgs) -> Result<ExitCode> {
    let mut files = Vec::new();
    for path in &args.dumps {
        collect(path, &mut files)?;
    }
    if files.is_empty() {
        return Err(Error::Usage("no dumps found: expected files with the extension .jsonl".into()));
    }
    let dumps = files.iter().map(Dump::load).collect::<std::result::Result<Vec<_>, _>>()?;
    let groups = analyze_dumps(&dumps);
    let num_jobs = groups.iter().map(|group| &group.job).collect::<BTreeSet<_>>().len();
    if num_jobs > 1 {
        warn(format_args!("the dumps are of {num_jobs} jobs, each of which is analyzed alone"));
    }
    if let Some(path) = &args.html {
        write_file(path, analyze_page::trace(&groups, &dumps).page().as_bytes())?;
    }
    if args.json {
        print_json(&json!({ "groups": groups }))?;
    } else {
        let text = |group: &Analysis| match num_jobs {
            1 => group.to_string(),
            _ => format!("job {}: {group}", group.job),
        };
        let texts: Vec<_> = groups.iter().map(text).collect();
        print(texts.join("\n"))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Adds a file, or the dumps in a folder, the oldest first, so that the last one of a rank counts.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().extension().is_some_and(|extension| extension == "jsonl") {
            let written = entry.metadata().and_then(|data| data.modified()).map_err(failed)?;
            found.push((written, entry.path()));
        }
    }
    found.sort();
    files.extend(found.into_iter().map(|(_, path)| path));
    Ok(())
}
