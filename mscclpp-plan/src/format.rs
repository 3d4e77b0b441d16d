//! Formats of plan files.

use std::path::Path;

use super::json::{self, ReadOptions, Style};
use super::{Plan, PlanTree, text};
use crate::diag::{Diagnostic, Diagnostics};

impl Plan {
    /// Returns the plan as MSCCL++ JSON, which `load` reads.
    pub fn to_json(&self) -> String {
        json::write(&self.tree(), Style::Pretty)
    }

    /// Returns the plan as [text], which `load` reads.
    pub fn to_text(&self) -> String {
        self.to_string()
    }

    /// Returns the bytes of a file of a format, which `load` reads.
    pub fn to_bytes(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Json => self.to_json().into_bytes(),
            Format::Text => self.to_text().into_bytes(),
            Format::Image => self.image().to_vec(),
        }
    }
}

impl PlanTree {
    /// Reads a plan from the bytes of a file in any of the [formats](Format), determined by how the bytes begin.
    /// Returns the plan and the warnings. Checks nothing but the format.
    ///
    /// # Errors
    /// Everything in which the bytes differ from the format; for text, the first mistake.
    pub fn read(bytes: &[u8], options: ReadOptions) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let failed = |error: Diagnostic| Diagnostics::from(error);
        if Plan::is_image(bytes) {
            let plan = Plan::from_bytes(bytes.to_vec()).map_err(|error| failed(error.into()))?;
            return Ok((plan.tree(), Vec::new()));
        }
        if text::is_text(bytes) {
            let tree = text::decode(bytes).and_then(text::parse).map_err(|error| failed(error.into()))?;
            return Ok((tree, Vec::new()));
        }
        json::read_bytes(bytes, options)
    }
}

/// Format of a plan file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// MSCCL++ JSON, `.json`.
    Json,
    /// [Text](text), `.plan`.
    Text,
    /// The image, `.mscclpp`.
    Image,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::Json, Self::Text, Self::Image];

    /// Returns the extension of file names, without its dot.
    #[doc(hidden)]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Text => "plan",
            Self::Image => "mscclpp",
        }
    }

    /// Returns the format that the extension of a file's name implies.
    #[doc(hidden)]
    pub fn of_path(path: &Path) -> Option<Self> {
        Self::ALL.into_iter().find(|format| path.extension().is_some_and(|found| found == format.extension()))
    }
}
