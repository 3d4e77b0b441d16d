//! The extension module `mscclpp_rs._native` of the Python package `mscclpp-rs`.
//!
//! `communicator` has the calls of one rank on tensors, `tensor` how they are read. `plan` has plans, `recorder` programs, and
//! `address` the calls of the reference's interface, and `kernels` custom kernels. `selection` has what
//! serves calls of all groups.

mod address;
mod buffer;
mod call;
mod callbacks;
mod communicator;
mod device;
mod experts;
mod failure;
mod fold;
mod gloo_order;
mod kernels;
mod logger;
mod operator;
mod plan;
mod point_to_point;
mod queue;
mod recorder;
mod registered;
mod selection;
mod signals;
mod symmetric;
mod tensor;
mod work;

use pyo3::prelude::*;

/// What is native in the package `mscclpp_rs`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::address::{AddressCommunicator, Allocation, JobListener, Target, has_devices, is_nvls_supported};
    #[pymodule_export]
    use crate::buffer::PyBuffer;
    #[pymodule_export]
    use crate::callbacks::end_callbacks;
    #[pymodule_export]
    use crate::communicator::{Listener, PyCommunicator};
    #[pymodule_export]
    use crate::experts::PyExperts;
    #[pymodule_export]
    use crate::kernels::{Kernel, KernelChannels, KernelModule, KernelRegions, KernelWindow, compile_image};
    #[pymodule_export]
    use crate::plan::{Finding, Location, Plan, plan_sizes, run_plan, time_plan, type_size};
    #[pymodule_export]
    use crate::recorder::{Handle, Recorder};
    #[pymodule_export]
    use crate::selection::{register_default_plan, remove_default_plan, set_default_order, set_selector};
    #[pymodule_export]
    use crate::symmetric::{PySymmetricMemory, PySymmetricWindow};
    #[pymodule_export]
    use crate::tensor::use_tensors;
    #[pymodule_export]
    use crate::work::PyWork;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::logger::start();
        crate::plan::add_to(module)?;
        // Wheels are built with it; other builds may be of no commit.
        module.add("GIT_COMMIT", option_env!("MSCCLPP_GIT_COMMIT").unwrap_or_default())?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
