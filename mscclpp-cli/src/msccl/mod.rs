//! Algorithms of MSCCL, the system before MSCCL++: XML files, which become plans.
//!
//! * [`xml`] reads elements, each with its line.
//! * [`algorithm`] reads GPUs, thread blocks and steps from them, and matches sends with receives.
//! * [`program`] records them as a program.

mod algorithm;
mod program;
mod xml;

use mscclpp_core::diag::Diagnostics;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::PlanTree;

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq)]
pub(crate) struct Mistake {
    /// The line, from 1.
    pub(crate) line: u32,
    /// The element, with those that contain it; empty if the text is no XML.
    pub(crate) element: String,
    /// What was expected, and what was found.
    pub(crate) reason: String,
}

/// Why a file has no plan.
#[derive(Debug)]
pub(crate) enum ImportError {
    /// A mistake of the file.
    Mistake(Mistake),
    /// What the recorder or lowering finds, with the lines of steps.
    Program(Diagnostics),
}

/// Returns whether the bytes of a file are XML.
pub(crate) fn is_xml(file: &[u8]) -> bool {
    let file = file.strip_prefix("\u{feff}".as_bytes()).unwrap_or(file);
    file.trim_ascii_start().first() == Some(&b'<')
}

/// Returns the plan of a file, whose name is for messages. The plan is not checked.
///
/// # Errors
/// [`ImportError`].
pub(crate) fn import(file: &[u8], name: &str) -> Result<PlanTree, ImportError> {
    let text = std::str::from_utf8(file).map_err(|error| {
        let before = &file[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count() as u32;
        ImportError::Mistake(Mistake { line, element: String::new(), reason: "expected text in UTF-8".to_owned() })
    })?;
    let root = xml::parse(text).map_err(ImportError::Mistake)?;
    let algorithm = algorithm::Algorithm::read(&root).map_err(ImportError::Mistake)?;
    let trace = program::record(&algorithm, name).map_err(ImportError::Program)?;
    lower(&trace).map_err(ImportError::Program)
}

#[cfg(test)]
mod tests;
