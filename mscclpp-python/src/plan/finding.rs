//! A finding about a plan or program, with its locations.

use mscclpp_core::diag::{Diagnostic, Site};
use mscclpp_core::origin::SourceLocation;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// A location in a source file.
#[pyclass(frozen, eq, module = "mscclpp_rs")]
#[derive(PartialEq)]
pub(crate) struct Location(SourceLocation);

#[pymethods]
impl Location {
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

#[pymethods]
impl Finding {
    /// The number of the rule, such as `M0201`. `docs/errors.md` describes all of them.
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
