//! `mscclpp plan diff`: compares two plans by meaning.

use std::fmt::{self, Display, Formatter};
use std::process::ExitCode;

use mscclpp_core::plan::diff::{Difference, diff as differences};
use serde_json::{Value, json};

use crate::args::DiffArgs;
use crate::error::{Error, Result};
use crate::output::{print, print_json};
use crate::progress::Progress;
use crate::{exit, source};

/// Compares two plans.
///
/// # Errors
/// Those of loading; [`Error::Usage`] if both are read from standard input; failures of standard output.
pub(crate) fn diff(args: &DiffArgs) -> Result<ExitCode> {
    if args.a == "-" && args.b == "-" {
        return Err(Error::Usage("only one of the two plans can come from standard input".into()));
    }
    let a = source::load_with(&args.a, &args.build)?.warned();
    let b = source::load_with(&args.b, &args.build)?.warned();
    let found = {
        let _working = Progress::spinner("comparing");
        differences(&a, &b)
    };
    if args.json {
        print_json(&json!({
            "equal": found.is_empty(),
            "differences": found.iter().map(value).collect::<Vec<_>>(),
        }))?;
    } else {
        print(Listing(&found))?;
    }
    Ok(ExitCode::from(if found.is_empty() { exit::SUCCESS } else { exit::FAILURE }))
}

fn value(difference: &Difference) -> Value {
    json!({
        "rank": difference.rank,
        "threadblock": difference.block,
        "op": difference.op,
        "what": difference.what,
        "a": difference.left,
        "b": difference.right,
    })
}

/// All differences as text, one per line, followed by their number.
struct Listing<'a>(&'a [Difference]);

impl Display for Listing<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for difference in self.0 {
            writeln!(f, "{difference}")?;
        }
        match self.0.len() {
            0 => writeln!(f, "the plans are equivalent"),
            1 => writeln!(f, "1 difference"),
            n => writeln!(f, "{n} differences"),
        }
    }
}
