//! File tests: the plans of `mscclpp-core/filetests`, each with what is expected of it in comments.
//!
//! ```text
//! ; What the plan shows.
//! ; run: check fuzz cpu device        the runners that take it
//! ; device: mscclpp                   a device that it has to fit, for the runner `check`
//! ; strict                            warnings are findings, for the runner `check`
//! ; accepted                          no findings
//! ; error: M0206 all ranks have       a finding without a line: its code and a part of its message
//! plan example
//! …
//!     signal memory rank 1  ; error: M0201 a part of its message      a finding at this line
//! ```
//!
//! The tests of several crates read this file: the runner `check` is in `mscclpp-core` (`MSCCLPP_BLESS=1` writes its findings into
//! the files), `fuzz` in `mscclpp-fuzz`, `cpu` in `mscclpp-exec`, `device` in `dev`.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part of this")]

use std::fs;
use std::path::{Path, PathBuf};

use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::plan::text::{TextError, parse_file};

/// Where a finding begins in a line.
const ERROR: &str = "; error: ";

/// The runners.
const RUNNERS: [&str; 4] = ["check", "fuzz", "cpu", "device"];

/// A plan file with what is expected of it.
pub struct FileTest {
    /// The path below the folder of all.
    pub name: String,
    pub path: PathBuf,
    pub text: String,
    runners: Vec<String>,
}

/// A finding that is expected, or was made: its line, if it has one, and its text.
pub type Finding = (Option<usize>, String);

/// The tests for a runner, by name.
pub fn tests(runner: &str) -> Vec<FileTest> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mscclpp-core/filetests");
    let mut found = Vec::new();
    for folder in fs::read_dir(&root).expect("the folder of file tests") {
        for file in fs::read_dir(folder.expect("a folder").path()).expect("a folder of plans") {
            let path = file.expect("a plan").path();
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(&root).expect("a path below the folder").display().to_string();
            let runners = directive(&text, "run").unwrap_or_else(|| panic!("{name} has no line `; run: …`"));
            let runners: Vec<_> = runners.split_whitespace().map(str::to_owned).collect();
            assert!(runners.iter().all(|runner| RUNNERS.contains(&&**runner)), "{name}: {runners:?}");
            found.push(FileTest { name, path, text, runners });
        }
    }
    found.retain(|test| test.runs(runner));
    found.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(found.len() > 10, "only {} tests for {runner}", found.len());
    found
}

/// The value of a line `; key: value`.
fn directive<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix("; ")?.strip_prefix(key)?.strip_prefix(": "))
}

impl FileTest {
    pub fn runs(&self, runner: &str) -> bool {
        self.runners.iter().any(|other| other == runner)
    }

    /// Returns whether the plan is expected to be accepted.
    pub fn is_accepted(&self) -> bool {
        self.text.lines().any(|line| line == "; accepted")
    }

    /// Returns whether warnings are findings.
    pub fn is_strict(&self) -> bool {
        self.text.lines().any(|line| line == "; strict")
    }

    /// The device that the plan has to fit.
    pub fn device(&self) -> Option<&str> {
        directive(&self.text, "device")
    }

    /// The plan; findings point at lines of its file.
    pub fn parse(&self) -> Result<PlanTree, TextError> {
        parse_file(&self.text, &self.name)
    }

    /// The plan of a test that is not about the parser.
    pub fn plan(&self) -> PlanTree {
        self.parse().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// The findings that the comments list.
    pub fn expected(&self) -> Vec<Finding> {
        let mut expected = Vec::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            let mut parts = line.split(ERROR);
            let has_code = parts.next().is_some_and(|code| !code.trim().is_empty());
            expected.extend(parts.map(|text| (has_code.then_some(number), text.trim().to_owned())));
        }
        expected
    }

    /// The test without what is expected of it.
    pub fn without_expectations(&self) -> Self {
        let mut text = String::new();
        for line in self.text.lines().filter(|line| *line != "; accepted" && !line.starts_with(ERROR)) {
            text += line.split(ERROR).next().unwrap_or_default().trim_end();
            text.push('\n');
        }
        Self { name: self.name.clone(), path: self.path.clone(), text, runners: self.runners.clone() }
    }

    /// The text with findings that were made in [`without_expectations`](Self::without_expectations).
    pub fn with_findings(&self, findings: &[Finding]) -> String {
        let mut text = String::new();
        for (number, line) in (1..).zip(self.text.lines()) {
            text += line;
            for (_, found) in findings.iter().filter(|(at, _)| *at == Some(number)) {
                text += &format!("  {ERROR}{found}");
            }
            text.push('\n');
            if line.starts_with("; run: ") {
                text += if findings.is_empty() { "; accepted\n" } else { "" };
                for (_, found) in findings.iter().filter(|(at, _)| at.is_none()) {
                    text += &format!("{ERROR}{found}\n");
                }
            }
        }
        text
    }
}
