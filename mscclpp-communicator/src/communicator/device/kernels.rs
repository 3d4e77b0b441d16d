//! Which kernels launch the plans of calls on device memory.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use mscclpp_base::error::Error;
use mscclpp_exec::cuda::PrepareOptions;

/// The variable that names a [`KernelPolicy`].
const VARIABLE: &str = "MSCCLPP_KERNELS";

/// Which kernels launch the plans of calls on device memory: one that interprets every plan, or one that is compiled for the plan, the
/// type and the reduction, which takes less time for short messages. Results have the same bits. Each rank decides for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KernelPolicy {
    /// The interpreter; nothing is compiled.
    Interpreter,
    /// The plan's kernel if it is compiled when the call is prepared, by this process or an earlier one; otherwise the interpreter, and a
    /// thread compiles the kernel for what is prepared later.
    #[default]
    Background,
    /// The plan's kernel, for which the first call waits.
    Wait,
}

impl KernelPolicy {
    /// Returns the policy that the variable names; the default one if it is not set.
    fn from_env() -> Result<Self, Error> {
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
        match self {
            Self::Interpreter => options,
            Self::Background => options.specialize_if_compiled(),
            Self::Wait => options.specialize(true),
        }
    }
}

/// The policy of a communicator, if one is set: its number among [`ALL`], counted from 1.
#[derive(Debug, Default)]
pub(in crate::communicator) struct KernelChoice(AtomicU8);

const ALL: [KernelPolicy; 3] = [KernelPolicy::Interpreter, KernelPolicy::Background, KernelPolicy::Wait];

impl KernelChoice {
    /// Returns the policy that is set.
    pub(in crate::communicator) fn get(&self) -> Option<KernelPolicy> {
        ALL.get(usize::from(self.0.load(Relaxed)).checked_sub(1)?).copied()
    }

    /// Sets the policy; none for that of the environment.
    pub(in crate::communicator) fn set(&self, policy: Option<KernelPolicy>) {
        let number = ALL.iter().position(|known| Some(*known) == policy).map_or(0, |at| at + 1);
        self.0.store(number as u8, Relaxed);
    }

    /// Returns the policy of calls, which that of the environment is from the first one on if none is set.
    ///
    /// # Errors
    /// [`Error::Environment`].
    pub(super) fn policy(&self) -> Result<KernelPolicy, Error> {
        if let Some(policy) = self.get() {
            return Ok(policy);
        }
        let policy = KernelPolicy::from_env()?;
        self.set(Some(policy));
        Ok(policy)
    }
}
