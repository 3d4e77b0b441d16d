//! Runs the binary and looks at what it did.
#![allow(dead_code, reason = "each test file uses its part")]

pub(crate) mod outside;
pub(crate) mod plans;

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Stdio};

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_mscclpp");

/// What a run of the binary left.
pub(crate) struct Run {
    words: String,
    code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `mscclpp` with these arguments and an empty standard input.
pub(crate) fn mscclpp<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(words: I) -> Run {
    mscclpp_reading(words, "")
}

/// Runs `mscclpp` with these arguments and this standard input.
pub(crate) fn mscclpp_reading<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(words: I, input: &str) -> Run {
    let mut command = Command::new(BINARY);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let text = format!("{command:?}");
    let mut child = command.spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    // Fed beside the reading, so that neither side can block the other; a child that does not read is fine.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().expect("the binary ends");
    feeder.join().expect("the feeder does not panic");
    let run = Run {
        words: text,
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
    };
    assert!(run.code.is_some(), "{} ended by a signal: {}", run.words, run.stderr);
    assert!(!run.stderr.contains("panicked at"), "{} panicked: {}", run.words, run.stderr);
    run
}

impl Run {
    /// Asserts the exit code.
    #[track_caller]
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{}\n{}\n{}", self.words, self.stdout, self.stderr);
        self
    }

    /// Asserts exit code 0.
    #[track_caller]
    pub(crate) fn succeeds(self) -> Self {
        self.ends_with(0)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> i32 {
        self.code.expect("not ended by a signal: asserted when it ran")
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{}: {e}\n{}", self.words, self.stdout))
    }
}
