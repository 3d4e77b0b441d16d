//! Errors of predictions.

use mscclpp_check::execution::ExecutionError;
use mscclpp_plan::diag::Diagnostics;
use thiserror::Error;

/// Why a plan has no predicted time.
#[derive(Debug, Error)]
pub enum PredictError {
    /// A plan that cannot be executed on symbolic state, or of which a thread block never ends.
    #[error("the plan cannot be executed")]
    Plan(Diagnostics),
    /// A plan that is too large at the message size.
    #[error(transparent)]
    Size(ExecutionError),
    /// A plan for more ranks than the machine has.
    #[error(
        "expected a plan for at most {limit} ranks, which machine `{machine}` has, found one for {ranks}; use fewer ranks, or another machine"
    )]
    TooManyRanks {
        /// The ranks of the plan.
        ranks: usize,
        /// The machine.
        machine: String,
        /// Its ranks.
        limit: u32,
    },
    /// Two ranks between which the machine has no path.
    #[error(
        "expected links of machine `{machine}` from rank {from} to rank {to}, found none; add a link, or use an algorithm without that transfer"
    )]
    NoRoute {
        /// The machine.
        machine: String,
        /// The sender.
        from: u32,
        /// The receiver.
        to: u32,
    },
    /// Loads or stores of a thread block between ranks that cannot map each other's memory.
    #[error(
        "expected ports between nodes of machine `{machine}`, found that a thread block of rank {from} accesses memory of rank {to}; use at most {ranks_per_node} ranks, or an algorithm for several nodes"
    )]
    AcrossNodes {
        /// The machine.
        machine: String,
        /// The rank that executes the operation.
        from: u32,
        /// The rank that has the buffer.
        to: u32,
        /// The ranks of a node of the machine.
        ranks_per_node: u32,
    },
    /// An operation in a switch on a rank that no link connects to one.
    #[error(
        "expected a link of machine `{machine}` between rank {rank} and a switch, found none; use an algorithm without operations in switches"
    )]
    NoSwitch {
        /// The machine.
        machine: String,
        /// The rank.
        rank: u32,
    },
    /// An operation in a switch on a machine whose switches neither reduce nor multicast.
    #[error(
        "expected a machine with `multicast = true` for the operation of rank {rank} in a switch, found machine `{machine}`; use an algorithm without operations in switches"
    )]
    NoMulticast {
        /// The machine.
        machine: String,
        /// The rank.
        rank: u32,
    },
    /// A kind of kernel on a machine that distinguishes none.
    #[error("machine `{machine}` has no kernel tiers, found tier `{tier}`; omit the tier")]
    NoTiers {
        /// The machine.
        machine: String,
        /// The name.
        tier: String,
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

impl From<ExecutionError> for PredictError {
    fn from(error: ExecutionError) -> Self {
        match error {
            ExecutionError::Findings(findings) => Self::Plan(findings),
            other => Self::Size(other),
        }
    }
}
