//! What the environment states of selection, for calls through all interfaces.
//!
//! | variable | meaning |
//! |---|---|
//! | `MSCCLPP_PLANS` | a directory: its `*.json` and `*.plan` files precede the built-in plans, by name |
//! | `MSCCLPP_CACHE_DIR` | the reference system's directory, whose folder `default` has plans too, if it exists |
//! | `MSCCLPP_PLANS_STRICT` | set and not 0: a plan that cannot be used is an error; otherwise it is left out with a warning |
//! | `MSCCLPP_TUNING_TABLE` | a tuning table |
//! | `MSCCLPP_MACHINE` | a machine description, by name or as a file: calls follow the times that are predicted for it |
//! | `MSCCLPP_ORDER` | what calls demand of the order of reduction, as [`OrderPolicy`] names it |
//!
//! Each plan is checked as every plan is. It serves the calls that it is for: its collective, ranks, nodes, mode, root, sizes and
//! reduction; of several the one that [`Registry`] selects.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use mscclpp_core::check::LoadOptions;
use mscclpp_core::plan::Plan;

use super::algorithm::{Algorithm, load, read};
use super::defaults::Defaults;
use super::error::LoadError;
use super::order::OrderPolicy;
use super::plan_file::PlanFile;
use super::prediction::{MACHINE_VARIABLE, load as load_machine};
use super::registry::Registry;
use super::tuning::{TABLE_VARIABLE, TableError, TuningTable};
use mscclpp_base::Error;

/// The variable that names a directory of plans.
const PLANS_VARIABLE: &str = "MSCCLPP_PLANS";

/// The variable that makes plans that cannot be used errors.
const STRICT_VARIABLE: &str = "MSCCLPP_PLANS_STRICT";

/// The variable that names the reference system's directory, whose plans are in `default`.
const CACHE_VARIABLE: &str = "MSCCLPP_CACHE_DIR";

/// The variable that names an [`OrderPolicy`].
const ORDER_VARIABLE: &str = "MSCCLPP_ORDER";

/// Maximum number of plan files.
const MAX_FILES: usize = 1024;

/// Why the environment cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnvironmentError {
    /// The tuning table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Plan files, with `MSCCLPP_PLANS_STRICT`.
    #[error("{STRICT_VARIABLE}=1, and a plan cannot be used: {reasons}. Fix or remove it, or unset the variable")]
    Plans {
        /// The files, each with why it cannot be used.
        reasons: String,
    },
    /// A machine description.
    #[error("{MACHINE_VARIABLE}={value}: {reason}")]
    Machine {
        /// What it is set to.
        value: String,
        /// Why it cannot be used.
        reason: String,
    },
    /// A policy that does not exist.
    #[error("{ORDER_VARIABLE}={value}: expected {}", OrderPolicy::ALL.map(OrderPolicy::name).join(", "))]
    Order {
        /// What it is set to.
        value: String,
    },
}

impl From<EnvironmentError> for Error {
    fn from(error: EnvironmentError) -> Self {
        match error {
            EnvironmentError::Table(error) => error.into(),
            other => Self::Environment(other.to_string()),
        }
    }
}

impl Registry {
    /// Creates a registry of the built-in algorithms, with the plans that the process has [registered](crate::defaults), and the plans and
    /// the tuning table and the machine that the environment names: `MSCCLPP_PLANS`, `MSCCLPP_CACHE_DIR`, `MSCCLPP_PLANS_STRICT`,
    /// `MSCCLPP_TUNING_TABLE`, `MSCCLPP_MACHINE`.
    ///
    /// # Errors
    /// [`EnvironmentError`], also for `MSCCLPP_ORDER`, which calls follow whatever their registry.
    pub fn from_env() -> Result<Self, EnvironmentError> {
        Self::with_defaults(&Defaults::current(), [])
    }

    /// Creates a registry as [`from_env`](Self::from_env) does, with what was set in the process at another time, and algorithms of other
    /// names. Plans of directories get names that are different from all of these.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    #[doc(hidden)]
    pub fn with_defaults(
        defaults: &Defaults,
        others: impl IntoIterator<Item = Algorithm>,
    ) -> Result<Self, EnvironmentError> {
        OrderPolicy::from_env()?;
        let mut registry = Self::builtin();
        // Their names are different from each other and from those of built-in algorithms.
        defaults.algorithms().chain(others).for_each(|algorithm| _ = registry.add(algorithm));
        if let Some(path) = variable(TABLE_VARIABLE) {
            registry.set_table(Some(TuningTable::load(PathBuf::from(path))?));
        }
        if let Some(value) = variable(MACHINE_VARIABLE) {
            let value = value.to_string_lossy().into_owned();
            let machine = load_machine(&value).map_err(|reason| EnvironmentError::Machine { value, reason })?;
            registry.set_machine(Some(machine));
        }
        directories().iter().for_each(|directory| registry.add_directory(directory));
        let refused = registry.files().iter().filter_map(PlanFile::refusal);
        let refused: Vec<_> = refused.collect();
        if is_strict() && !refused.is_empty() {
            return Err(EnvironmentError::Plans { reasons: refused.join("; ") });
        }
        refused.iter().for_each(|reason| log::warn!("a plan is left out: {reason}"));
        Ok(registry)
    }

