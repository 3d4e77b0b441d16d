//! Arguments of `mscclpp run`.

use clap::Args;
use mscclpp_core::vocab::ReduceOp;

use super::{SourceArgs, reduce_op};
use crate::error::{Error, Result};
use crate::size;

/// Arguments of `mscclpp run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp run allreduce_ring --ranks 8 --size 1M
  mscclpp run allreduce_ring --ranks 4 --begin 1K --end 64M --factor 4
  mscclpp run allgather --ranks 4 --count 1001 --dtype bf16 --in-place
  mscclpp run plan.json --op max --iters 50 --json

A size is a whole number with K, M, G or T for powers of 1024. It counts the larger of a rank's input and output.
Exit codes: 0 all ran and no element was wrong, 1 wrong elements, a stalled run or findings, 2 the plan cannot be read")]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Size of the message, such as 1M; the larger of a rank's input and output [default: 1M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true, conflicts_with_all = ["count", "begin", "end", "factor"])]
    pub(crate) size: Option<u64>,
    /// Number of elements instead of bytes
    #[arg(long, value_name = "N", value_parser = size::parse, allow_negative_numbers = true, conflicts_with_all = ["begin", "end", "factor"])]
    pub(crate) count: Option<u64>,
    /// First size of a sweep
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true, requires = "end")]
    pub(crate) begin: Option<u64>,
    /// Last size of a sweep
    #[arg(long, value_name = "SIZE", value_parser = size::parse, allow_negative_numbers = true, requires = "begin")]
    pub(crate) end: Option<u64>,
    /// Each size of a sweep is so many times the one before [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..), requires = "begin")]
    pub(crate) factor: Option<u64>,
    /// Type of the elements
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub(crate) dtype: String,
    /// Reduction: sum, prod, min, max or avg [default: the plan's own]
    #[arg(long, value_name = "OP", value_parser = reduce_op)]
    pub(crate) op: Option<ReduceOp>,
    /// Timed launches per size
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: u32,
    /// Launches before the timed ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u32,
    /// Seed of the random inputs
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Run the plan without checking it first
    #[arg(long)]
    pub(crate) no_check: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What to run: byte sizes, or one count of elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    /// Each in bytes.
    Bytes(Vec<u64>),
    /// In elements.
    Count(u64),
}

impl RunArgs {
    /// The sizes asked for.
    ///
    /// # Errors
    /// [`Error::Usage`] if a sweep ends before it begins, or begins at 0, from where no factor leads on.
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        let usage = |text: String| Err(Error::Usage(text));
        if let Some(count) = self.count {
            return Ok(Sizes::Count(count));
        }
        let (Some(begin), Some(end)) = (self.begin, self.end) else {
            return Ok(Sizes::Bytes(vec![self.size.unwrap_or(1 << 20)]));
        };
        if begin > end {
            return usage(format!("--begin {begin} is larger than --end {end}"));
        }
        if begin == 0 && end > 0 {
            return usage("--begin 0 never grows by a factor; begin at 1 or more, or use --size 0".into());
        }
        let factor = self.factor.unwrap_or(2);
        // At most 64 sizes: the factor is 2 or more.
        let next = |size: &u64| size.checked_mul(factor).filter(|next| *next <= end && *next > *size);
        Ok(Sizes::Bytes(std::iter::successors(Some(begin), next).collect()))
    }
}
