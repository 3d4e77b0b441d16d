//! The flag `--backend`.

/// What runs plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// The CPU.
    #[default]
    Cpu,
    /// CUDA device 0, with all ranks on it.
    Cuda,
}

impl From<Backend> for mscclpp_exec::select::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Cpu => Self::Cpu,
            Backend::Cuda => Self::Cuda,
        }
    }
}

impl Backend {
    /// Returns the name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Cuda => "CUDA",
        }
    }
}
