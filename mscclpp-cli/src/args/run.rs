//! Arguments of `mscclpp run`.

use std::path::PathBuf;

use clap::Args;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::{AccumType, DataType, PacketType};

use super::backend::Backend;
use super::{AllowArgs, SourceArgs, reduce_op};
use crate::error::{Error, Result};
use crate::size;

/// Arguments of `mscclpp run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp run allreduce_ring --ranks 8 --size 1M
  mscclpp run allreduce_ring --ranks 4 --begin 1K --end 64M --factor 4
  mscclpp run allgather_ring --ranks 4 --count 1001 --dtype bf16 --in-place
  mscclpp run plan.json --op max --iters 50 --json
  mscclpp run allreduce_ring --ranks 8 --backend cuda --gpus 8
  mscclpp run allreduce_ring --ranks 4 --size 64K --timeline trace.json

A size is an integer with K, M, G or T for powers of 1024. It is that of the larger of a rank's input and output.
Exit codes: 0 success and no wrong elements, 1 wrong elements, a stalled run or findings, 2 the plan cannot be read")]
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
    /// Factor from each size of a sweep to the next [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..), requires = "begin")]
    pub(crate) factor: Option<u64>,
    /// Type of the elements
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = data_type)]
    pub(crate) dtype: DataType,
    /// Elements of a row of a plan that normalizes rows [default: 1024]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) hidden: Option<u32>,
    /// Reduction: sum, prod, min, max or avg [default: the plan's own]
    #[arg(long, value_name = "OP", value_parser = reduce_op)]
    pub(crate) op: Option<ReduceOp>,
    /// Type in which an operation combines its sources: native (that of the elements), f32 or f64
    #[arg(long, value_name = "TYPE", default_value = "native", value_parser = accumulation)]
    pub(crate) accumulate: AccumType,
    /// Packets: ll16 (16 bytes, 8 of them data) or ll8 (8 bytes, 4 of them data)
    #[arg(long, value_name = "TYPE", default_value = "ll16", value_parser = packet_type)]
    pub(crate) packet_type: PacketType,
    /// Backend: cpu or cuda
    #[arg(long, value_enum, value_name = "BACKEND", default_value_t, hide_possible_values = true)]
    pub(crate) backend: Backend,
    /// CUDA devices of the ranks, in this process [default: 1, with all ranks on it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) gpus: Option<u32>,
    /// Timed launches per size
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iters: u32,
    /// Launches before the timed ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) warmup: u32,
    /// Seed of the random inputs of the verified launch
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write what each thread block did in the verified launch of each size, and when, as a trace for Perfetto or Chrome
    #[arg(long, value_name = "FILE")]
    pub(crate) timeline: Option<PathBuf>,
    /// Also run sizes outside the range of the plan
    #[arg(long)]
    pub(crate) any_size: bool,
    /// Run the plan without checking it first
    #[arg(long, conflicts_with = "allow")]
    pub(crate) no_check: bool,
    #[command(flatten)]
    pub(crate) allow: AllowArgs,
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

/// Reads a type's name.
pub(super) fn data_type(text: &str) -> std::result::Result<DataType, String> {
    DataType::from_name(&text.to_ascii_lowercase()).ok_or_else(|| {
        let known: Vec<_> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
        format!("expected one of {}", known.join(", "))
    })
}

/// Reads the name of an accumulation type.
fn accumulation(text: &str) -> std::result::Result<AccumType, String> {
    let all = [AccumType::Native, AccumType::F32, AccumType::F64];
    let found = all.into_iter().find(|one| one.name() == text.to_ascii_lowercase());
    found.ok_or_else(|| format!("expected one of {}", all.map(AccumType::name).join(", ")))
}

/// Reads the name of a type of packets.
fn packet_type(text: &str) -> std::result::Result<PacketType, String> {
    match &*text.to_ascii_lowercase() {
        "ll16" => Ok(PacketType::LL16),
        "ll8" => Ok(PacketType::LL8),
        _ => Err("expected ll16 or ll8".to_owned()),
    }
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
            return usage("--begin 0 cannot grow by a factor; use --begin 1 or larger, or --size 0".into());
        }
        let factor = self.factor.unwrap_or(2);
        // At most 64 sizes: the factor is 2 or more.
        let next = |size: &u64| size.checked_mul(factor).filter(|next| *next <= end && *next > *size);
        Ok(Sizes::Bytes(std::iter::successors(Some(begin), next).collect()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn sizes(arguments: &str) -> Result<Sizes> {
        let words = "mscclpp run x".split(' ').chain(arguments.split(' ').filter(|word| !word.is_empty()));
        match Cli::try_parse_from(words).expect("clap accepts it").command {
            Command::Run(run) => run.sizes(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sweeps_multiply_and_stay_inside() {
        assert_eq!(sizes("").unwrap(), Sizes::Bytes(vec![1 << 20]));
        assert_eq!(sizes("--size 3K").unwrap(), Sizes::Bytes(vec![3072]));
        assert_eq!(sizes("--count 7").unwrap(), Sizes::Count(7));
        assert_eq!(sizes("--begin 1 --end 9").unwrap(), Sizes::Bytes(vec![1, 2, 4, 8]));
        assert_eq!(sizes("--begin 5 --end 50 --factor 3").unwrap(), Sizes::Bytes(vec![5, 15, 45]));
        assert_eq!(sizes("--begin 0 --end 0").unwrap(), Sizes::Bytes(vec![0]));
        match sizes("--begin 1 --end 18446744073709551615").unwrap() {
            Sizes::Bytes(all) => assert_eq!(all.len(), 64),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn empty_sweeps_are_rejected() {
        assert!(matches!(sizes("--begin 2 --end 1"), Err(Error::Usage(_))));
        assert!(matches!(sizes("--begin 0 --end 1"), Err(Error::Usage(_))));
    }

    #[test]
    fn contradictory_arguments_are_rejected() {
        for arguments in [
            "--size 1 --count 1",
            "--begin 1",
            "--end 1",
            "--size 1 --begin 1 --end 2",
            "--factor 2",
            "--begin 1 --end 2 --factor 1",
            "--size -1",
            "--iters 0",
            "--ranks 0",
        ] {
            let words = "mscclpp run x".split(' ').chain(arguments.split(' '));
            assert!(Cli::try_parse_from(words).is_err(), "{arguments}");
        }
    }
}
