//! `mscclpp plan export`: a plan as JSON.

use std::process::ExitCode;

use mscclpp_core::plan::export::{for_reference, warnings_for_reference};
use mscclpp_core::plan::json::{self, Style};

use crate::args::{ExportArgs, Target};
use crate::error::{Error, Result};
use crate::output::{print, warn, write_file};
use crate::{exit, source};

/// Writes a plan to a file or to standard output.
///
/// # Errors
/// Those of loading; findings if the target format cannot represent the plan; failures of the output.
pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let mut plan = source::load(&args.source)?.warned();
    if args.target == Target::Mscclpp {
        plan = for_reference(&plan).map_err(|findings| Error::Findings {
            what: format!("plan `{}` was not exported: the MSCCL++ executor cannot run it", plan.name),
            findings,
        })?;
        warnings_for_reference(&plan).iter().for_each(warn);
    }
    let text = json::write(&plan, if args.compact { Style::Compact } else { Style::Pretty });
    match args.output.as_deref() {
        Some(path) if path.as_os_str() != "-" => write_file(path, text.as_bytes())?,
        _ => print(text)?,
    }
    Ok(ExitCode::from(exit::SUCCESS))
}
