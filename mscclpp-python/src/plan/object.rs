//! The class `Plan`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use mscclpp_algorithms as algorithms;
use mscclpp_core::check::{Checks, Level, LoadOptions, check};
use mscclpp_core::diag::Code;
use mscclpp_core::export::for_reference;
use mscclpp_core::plan::json::{self, Style};
use mscclpp_core::plan::text::PlanText;
use mscclpp_core::plan::{Format, LoadPlan, Plan as Image};
use mscclpp_exec::file;
use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};

use super::{Finding, rejected};

/// Maximum length of a plan file.
const MAX_FILE: u64 = 1 << 30;

/// An execution plan: the operations of every rank and thread block.
///
/// Immutable. Two plans are equal if their images are; source locations are ignored.
#[pyclass(frozen, eq, hash, module = "mscclpp_rs")]
pub(crate) struct Plan(Image);

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl std::hash::Hash for Plan {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash().hash(state);
    }
}

impl Plan {
    pub(crate) fn new(plan: Image) -> Self {
        Self(plan)
    }

    pub(crate) fn image(&self) -> &Image {
        &self.0
    }
}

/// Returns rules by their numbers or slugs.
pub(crate) fn rules(names: &[String]) -> PyResult<Vec<Code>> {
    let find = |name: &String| {
        Code::find(name).ok_or_else(|| PyValueError::new_err(format!("expected a rule such as M0226, found `{name}`")))
    };
    names.iter().map(find).collect()
}

/// Returns the exception of an error with a file, whose name the error does not have.
fn of_file(error: io::Error, path: &Path) -> PyErr {
    match error.raw_os_error() {
        // Python chooses the class by the number.
        Some(number) => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((number, text, path.as_os_str().to_owned()))
        }
        None => io::Error::new(error.kind(), format!("{}: {error}", path.display())).into(),
    }
}

/// Returns findings as a tuple.
fn findings<'py>(
    py: Python<'py>,
    found: impl IntoIterator<Item = mscclpp_core::diag::Diagnostic>,
) -> PyResult<Bound<'py, PyTuple>> {
    let found = found.into_iter().map(|finding| Py::new(py, Finding::new(finding)));
    PyTuple::new(py, found.collect::<PyResult<Vec<_>>>()?)
}

#[pymethods]
impl Plan {
    /// Loads a plan from a file (`str` or `os.PathLike`) or from the bytes of one: MSCCL++ plan JSON, text or image.
    ///
    /// All checks are made, unless `check` is false; `allow` has the rules, such as `M0226`, whose findings are accepted.
    /// With `strict`, keys that the format does not have are errors. Raises `PlanError` with the findings, and `OSError`
    /// for a file that cannot be read.
    #[staticmethod]
    #[pyo3(signature = (source, *, check = true, strict = false, allow = Vec::new()))]
    fn load(
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        check: bool,
        strict: bool,
        allow: Vec<String>,
    ) -> PyResult<Self> {
        let level = if check { Level::Full } else { Level::Off };
        let options = LoadOptions::default().strict(strict).checks(Checks { level, allow: rules(&allow)? });
        let loaded = match source.extract::<PathBuf>() {
            Ok(path) => {
                let load = || Ok(Image::load_with_options(&file::read(&path, MAX_FILE)?, &options));
                py.detach(load).map_err(|error| of_file(error, &path))?
            }
            // Of a path that is none, such as the exception of its `__fspath__`.
            Err(error) if !error.is_instance_of::<PyTypeError>(py) => return Err(error),
            Err(_) => {
                let bytes: PyBackedBytes = source.extract().map_err(|_| {
                    PyTypeError::new_err("expected the path of a plan file, or its contents as bytes or bytearray")
                })?;
                py.detach(|| Image::load_with_options(&bytes, &options))
            }
        };
        match loaded {
            Ok((plan, _)) => Ok(Self(plan)),
            Err(found) => Err(rejected(py, "the plan is rejected", found)),
        }
    }

    /// Builds the plan of a built-in algorithm (`mscclpp plan list`), or of the reference's name for one.
    ///
    /// `ranks_per_node`: all ranks unless given. `arguments`: those of the algorithm, by name. Raises `ValueError` for an
    /// unknown name, and `PlanError` if the algorithm does not support the ranks.
    #[staticmethod]
    #[pyo3(signature = (name, num_ranks, *, ranks_per_node = None, in_place = None, instances = None, arguments = None))]
    fn builtin(
        py: Python<'_>,
        name: &str,
        num_ranks: u32,
        ranks_per_node: Option<u32>,
        in_place: Option<bool>,
        instances: Option<u32>,
        arguments: Option<BTreeMap<String, usize>>,
    ) -> PyResult<Self> {
        let Some(algorithm) = algorithms::find(name) else {
            return Err(PyValueError::new_err(format!("expected the name of an algorithm, found `{name}`")));
        };
        if num_ranks == 0 {
            return Err(PyValueError::new_err("expected at least 1 rank, found 0"));
        }
        let invalid = |error: algorithms::BuildError| PyValueError::new_err(error.to_string());
        let arguments = arguments.unwrap_or_default();
        let given = arguments.iter().map(|(name, value)| (name.as_str(), *value));
        let values = algorithm.arguments(given).map_err(invalid)?;
        let mut spec = algorithm.spec(num_ranks, ranks_per_node.unwrap_or(num_ranks));
        spec.collective.in_place = in_place.unwrap_or(spec.collective.in_place);
        spec.instances = instances.unwrap_or(spec.instances);
        py.detach(|| algorithm.plan(spec, &values)).map(Self).map_err(invalid)
    }

