//! Calls on the command line: which collective, of what, on how many ranks.

use clap::Args;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_select::{CALLS, Request};

use super::reduce_op;
use super::run::data_type;
use crate::error::Error;

/// Reads a collective's name, as its call is spelled or as plans spell it: `all_reduce`, `all-reduce`, `allreduce`.
pub(crate) fn collective(text: &str) -> Result<CollectiveKind, String> {
    let plain = text.to_ascii_lowercase().replace(['_', '-'], "");
    let found = CALLS.into_iter().find(|(_, kind)| kind.name() == plain);
    found.map(|(_, kind)| kind).ok_or_else(|| {
        let known: Vec<_> = CALLS.iter().map(|(name, _)| *name).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// Properties of a call other than its size.
#[derive(Clone, Debug, Args)]
pub(crate) struct CallArgs {
    /// Type of the elements
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = data_type)]
    pub(crate) dtype: DataType,
    /// Reduction: sum, prod, min, max or avg
    #[arg(long, value_name = "OP", default_value = "sum", value_parser = reduce_op)]
    pub(crate) op: ReduceOp,
}

/// What a call is like that may have a root.
#[derive(Clone, Debug, Args)]
pub(crate) struct RootedArgs {
    #[command(flatten)]
    pub(crate) call: CallArgs,
    /// Root of a call that has one
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    pub(crate) root: u32,
}

impl RootedArgs {
    /// # Errors
    /// [`Error::Usage`] for a root that is no rank.
    pub(crate) fn check_root(&self, ranks: u32) -> Result<(), Error> {
        if self.root >= ranks {
            return Err(Error::Usage(format!(
                "--root {}: expected a rank of 0 to {}",
                self.root,
                ranks.saturating_sub(1)
            )));
        }
        Ok(())
    }

    /// A request with reduction and root, where its collective has them.
    ///
    /// # Errors
    /// [`Error::Usage`] for a root that is no rank.
    pub(crate) fn complete(&self, request: Request) -> Result<Request, Error> {
        let Request { num_ranks: ranks, collective, .. } = request;
        self.check_root(ranks)?;
        let rooted = matches!(collective, CollectiveKind::Broadcast | CollectiveKind::Reduce);
        let root = if rooted { self.root } else { 0 };
        Ok(Request { op: request.op.map(|_| self.call.op), root, ..request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectives_have_several_spellings() {
        for (name, kind) in CALLS {
            assert_eq!(collective(name), Ok(kind));
            assert_eq!(collective(kind.name()), Ok(kind));
            assert_eq!(collective(&name.replace('_', "-").to_uppercase()), Ok(kind));
        }
        assert!(collective("all").unwrap_err().starts_with("expected one of all_reduce, "));
    }
}