    /// Adds the plan files of a directory, as far as they can be used; [`files`](Self::files) tells which.
    #[doc(hidden)]
    pub fn add_directory(&mut self, directory: &Path) {
        let entries = std::fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = match entries {
            Ok(entries) => entries.into_iter().map(|entry| entry.path()).collect(),
            Err(error) => {
                let refused = PlanFile { path: directory.to_owned(), outcome: Err(error.to_string()) };
                return self.push_file(refused);
            }
        };
        let is_plan =
            |path: &Path| path.extension().is_some_and(|end| end == OsStr::new("json") || end == OsStr::new("plan"));
        // A link to a file that is missing is reported.
        paths.retain(|path| is_plan(path) && !path.is_dir());
        paths.sort();
        let (found, left) = (paths.len(), MAX_FILES.saturating_sub(self.files().len()));
        for path in paths.into_iter().take(left) {
            let outcome = self.add_file(&path);
            self.push_file(PlanFile { path, outcome });
        }
        if found > left {
            let reason = format!("expected at most {MAX_FILES} files in all; {} more are not read", found - left);
            self.push_file(PlanFile { path: directory.to_owned(), outcome: Err(reason) });
        }
    }

    fn add_file(&mut self, path: &Path) -> Result<(String, &'static str), String> {
        let algorithm = Algorithm::plan(checked(path)?);
        let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // Several files may have plans of one name.
        let mut name = algorithm.name().to_owned();
        for number in 1.. {
            if self.find(&name).is_none() {
                break;
            }
            let number = if number == 1 { String::new() } else { format!(", {number}") };
            name = format!("{} ({file}{number})", algorithm.name());
        }
        let collective = algorithm.collective().name();
        self.add(algorithm.with_name(name.clone())).map_err(|error| error.to_string())?;
        Ok((name, collective))
    }
}

/// A plan file that was checked: the hash of its bytes, and the plan or why it cannot be used.
type CheckedFile = (u64, Result<Plan, String>);

/// Returns the plan of a file, or why it cannot be used. A file is checked again only when its bytes have changed: each new communicator
/// reads it. Sizes and times are not enough, since a file can be replaced within the resolution of its time.
fn checked(path: &Path) -> Result<Plan, String> {
    static CHECKED: Mutex<BTreeMap<PathBuf, CheckedFile>> = Mutex::new(BTreeMap::new());
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let lock = || CHECKED.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = read(path).map_err(|error| reason(&error))?;
    let hash = KEYS.hash_one(&bytes);
    if let Some((of, result)) = lock().get(path)
        && *of == hash
    {
        return result.clone();
    }
    let result = load(path, &bytes, &LoadOptions::default()).map_err(|error| reason(&error));
    let mut files = lock();
    if files.len() >= MAX_FILES {
        files.clear();
    }
    files.insert(path.to_owned(), (hash, result.clone()));
    result
}

/// Returns why a file cannot be used, in one line: the caller names it, and the command lists all findings.
fn reason(error: &LoadError) -> String {
    let LoadError::NotAPlan { findings, .. } = error else { return error.to_string() };
    let first = findings.iter().next().map(|finding| finding.message.as_str()).unwrap_or_default();
    match findings.len() {
        0 | 1 => format!("{first}; see `mscclpp check`"),
        number => format!("{first}, and {} more findings; see `mscclpp check`", number - 1),
    }
}

impl OrderPolicy {
    /// Returns the policy that `MSCCLPP_ORDER` names; the default one if it is not set.
    ///
    /// # Errors
    /// [`EnvironmentError::Order`].
    #[doc(hidden)]
    pub fn from_env() -> Result<Self, EnvironmentError> {
        let Some(value) = variable(ORDER_VARIABLE) else { return Ok(Self::default()) };
        let value = value.to_string_lossy().into_owned();
        Self::from_name(&value).ok_or(EnvironmentError::Order { value })
    }
}

