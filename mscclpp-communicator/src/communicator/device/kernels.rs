//! Which kernels launch the plans of calls on device memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use mscclpp_base::error::Error;
use mscclpp_exec::cuda::{Compile, PrepareOptions};

/// The variable that names a [`KernelPolicy`].
const VARIABLE: &str = "MSCCLPP_KERNELS";

/// Which kernels launch the plans of calls on device memory: one that interprets every plan, or one that is compiled for the plan, the
/// type and the reduction, which takes less time for short messages. The library contains those of default plans, which were compiled
/// ahead of time; others are compiled at run time. Results have the same bits. Each rank decides for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelPolicy {
    /// The interpreter.
    Interpreter,
    /// The plan's kernel if it was compiled ahead of time, otherwise the interpreter; nothing is compiled.
    AheadOfTime,
    /// The plan's kernel if it is compiled when the call is prepared, ahead of time, by this process or by an earlier one; otherwise the
    /// interpreter, and a thread compiles the kernel for what is prepared later.
    #[default]
    Background,
    /// The plan's kernel; if it was not compiled ahead of time, the first call waits for the compiler.
    Wait,
}

impl KernelPolicy {
    /// Returns the policy that the variable names; the default one if it is not set.
    fn from_env() -> Result<Self, Error> {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        if value.is_empty() {
            return Ok(Self::default());
        }
        let named = NAMES.iter().find(|(name, _)| value == **name).map(|(_, policy)| *policy);
        named.ok_or_else(|| {
            let expected = NAMES.map(|(name, _)| name).join(", ");
            Error::Environment(format!("{VARIABLE}={}: expected one of {expected}", value.to_string_lossy()))
        })
    }

    /// Returns options with what the policy demands when a plan is prepared.
    pub(super) fn options(self, options: PrepareOptions) -> PrepareOptions {
        match self {
            Self::Interpreter => options,
            Self::AheadOfTime => options.specialize_by(Compile::Never),
            Self::Background => options.specialize_by(Compile::InBackground),
            Self::Wait => options.specialize_by(Compile::Now),
        }
    }
}

/// The policies, as the variable names them.
const NAMES: [(&str, KernelPolicy); 4] = [
    ("interpreter", KernelPolicy::Interpreter),
    ("ahead-of-time", KernelPolicy::AheadOfTime),
    ("background", KernelPolicy::Background),
    ("wait", KernelPolicy::Wait),
];

/// The policy of a communicator, once it is known.
#[derive(Debug, Default)]
pub(in crate::communicator) struct KnownPolicy(Mutex<Option<KernelPolicy>>);

impl KnownPolicy {
    fn lock(&self) -> MutexGuard<'_, Option<KernelPolicy>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, policy: KernelPolicy) {
        *self.lock() = Some(policy);
    }

    /// Takes the policy of another communicator, if that is known.
    pub(in crate::communicator) fn follow(&self, other: &Self) {
        if let Some(policy) = *other.lock() {
            self.set(policy);
        }
    }

    /// Returns the policy; from the first call on that of the environment if none was set before.
    ///
    /// # Errors
    /// [`Error::Environment`].
    pub(super) fn get(&self) -> Result<KernelPolicy, Error> {
        let mut known = self.lock();
        match *known {
            Some(policy) => Ok(policy),
            None => Ok(*known.insert(KernelPolicy::from_env()?)),
        }
    }
}
