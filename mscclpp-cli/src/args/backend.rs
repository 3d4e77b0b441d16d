//! The flags `--backend` and `--gpus`.

use crate::error::{Error, Result};

/// What runs plans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// The CPU.
    #[default]
    Cpu,
    /// CUDA devices.
    Cuda,
}

impl From<Backend> for mscclpp_select::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Cpu => Self::Cpu,
            Backend::Cuda => Self::Cuda,
        }
    }
}

impl Backend {
    /// Returns the number of devices that `--gpus` requests for `ranks` ranks.
    ///
    /// # Errors
    /// [`Error::Usage`] if the backend has no devices, or if some devices would have no rank.
    pub(crate) fn devices(self, gpus: Option<u32>, ranks: u32) -> Result<u32> {
        match (self, gpus) {
            (Self::Cpu, Some(_)) => Err(Error::Usage("--gpus requires --backend cuda".into())),
            (_, Some(gpus)) if gpus > ranks => {
                Err(Error::Usage(format!("--gpus {gpus}: expected at most {ranks}, the number of ranks")))
            }
            (_, gpus) => Ok(gpus.unwrap_or(1)),
        }
    }

    /// Returns the name in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Cuda => "CUDA",
        }
    }
}