/// Returns the plan files that the environment names.
#[doc(hidden)]
pub fn plan_files() -> Vec<PlanFile> {
    let mut registry = Registry::builtin();
    directories().iter().for_each(|directory| registry.add_directory(directory));
    registry.files().to_vec()
}

/// Returns whether plans that cannot be used are errors.
#[doc(hidden)]
pub fn is_strict() -> bool {
    variable(STRICT_VARIABLE).is_some_and(|value| value != "0")
}

/// Returns the directories of plans.
fn directories() -> Vec<PathBuf> {
    let default = variable(CACHE_VARIABLE).map(|path| PathBuf::from(path).join("default"));
    // Programs of the reference system create the second one when they need it.
    variable(PLANS_VARIABLE).map(PathBuf::from).into_iter().chain(default.filter(|path| path.is_dir())).collect()
}

/// Returns a variable that is set and not empty.
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use mscclpp_base::DataType;
    use mscclpp_core::collective::CollectiveKind;
    use mscclpp_core::plan::Format;

    use super::*;
    use crate::{DecidedBy, Request};

    #[test]
    fn plans_of_a_directory_precede_the_built_in_ones() {
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 1 << 20);
        let mut registry = Registry::builtin();
        let plan = registry.plan(&request, &registry.select(&request).expect("built in")).expect("built in");
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["b.plan", "a.plan"] {
            std::fs::write(folder.path().join(file), plan.to_bytes(Format::Image)).expect("written");
        }
        std::fs::write(folder.path().join("c.json"), "{}").expect("written");
        std::fs::write(folder.path().join("README"), "no plan").expect("written");
        std::fs::create_dir(folder.path().join("folder.json")).expect("created");
        let built_in = registry.iter().count();
        registry.add_directory(folder.path());
        let files: Vec<_> = registry.files().iter().map(|file| file.path.file_name().expect("a file")).collect();
        assert_eq!(files, ["a.plan", "b.plan", "c.json"]);
        let refused: Vec<_> = registry.files().iter().filter_map(PlanFile::refusal).collect();
        assert_eq!((refused.len(), registry.iter().count()), (1, built_in + 2), "{refused:?}");
        assert!(refused[0].contains("c.json"), "{refused:?}");
        let select =
            |bytes, ranks| registry.select(&Request::new(CollectiveKind::AllReduce, ranks, DataType::I32, bytes));
        let decision = select(1 << 20, 2).expect("a plan");
        assert_eq!(decision.decided_by, DecidedBy::Added);
        assert!(decision.algorithm.name().ends_with("(a.plan)"), "{}", decision.algorithm.name());
        assert_ne!(select(1 << 20, 4).expect("a plan").decided_by, DecidedBy::Added);
        assert!(registry.explain(&request).to_string().contains("c.json"), "{}", registry.explain(&request));
    }

    #[test]
    fn file_is_checked_again_only_when_it_has_changed() {
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 1 << 20);
        let registry = Registry::builtin();
        let plan = registry.plan(&request, &registry.select(&request).expect("built in")).expect("built in");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.plan");
        let text = plan.to_bytes(Format::Text);
        std::fs::write(&path, &text).expect("written");
        let changed = std::fs::metadata(&path).and_then(|data| data.modified()).expect("a time");
        let first = checked(&path).expect("a plan");
        assert_eq!(checked(&path).expect("a plan").name().as_ptr(), first.name().as_ptr());
        // Another file with the same time and length.
        let other = folder.path().join("other");
        std::fs::write(&other, vec![b' '; text.len()]).expect("written");
        std::fs::File::options().write(true).open(&other).and_then(|file| file.set_modified(changed)).expect("set");
        std::fs::rename(&other, &path).expect("renamed");
        checked(&path).expect_err("it has changed");
        std::fs::remove_file(&path).expect("removed");
        assert!(checked(&path).expect_err("it is missing").contains("cannot read plan file"));
    }

    #[test]
    fn files_beyond_the_limit_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..MAX_FILES + 3 {
            std::fs::write(folder.path().join(format!("{number}.plan")), "").expect("written");
        }
        let mut registry = Registry::builtin();
        registry.add_directory(folder.path());
        let last = registry.files().last().and_then(PlanFile::refusal).expect("it is refused");
        assert!(registry.files().len() == MAX_FILES + 1 && last.contains("3 more are not read"), "{last}");
    }

    #[test]
    fn directory_that_is_missing_is_reported() {
        let mut registry = Registry::builtin();
        registry.add_directory(Path::new("/nonexistent/plans"));
        assert_eq!(registry.files().iter().filter_map(PlanFile::refusal).count(), 1);
    }
}
