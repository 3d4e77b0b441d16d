//! `mscclpp timeline`: shows the timelines of a real run as a page.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use mscclpp_trace::EventReader;
use serde_json::Value;

use crate::args::TimelineArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::output::write_file;

/// Maximum number of launches that an error lists.
const MAX_LISTED: usize = 20;

/// Reads timelines and writes the page.
///
/// # Errors
/// [`Error::Read`] for a file that cannot be read, [`Error::Usage`] for one that is no trace; failures of the output.
pub(crate) fn timeline(args: &TimelineArgs) -> Result<ExitCode> {
    let mut reader = EventReader::default();
    let found = RefCell::new(BTreeSet::new());
    let keep = |details: &serde_json::Map<String, Value>| {
        let launch = details.get("launch").and_then(Value::as_u64);
        found.borrow_mut().extend(launch);
        args.launch.is_none_or(|asked| launch == Some(asked))
    };
    let invalid = |path: &Path, error| Error::Usage(format!("{}: {error}", path.display()));
    for path in &args.files {
        let text = std::fs::read(path).map_err(|source| Error::Read { path: path.clone(), source })?;
        reader.add(&text, keep).map_err(|error| invalid(path, error))?;
    }
    let mut trace = reader.finish().map_err(|error| match args.launch {
        Some(launch) => {
            let found: Vec<_> = found.borrow().iter().take(MAX_LISTED).map(u64::to_string).collect();
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            Error::Usage(format!("--launch {launch}: expected the number of a recorded launch, found {found}"))
        }
        None => invalid(&args.files[0], error),
    })?;
    let mut plans: Vec<&str> =
        trace.slices.iter().filter_map(|slice| slice.details.get("plan").and_then(Value::as_str)).collect();
    plans.sort_unstable();
    plans.dedup();
    let of = if plans.is_empty() { String::new() } else { format!(" of {}", plans.join(", ")) };
    let launch = args.launch.map_or_else(String::new, |launch| format!(", launch {launch}"));
    trace.title = format!("timeline{of}{launch}");
    trace.notes.push("Times are measured; the light part of an operation is the time in which it waited.".to_owned());
    write_file(&args.html, trace.page().as_bytes())?;
    Ok(ExitCode::from(exit::SUCCESS))
}
