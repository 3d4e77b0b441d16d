//! The extension module `mscclpp_rs._native` of the Python package `mscclpp-rs`.
//!
//! `communicator` has the calls of one rank on tensors, `tensor` how they are read.

mod buffer;
mod call;
mod communicator;
mod device;
mod failure;
mod fold;
mod operator;
mod point_to_point;
mod queue;
mod signals;
mod tensor;
mod work;

use pyo3::prelude::*;

/// What is native in the package `mscclpp_rs`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::buffer::PyBuffer;
    #[pymodule_export]
    use crate::communicator::{Listener, PyCommunicator};
    #[pymodule_export]
    use crate::tensor::use_tensors;
    #[pymodule_export]
    use crate::work::{PyWork, end_callbacks};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
