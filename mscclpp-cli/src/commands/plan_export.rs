//! `mscclpp plan export`: a plan as JSON, text or image.

use std::process::ExitCode;

use mscclpp_core::check::{Checks, dividing_counts};
use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::export::{for_reference, warnings_for_reference};
use mscclpp_core::plan::json::{self, Style};
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::plan::{Format, Plan, text};

use crate::args::{ExportArgs, Target};
use crate::error::{Error, Result};
use crate::output::{print, print_bytes, warn, write_file};
use crate::{exit, source};

/// Returns the warning about a plan for dividing counts, which the reference's format cannot state.
fn restriction(plan: &PlanTree) -> Diagnostic {
    let message = format!(
        "the plan takes {} only, which the MSCCL++ format cannot state: other counts give wrong results wherever they are not rejected",
        dividing_counts(plan)
    );
    Diagnostic::new(Code::NotInReference, Site::None, message)
        .help("launch the exported plan with such counts only, or move data through scratch so that the plan takes all counts")
}

/// Writes a plan to a file or to standard output.
///
/// # Errors
/// Those of loading; findings if the target format cannot represent the plan; failures of the output.
pub(crate) fn export(args: &ExportArgs) -> Result<ExitCode> {
    let mut plan = source::load(&args.source)?.warned();
    if args.target == Target::Mscclpp {
        // Also of a file that does not state it. What else the checks find is no matter of the target.
        _ = Checks::default().run_or_restrict(&mut plan);
        if plan.collective.dividing {
            warn(restriction(&plan));
        }
        plan = for_reference(&plan).map_err(|findings| Error::Findings {
            what: format!("plan `{}` was not exported: the MSCCL++ executor cannot run it", plan.name),
            findings,
        })?;
        warnings_for_reference(&plan).iter().for_each(warn);
    }
    let file = args.output.as_deref().filter(|path| path.as_os_str() != "-");
    let format = args.format.map(Format::from).or_else(|| file.and_then(Format::of_path)).unwrap_or(Format::Json);
    if args.compact && format != Format::Json {
        return Err(Error::Usage("--compact is for the format json".into()));
    }
    let text = match format {
        Format::Json => json::write(&plan, if args.compact { Style::Compact } else { Style::Pretty }),
        Format::Text => text::print(&plan),
        Format::Image => {
            let plan = Plan::new(&plan);
            file.map_or_else(|| print_bytes(plan.image()), |path| write_file(path, plan.image()))?;
            return Ok(ExitCode::from(exit::SUCCESS));
        }
    };
    match file {
        Some(path) => write_file(path, text.as_bytes())?,
        None => print(text)?,
    }
    Ok(ExitCode::from(exit::SUCCESS))
}
