//! Plans of the user, which serve calls in preference to the built-in ones.
//!
//! They are the files `*.json` and `*.plan` of the directory that `MSCCLPP_NCCL_PLANS` names, and of the directory `default` in
//! that of `MSCCLPP_CACHE_DIR`, by name. Each is checked as every plan is; one that is not valid is left out with a warning, or
//! with `MSCCLPP_NCCL_STRICT=1` it is an error of each communicator's creation. A plan serves the calls that it is for: its
//! collective, ranks, nodes, mode, root, sizes and reduction; of several ones the first. `MSCCLPP_TUNING_TABLE` precedes them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mscclpp_select::{Algorithm, Registry};

use crate::abi::Code;
use crate::debug;
use crate::entry::{Failure, Result};

/// The variable that names a directory of plans.
pub(crate) const PLANS_VARIABLE: &str = "MSCCLPP_NCCL_PLANS";

/// The variable that makes plans that are not valid errors.
const STRICT_VARIABLE: &str = "MSCCLPP_NCCL_STRICT";

/// The variable that names the reference system's directory, whose plans are in `default`.
const CACHE_VARIABLE: &str = "MSCCLPP_CACHE_DIR";

/// Maximum number of plans.
const MAX_PLANS: usize = 1024;

/// A plan of the user, or why it cannot be used.
pub(crate) struct UserPlan {
    pub(crate) path: PathBuf,
    pub(crate) algorithm: std::result::Result<Algorithm, String>,
}

/// Returns whether a switch is on: it has a value other than `0` and the empty one.
fn is_on(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Returns whether plans that are not valid are errors.
pub(crate) fn is_strict() -> bool {
    is_on(STRICT_VARIABLE)
}

/// Returns the directories of plans.
fn directories() -> Vec<PathBuf> {
    let named = |variable| std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let default = named(CACHE_VARIABLE).map(|path| path.join("default"));
    // Programs of the reference system create the second one when they need it.
    named(PLANS_VARIABLE).into_iter().chain(default.filter(|path| path.is_dir())).collect()
}

/// Loads the plans of the user.
pub(crate) fn plans() -> Vec<UserPlan> {
    directories().iter().flat_map(|directory| load(directory)).take(MAX_PLANS).collect()
}

/// Loads the plans of a directory; one that cannot be read is reported as a plan.
fn load(directory: &Path) -> Vec<UserPlan> {
    let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut paths: Vec<PathBuf> = match entries {
        Ok(entries) => entries.into_iter().map(|entry| entry.path()).collect(),
        Err(error) => return vec![UserPlan { path: directory.to_owned(), algorithm: Err(error.to_string()) }],
    };
    let is_plan =
        |path: &Path| path.extension().is_some_and(|end| end == OsStr::new("json") || end == OsStr::new("plan"));
    paths.retain(|path| is_plan(path) && path.is_file());
    paths.sort();
    let load = |path: PathBuf| UserPlan { algorithm: Algorithm::load(&path).map_err(|error| error.to_string()), path };
    paths.into_iter().map(load).collect()
}

/// Adds plans to a registry; the result has a text for each one that is not valid.
fn add(registry: &mut Registry, plans: Vec<UserPlan>) -> Vec<String> {
    let mut invalid = Vec::new();
    for UserPlan { path, algorithm } in plans {
        match algorithm {
            Ok(algorithm) => {
                let mut name = algorithm.name().to_owned();
                let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                for number in 1.. {
                    if registry.find(&name).is_none() {
                        break;
                    }
                    let number = if number == 1 { String::new() } else { format!(", {number}") };
                    name = format!("{} ({file}{number})", algorithm.name());
                }
                debug::info(|| {
                    format!("{PLANS_VARIABLE}: `{name}` for {} of {}", algorithm.collective().name(), path.display())
                });
                if let Err(error) = registry.add(algorithm.with_name(name)) {
                    invalid.push(format!("{}: {error}", path.display()));
                }
            }
            Err(reason) => invalid.push(format!("{}: {reason}", path.display())),
        }
    }
    invalid
}

/// Returns the registry of the built-in plans, the user's plans and the tuning table, if there are plans of the user. The
/// environment is read once.
///
/// # Errors
/// An invalid usage for a table that cannot be read, and with `MSCCLPP_NCCL_STRICT=1` for a plan that is not valid.
pub(crate) fn from_env() -> &'static Result<Option<Registry>> {
    static REGISTRY: OnceLock<Result<Option<Registry>>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let plans = plans();
        if plans.is_empty() {
            return Ok(None);
        }
        let mut registry = Registry::from_env().map_err(mscclpp_exec::Error::from)?;
        let before = registry.iter().count();
        let invalid = add(&mut registry, plans);
        if is_strict() && !invalid.is_empty() {
            let text = format!("{STRICT_VARIABLE}=1, and a plan cannot be used: {}", invalid.join("; "));
            return Err(Failure::new(Code::InvalidUsage, text));
        }
        invalid.iter().for_each(|reason| debug::warn(&format!("a plan is left out: {reason}")));
        Ok((registry.iter().count() > before).then_some(registry))
    })
}

#[cfg(test)]
mod tests {
    use mscclpp_core::collective::CollectiveKind;
    use mscclpp_exec::DataType;
    use mscclpp_select::{DecidedBy, Request};

    use super::*;

    /// Writes the built-in plan of a request under two names, a file that is no plan, and one that is not read.
    fn directory(name: &str) -> PathBuf {
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 1 << 20);
        let registry = Registry::builtin();
        let plan = registry.plan(&request, &registry.select(&request).expect("built in")).expect("built in");
        let directory = std::env::temp_dir().join(format!("mscclpp-nccl-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        for file in ["b.plan", "a.plan"] {
            std::fs::write(directory.join(file), plan.to_bytes(mscclpp_core::plan::Format::Image)).expect("written");
        }
        std::fs::write(directory.join("c.json"), "{}").expect("written");
        std::fs::write(directory.join("README"), "no plan").expect("written");
        directory
    }

    #[test]
    fn plans_of_a_directory_precede_the_built_in_ones() {
        let directory = directory("precede");
        let plans = load(&directory);
        std::fs::remove_dir_all(&directory).expect("removed");
        let files: Vec<_> = plans.iter().map(|plan| plan.path.file_name().expect("a file").to_owned()).collect();
        assert_eq!(files, ["a.plan", "b.plan", "c.json"]);
        let mut registry = Registry::builtin();
        let built_in = registry.iter().count();
        let invalid = add(&mut registry, plans);
        assert_eq!((invalid.len(), registry.iter().count()), (1, built_in + 2), "{invalid:?}");
        assert!(invalid[0].contains("c.json"), "{invalid:?}");
        let select =
            |bytes, ranks| registry.select(&Request::new(CollectiveKind::AllReduce, ranks, DataType::I32, bytes));
        let decision = select(1 << 20, 2).expect("a plan");
        assert_eq!(decision.decided_by, DecidedBy::Added);
        assert!(decision.algorithm.name().ends_with("(a.plan)"), "{}", decision.algorithm.name());
        assert_ne!(select(1 << 20, 4).expect("a plan").decided_by, DecidedBy::Added);
    }

    #[test]
    fn directory_that_is_missing_is_reported() {
        let plans = load(Path::new("/nonexistent/plans"));
        assert_eq!(plans.len(), 1);
        assert!(plans[0].algorithm.is_err());
    }
}
