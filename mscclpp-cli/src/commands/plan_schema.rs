//! `mscclpp plan schema`: which JSON the reader of plan files accepts, as a JSON Schema.

use std::process::ExitCode;

use crate::error::Result;
use crate::exit;
use crate::output::print;

/// The schema, which `docs/plan.schema.json` repeats.
const SCHEMA: &str = include_str!("plan.schema.json");

/// Prints the schema.
///
/// # Errors
/// Failures of standard output.
pub(crate) fn schema() -> Result<ExitCode> {
    print(SCHEMA)?;
    Ok(ExitCode::from(exit::SUCCESS))
}