    /// The names of the built-in algorithms, grouped by collective.
    #[staticmethod]
    fn builtin_names() -> Vec<&'static str> {
        algorithms::all().iter().map(algorithms::BuiltinAlgorithm::name).collect()
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The name of the collective, such as `allreduce`.
    #[getter]
    fn collective(&self) -> &'static str {
        self.0.collective().kind.name()
    }

    /// Whether input and output of a call are one buffer.
    #[getter]
    fn in_place(&self) -> bool {
        self.0.collective().in_place
    }

    /// The number of ranks.
    #[getter]
    fn num_ranks(&self) -> u32 {
        self.0.num_ranks()
    }

    /// The number of ranks per node.
    #[getter]
    fn ranks_per_node(&self) -> u32 {
        self.0.ranks_per_node()
    }

    /// `Simple`, or `LL` with scratch that is sized for packets.
    #[getter]
    fn protocol(&self) -> &'static str {
        self.0.protocol().name()
    }

    /// CUDA threads per thread block.
    #[getter]
    fn threads_per_block(&self) -> u32 {
        self.0.threads_per_block()
    }

    /// The smallest message for which the plan is meant, in bytes.
    #[getter]
    fn min_message_size(&self) -> u64 {
        self.0.min_message_size()
    }

    /// The largest message for which the plan is meant, in bytes.
    #[getter]
    fn max_message_size(&self) -> u64 {
        self.0.max_message_size()
    }

    /// The labels for selectors.
    #[getter]
    fn tags(&self) -> BTreeMap<String, i64> {
        self.0.tags().map(|(key, value)| (key.to_owned(), value)).collect()
    }

    /// A number that equal plans share, on every machine.
    #[getter]
    fn digest(&self) -> String {
        format!("{:032x}", self.0.hash())
    }

    /// The chunks of input, output and scratch of a rank. Raises `ValueError` if there is no such rank.
    #[pyo3(signature = (rank = 0))]
    fn chunks(&self, rank: u32) -> PyResult<(u32, u32, u32)> {
        let tree = self.0.tree();
        let Some(found) = tree.ranks.get(rank as usize) else {
            let ranks = self.0.num_ranks();
            return Err(PyValueError::new_err(format!("expected a rank in 0..{ranks}, found {rank}")));
        };
        Ok((found.input_chunks, found.output_chunks, found.scratch_chunks))
    }

    /// Returns the findings of all checks, none if the plan is correct for every message size.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let found = py.detach(|| check(&self.0.tree()));
        findings(py, found)
    }

    /// Returns the plan as MSCCL++ plan JSON.
    ///
    /// With `for_reference`, as the reference's executor can run it: within the sizes of its arrays and without keys that
    /// it does not have. Raises `PlanError` if it cannot.
    #[pyo3(signature = (*, pretty = true, for_reference = false))]
    fn to_json(&self, py: Python<'_>, pretty: bool, for_reference: bool) -> PyResult<String> {
        let style = if pretty { Style::Pretty } else { Style::Compact };
        let written = py.detach(|| {
            let mut tree = self.0.tree();
            if for_reference {
                tree = exported(&tree)?;
            }
            Ok(json::write(&tree, style))
        });
        written.map_err(|found| rejected(py, "the reference's executor cannot run the plan", found))
    }

    /// Returns the plan as text, which `load` reads.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_text())
    }

    /// Returns the operations for reading: of all ranks or of one, with the lines of the program as comments.
    #[pyo3(signature = (rank = None))]
    fn show(&self, py: Python<'_>, rank: Option<u32>) -> PyResult<String> {
        if let Some(rank) = rank {
            self.chunks(rank)?;
        }
        Ok(py.detach(|| {
            let tree = self.0.tree();
            let text = PlanText::new(&tree).with_comments();
            match rank {
                Some(rank) => text.with_rank(rank).to_string(),
                None => text.to_string(),
            }
        }))
    }

    /// Returns the plan as an image, which `load` reads in place.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.0.image())
    }

    /// Writes the plan to a file, which is replaced atomically: JSON, text or image, by the extension `.json`, `.plan` or
    /// `.mscclpp`. Raises `ValueError` for another one and `OSError` if the file cannot be written.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let Some(format) = Format::of_path(&path) else {
            let path = path.display();
            return Err(PyValueError::new_err(format!(
                "expected a name that ends in .json, .plan or .mscclpp, found {path}"
            )));
        };
        py.detach(|| file::write_atomic(&path, &self.0.to_bytes(format))).map_err(|error| of_file(error, &path))
    }

    fn __str__(&self, py: Python<'_>) -> String {
        self.text(py)
    }

    fn __repr__(&self) -> String {
        let in_place = if self.in_place() { " in place" } else { "" };
        format!("<Plan {}: {}{in_place} of {} ranks>", self.name(), self.collective(), self.num_ranks())
    }

    /// Pickles the image.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let load = slf.py().import("mscclpp_rs._plans")?.getattr("_unpickle")?;
        Ok((load, (slf.get().to_bytes(slf.py()),)))
    }
}

use for_reference as exported;
