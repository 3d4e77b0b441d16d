//! What both ends of a connection agree on before the first frame: the version of the protocol, and why one connects. Frames
//! carry both, and proofs cover them.

use serde::{Deserialize, Serialize};

/// Protocol version. It changes with every change of `Frame`.
pub(crate) const VERSION: u16 = 11;

/// A number that is used once.
pub(crate) type Nonce = [u8; 16];

/// Why a process connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// To join a job of `ranks` ranks as `rank`. Generations number the jobs that continue each other; `None` joins the
    /// next one that forms.
    Join { rank: u32, ranks: u32, generation: Option<u32> },
    /// To open a stream from rank `from` to rank `to` of the job with this random number, with a number of the stream
    /// that both ends have agreed on.
    Stream { from: u32, to: u32, context: u64, id: u64, job: Nonce },
    /// To learn as `rank` of `ranks` where rank 0 of a job listens, or to tell it as rank 0.
    Locate { rank: u32, ranks: u32 },
    /// To learn as `rank`, from the rank that hosts it, where the job listens that continues a communicator in a generation.
    Continue { rank: u32, context: u64, generation: u32 },
    /// To ask rank 0 what the ranks of the job are doing, without being one of them.
    Observe,
}

impl Purpose {
    /// Returns the rank that connects; 0 for a process that is no rank.
    pub(crate) fn rank(&self) -> u32 {
        match *self {
            Self::Join { rank, .. } | Self::Locate { rank, .. } | Self::Continue { rank, .. } => rank,
            Self::Stream { from, .. } => from,
            Self::Observe => 0,
        }
    }

    /// Returns the rank to which it connects.
    pub(crate) fn peer(&self) -> u32 {
        match *self {
            Self::Join { .. } | Self::Locate { .. } | Self::Continue { .. } | Self::Observe => 0,
            Self::Stream { to, .. } => to,
        }
    }
}
