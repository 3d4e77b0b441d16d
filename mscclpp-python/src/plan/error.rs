//! The exception for plans and programs that are rejected.

use mscclpp_core::diag::Diagnostics;
use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::Finding;

create_exception!(
    mscclpp_rs,
    PlanError,
    PyRuntimeError,
    "A plan or program is rejected.\n\n`findings` is a tuple of `Finding`, all of which the text lists; it is empty for a call \
     that a program cannot have at all, such as one after its end."
);

/// Adds the class to the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<PlanError>();
    // That of exceptions without findings.
    class.setattr("findings", PyTuple::empty(module.py()))?;
    module.add("PlanError", class)
}

/// Returns the exception for findings. `what` is the subject, such as `the plan is rejected`.
pub(crate) fn rejected(py: Python<'_>, what: &str, found: Diagnostics) -> PyErr {
    let text = match found.len() {
        1 => format!("{what}\n{found}"),
        count => format!("{what}: {count} findings\n{found}"),
    };
    let error = PlanError::new_err(text);
    let attach = || -> PyResult<()> {
        let findings: Vec<Py<Finding>> =
            found.into_iter().map(|finding| Py::new(py, Finding::new(finding))).collect::<PyResult<_>>()?;
        error.value(py).setattr("findings", PyTuple::new(py, findings)?)
    };
    match attach() {
        Ok(()) => error,
        // Only if the interpreter is out of memory.
        Err(failed) => failed,
    }
}
