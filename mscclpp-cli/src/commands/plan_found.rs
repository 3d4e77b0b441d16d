//! `mscclpp plan list FILE…` and `cargo mscclpp list`: the plans of files.

use std::path::PathBuf;
use std::process::ExitCode;

use mscclpp_core::plan::Plan;
use serde_json::{Value, json};

use crate::artifacts::{Artifacts, Found};
use crate::error::Result;
use crate::output::{print, print_json};
use crate::table::Columns;
use crate::{exit, source};

/// The plans of programs, libraries and plan files.
///
/// # Errors
/// Files that cannot be read or are too long, JSON that is no plan, and [`NoPlans`](crate::error::Error::NoPlans).
pub(super) fn of_files(files: &[PathBuf]) -> Result<Artifacts> {
    let mut artifacts = Artifacts::default();
    for path in files {
        let place = format!("`{}`", path.display());
        if path.extension().is_some_and(|extension| extension == "json" || extension == "plan") {
            artifacts.add_plan(Plan::new(&source::file(path)?.warned()), &place);
        } else {
            artifacts.add_file(path, &place)?;
        }
    }
    artifacts.require_plans()?;
    Ok(artifacts)
}

/// Lists plans, each with the files that contain it.
///
/// # Errors
/// Failures of standard output.
pub(super) fn list(artifacts: &Artifacts, as_json: bool) -> Result<ExitCode> {
    let mut plans: Vec<_> = artifacts.plans.iter().collect();
    plans.sort_by_key(|found| {
        (found.plan.collective().kind.name(), found.plan.name(), found.plan.num_ranks(), found.plan.hash())
    });
    if as_json {
        print_json(&plans.into_iter().map(value).collect())?;
    } else {
        let mut table = Columns::new(&["name", "collective", ">ranks", "in place", "hash", "found in"]);
        for found in plans {
            let collective = found.plan.collective();
            table.row([
                found.plan.name().to_owned(),
                collective.kind.name().to_owned(),
                found.plan.num_ranks().to_string(),
                if collective.in_place { "yes" } else { "no" }.to_owned(),
                found.hash(),
                found.places.join(", "),
            ]);
        }
        let builtin = match artifacts.num_builtin() {
            0 => String::new(),
            number => format!("\nPlans of the library's algorithms, not listed: {number}\n"),
        };
        print(format!("{}\n{builtin}", table.text()))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

fn value(found: &Found) -> Value {
    let (plan, collective) = (&found.plan, found.plan.collective());
    json!({
        "name": plan.name(),
        "collective": collective.kind.name(),
        "ranks": plan.num_ranks(),
        "ranks_per_node": plan.ranks_per_node(),
        "in_place": collective.in_place,
        "hash": format!("{:032x}", plan.hash()),
        "bytes": plan.image().len(),
        "found_in": found.places,
    })
}
