//! What a process that loads the library would get.

use std::path::PathBuf;

use crate::forward::{self, Library};
use crate::table::{Class, FUNCTIONS};
use crate::{params, profiler};

/// What a process with the environment of this one would get from the library. The NCCL to which it would forward and a
/// profiler plugin are loaded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The version that `ncclGetVersion` would report, such as 2.30.7, or why it would fail.
    pub version: Result<String, String>,
    /// File and version of the NCCL to which calls would be forwarded, if one is named, or why it cannot be used.
    pub library: Option<Result<String, String>>,
    /// The profiler plugin that would record calls, if there is one, or why it cannot be used.
    pub profiler: Option<Result<String, String>>,
    /// The calls that would be forwarded, as `MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION` lists them; empty for none.
    pub forced: String,
    /// What is not valid in that list.
    pub warnings: Vec<String>,
    /// The user's plans: the file, and the collective and the number of ranks, or why it cannot be used.
    pub plans: Vec<(PathBuf, Result<String, String>)>,
    /// Whether a plan that cannot be used would be an error.
    pub is_strict: bool,
    /// Number of functions that the library serves.
    pub num_ours: usize,
    /// Functions that the other NCCL would serve.
    pub forwarded: Vec<&'static str>,
    /// Functions that would return an error.
    pub loud: Vec<&'static str>,
}

impl Report {
    /// Reads the environment, loads the library and checks the plans that it names.
    pub fn new() -> Self {
        let library = forward::library();
        let (rules, warnings) = forward::read_rules();
        let plans = mscclpp_select::plan_files().into_iter().map(|mscclpp_select::PlanFile { path, outcome }| {
            let outcome = outcome.map(|(name, collective)| format!("`{name}`, {collective}"));
            (path, outcome)
        });
        let usable = forward::usable();
        let is_served = |name| usable.is_some_and(|library| library.has(name));
        let of = |class, served| {
            let names = FUNCTIONS.iter().filter(move |function| function.class == class).map(|function| function.name);
            names.filter(move |name| is_served(name) == served || class == Class::Loud)
        };
        Self {
            version: params::version().map(forward::dotted).map_err(|failure| failure.text),
            library: library.map(|library| library.as_ref().map(Library::name).map_err(|failure| failure.text.clone())),
            profiler: profiler::plugin()
                .map(|plugin| plugin.as_ref().map(|plugin| plugin.name().to_owned()).map_err(Clone::clone)),
            forced: if library.is_some() { rules.to_string() } else { String::new() },
            warnings,
            plans: plans.collect(),
            is_strict: mscclpp_select::is_strict(),
            num_ours: FUNCTIONS.iter().filter(|function| function.class == Class::Ours).count(),
            forwarded: of(Class::Forwarded, true).collect(),
            loud: of(Class::Forwarded, false).chain(of(Class::Loud, false)).collect(),
        }
    }
}

impl Default for Report {
    fn default() -> Self {
        Self::new()
    }
}
