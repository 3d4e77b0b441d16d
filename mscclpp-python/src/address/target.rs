//! What serves calls.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_select::Config;
use pyo3::prelude::*;

use crate::failure::Failure;
use crate::plan::Plan;

/// A plan, or a built-in algorithm, for the calls of a collective. Whatever its calls have in common is determined here, once.
#[pyclass(frozen, module = "mscclpp_rs._native")]
pub(crate) struct Target {
    /// Differs from that of every other target of this process.
    number: u64,
    pub(super) kind: CollectiveKind,
    /// The collective, as callers name it.
    pub(super) collective: String,
    pub(super) root: u32,
    pub(super) algorithm: Algorithm,
}

/// The algorithm of a target.
pub(super) enum Algorithm {
    Plan(mscclpp_core::plan::Plan),
    /// By its name.
    Builtin(String),
}

#[pymethods]
impl Target {
    /// Returns the target of a plan, or of the built-in algorithm `name`. Raises `UnsupportedError` for a collective without calls.
    #[new]
    #[pyo3(signature = (plan, name, collective))]
    fn new(plan: Option<&Plan>, name: &str, collective: &str) -> PyResult<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let kind = kind_of(collective)?;
        let (root, algorithm) = match plan {
            Some(plan) => (plan.image().collective().root, Algorithm::Plan(plan.image().clone())),
            // The reference's names are those of built-in algorithms as well.
            None => {
                let name = mscclpp_algorithms::find(name).map_or(name, |algorithm| algorithm.name());
                (0, Algorithm::Builtin(name.to_owned()))
            }
        };
        let number = NEXT.fetch_add(1, Relaxed);
        Ok(Self { number, kind, collective: collective.to_owned(), root, algorithm })
    }
}

impl Target {
    /// Returns what tells the target and a configuration from all others.
    pub(super) fn key(&self, config: &Config) -> (u64, Config) {
        (self.number, config.clone())
    }
}

fn kind_of(collective: &str) -> Result<CollectiveKind, Failure> {
    CollectiveKind::from_name(collective).ok_or_else(|| {
        let text = format!(
            "expected a plan of allreduce, allgather, reducescatter, alltoall, sendrecv, broadcast or reduce, found \
             {collective}; run plans of other collectives with mscclpp_rs.run"
        );
        Failure::of_kind("unsupported", "execute", text)
    })
}
