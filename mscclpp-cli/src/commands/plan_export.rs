//! `mscclpp plan export`: a plan as JSON.

use std::process::ExitCode;

use mscclpp_core::plan::json::{self, Style};

use crate::args::ExportArgs;
use crate::error::Result;
use crate::output::{print, warn, write_file};
use crate::{exit, source};

/// Writes a plan to a file or to standard output.
///
/// # Errors
/// What loading brings; findings if the target cannot hold the plan; failures of the output.
pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let source = source::load(&args.source)?;
    for warning in &source.warnings {
        warn(&warning.to_string());
    }
    let style = if args.compact { Style::Compact } else { Style::Pretty };
    let text = json::write(&source.plan, style);
    match args.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => write_file(path, text.as_bytes())?,
        _ => print(&text)?,
    }
    Ok(ExitCode::from(exit::DONE))
}
