//! A finding about a plan or program, with its locations.

use std::sync::Arc;

use mscclpp_core::diag::{Code, Diagnostic, Site};
use mscclpp_core::origin::SourceLocation;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// What an object is pickled as: its class and the arguments of its constructor.
type Pickled<'py, T> = (Bound<'py, PyType>, T);

/// A location in a source file.
#[pyclass(frozen, eq, module = "mscclpp_rs")]
#[derive(PartialEq)]
pub(crate) struct Location(SourceLocation);

/// The arguments of `Location`.
type LocationParts = (String, u32, u32, Vec<(String, i128)>);

#[pymethods]
impl Location {
    /// Returns a location that was pickled.
    #[new]
    fn restore(file: &str, line: u32, column: u32, variables: Vec<(String, i128)>) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (Arc::from(name), value)).collect();
        Self(SourceLocation { file: Arc::from(file), line, column, variables, ..SourceLocation::default() })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Pickled<'py, LocationParts> {
        let SourceLocation { file, line, column, variables, .. } = &slf.get().0;
        let variables = variables.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        (slf.get_type(), (file.to_string(), *line, *column, variables))
    }

    /// The path of the file.
    #[getter]
    fn file(&self) -> &str {
        &self.0.file
    }

    /// The line, counted from 1.
    #[getter]
    fn line(&self) -> u32 {
        self.0.line
    }

    /// The column, counted from 1; 0 if it is unknown.
    #[getter]
    fn column(&self) -> u32 {
        self.0.column
    }

    /// The loop variables in scope, outermost first: names and values.
    #[getter]
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let variables = PyDict::new(py);
        for (name, value) in &self.0.variables {
            variables.set_item(name.as_ref(), value)?;
        }
        Ok(variables)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Location {}>", self.0)
    }
}

/// A finding about a plan or a program.
#[pyclass(frozen, eq, module = "mscclpp_rs")]
#[derive(PartialEq)]
pub(crate) struct Finding(Diagnostic);

impl Finding {
    pub(crate) fn new(diagnostic: Diagnostic) -> Self {
        Self(diagnostic)
    }
}

/// A place as Python objects: a `Location`, a path into a plan or file as `str`, or `None` for the whole program.
fn place<'py>(py: Python<'py>, site: &Site) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(match site {
        Site::None => None,
        Site::Source(location) => Some(Bound::new(py, Location(location.clone()))?.into_any()),
        Site::Path(path) => Some(path.into_pyobject(py)?.into_any()),
    })
}

/// A place from Python: what [`place`] returns.
#[derive(FromPyObject)]
enum Place<'py> {
    Source(PyRef<'py, Location>),
    Path(String),
}

fn site(place: Option<Place<'_>>) -> Site {
    match place {
        None => Site::None,
        Some(Place::Source(location)) => Site::Source(location.0.clone()),
        Some(Place::Path(path)) => Site::Path(path),
    }
}

/// The arguments of `Finding`.
type FindingParts<'py> = (&'static str, String, Option<String>, Option<Bound<'py, PyAny>>, Bound<'py, PyTuple>);

#[pymethods]
impl Finding {
    /// Returns a finding that was pickled.
    #[new]
    #[pyo3(signature = (code, message, help, place, notes))]
    fn restore(
        code: &str,
        message: String,
        help: Option<String>,
        place: Option<Place<'_>>,
        notes: Vec<(String, Option<Place<'_>>)>,
    ) -> PyResult<Self> {
        let Some(code) = Code::find(code) else {
            return Err(PyValueError::new_err(format!("there is no rule {code}")));
        };
        let notes = notes.into_iter().map(|(what, place)| (what, site(place))).collect();
        Ok(Self(Diagnostic { code, message, site: site(place), notes, help }))
    }

    /// Exceptions with findings are pickled by pools of processes.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Pickled<'py, FindingParts<'py>>> {
        let (py, finding) = (slf.py(), slf.get());
        let parts =
            (finding.code(), finding.0.message.clone(), finding.0.help.clone(), finding.place(py)?, finding.notes(py)?);
        Ok((slf.get_type(), parts))
    }

    /// The number of the rule, such as `M0201`. `mscclpp explain` describes all of them.
    #[getter]
    fn code(&self) -> &'static str {
        self.0.code.entry().number
    }

    /// The name of the rule, such as `unmatched-wait`.
    #[getter]
    fn slug(&self) -> &'static str {
        self.0.code.entry().slug
    }

    /// The rule that is violated.
    #[getter]
    fn rule(&self) -> &'static str {
        self.0.code.entry().rule
    }

    /// What is wrong, with the values.
    #[getter]
    fn message(&self) -> &str {
        &self.0.message
    }

    /// The edit that fixes it, if one is known.
    #[getter]
    fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// The place: a `Location`, a path into the plan or file as `str`, or `None` for the whole program.
    #[getter]
    fn place<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        place(py, &self.0.site)
    }

    /// The other places that are involved: a description and a place for each.
    #[getter]
    fn notes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let notes = self.0.notes.iter().map(|(what, site)| Ok((what.as_str(), place(py, site)?)));
        PyTuple::new(py, notes.collect::<PyResult<Vec<_>>>()?)
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("<Finding {}: {}>", self.code(), self.0.message)
    }
}
