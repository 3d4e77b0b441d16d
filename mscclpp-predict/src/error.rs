//! Errors of predictions.

use mscclpp_plan::diag::Diagnostics;
use thiserror::Error;

/// Why a plan has no predicted time.
#[derive(Debug, Error)]
pub enum PredictError {
    /// A plan that cannot be executed on symbolic state.
    #[error("the plan cannot be executed")]
    Plan(Diagnostics),
    /// A plan for more ranks than the machine has.
    #[error("the plan is for {ranks} ranks, but machine `{machine}` has {limit}")]
    TooManyRanks {
        /// The ranks of the plan.
        ranks: usize,
        /// The machine.
        machine: String,
        /// Its ranks.
        limit: u32,
    },
    /// Two ranks between which the machine has no path.
    #[error("the machine has no path from rank {from} to rank {to}")]
    NoRoute {
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
    },
    /// Loads or stores of a thread block between ranks that cannot map each other's memory.
    #[error("rank {from} accesses memory of rank {to} on another node; between nodes only ports transfer data")]
    AcrossNodes {
        /// The rank that executes the operation.
        from: u32,
        /// The rank that has the buffer.
        to: u32,
    },
    /// An operation in a switch on a rank without one.
    #[error("the machine has no switch at rank {rank}")]
    NoSwitch {
        /// The rank.
        rank: u32,
    },
    /// A kind of kernel that the machine description lacks.
    #[error("machine `{machine}` has no kernel tier `{tier}`; expected one of: {known}")]
    UnknownTier {
        /// The machine.
        machine: String,
        /// The name.
        tier: String,
        /// The names of the machine's tiers.
        known: String,
    },
}
