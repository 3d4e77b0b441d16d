//! Which kernels launch the plans of calls on device memory.

use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{PrepareOptions, PreparedPlan};

/// The variable that names a [`KernelPolicy`].
const VARIABLE: &str = "MSCCLPP_KERNELS";

/// Which kernels launch the plans of calls on device memory: one that interprets every plan, or one that is compiled for the plan, the
/// type and the reduction, which takes less time for short messages. Results have the same bits. Each rank decides for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelPolicy {
    /// The interpreter; nothing is compiled.
    Interpreter,
    /// The interpreter, until a thread has compiled the plan's kernel. Graphs keep the kernels with which they were captured.
    #[default]
    Background,
    /// The plan's kernel, for which the first call waits.
    Wait,
}

impl KernelPolicy {
    /// Returns the policy that the variable names; the default one if it is not set.
    pub(super) fn from_env() -> Result<Self, Error> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        match value.to_str() {
            Some("") => Ok(Self::default()),
            Some("interpreter") => Ok(Self::Interpreter),
            Some("background") => Ok(Self::Background),
            Some("wait") => Ok(Self::Wait),
            _ => Err(Error::Environment(format!(
                "{VARIABLE}={}: expected interpreter, background or wait",
                value.to_string_lossy()
            ))),
        }
    }

    /// Returns options with what the policy demands when a plan is prepared.
    pub(super) fn options(self, options: PrepareOptions) -> PrepareOptions {
        options.specialize(self == Self::Wait)
    }

    /// Begins what the policy demands after a plan was prepared.
    pub(super) fn start(self, plan: &mut PreparedPlan) {
        if self == Self::Background {
            plan.compile_kernels();
        }
    }
}
