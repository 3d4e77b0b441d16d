//! The extension module `mscclpp_rs._native` of the Python package `mscclpp-rs`.

use pyo3::prelude::*;

/// What is native in the package `mscclpp_rs`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
