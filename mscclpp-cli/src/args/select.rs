//! Arguments of `mscclpp select`.

use std::path::PathBuf;

use clap::Args;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_select::OrderPolicy;

use super::RootedArgs;
use super::backend::Backend;
use super::collective::collective;
use crate::size;

/// Reads an order policy.
fn order(name: &str) -> Result<OrderPolicy, String> {
    OrderPolicy::from_name(name)
        .ok_or_else(|| format!("expected {}", OrderPolicy::ALL.map(OrderPolicy::name).join(", ")))
}

/// Arguments of `mscclpp select`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp select all_reduce --bytes 1M --ranks 8
  mscclpp select all_gather --bytes 64K --ranks 16 --ranks-per-node 8 --in-place
  mscclpp select all_reduce --bytes 1M --ranks 8 --backend cuda --multicast --order rank-order
  mscclpp select all_reduce --bytes 1M --ranks 4 --table four.toml
  mscclpp select all_reduce --bytes 32M --machine 8xa800-pcie-4+4

Exit codes: 0 an algorithm is selected, 1 none is eligible, 2 invalid call, or the table cannot be read")]
pub(crate) struct SelectArgs {
    /// all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce or send_recv
    #[arg(value_name = "COLLECTIVE", value_parser = collective)]
    pub(crate) collective: CollectiveKind,
    /// Size of the call; the larger of a rank's input and output
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size::parse)]
    pub(crate) bytes: u64,
    /// Number of ranks [default: 8, or all of the machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// Number of ranks per node [default: all, or as the machine has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks_per_node: Option<u32>,
    /// Use one buffer for input and output
    #[arg(long)]
    pub(crate) in_place: bool,
    /// The buffers are registered
    #[arg(long)]
    pub(crate) registered: bool,
    /// Backend: cpu or cuda [default: cpu, or that of the machine]
    #[arg(long, value_enum, value_name = "BACKEND", hide_possible_values = true)]
    pub(crate) backend: Option<Backend>,
    /// The devices support multicast, as those of a machine may
    #[arg(long)]
    pub(crate) multicast: bool,
    /// Order in which floats are reduced: any, in-switch, same-on-all-ranks or rank-order [default: that of MSCCLPP_ORDER,
    /// or in-switch]
    #[arg(long, value_name = "ORDER", value_parser = order)]
    pub(crate) order: Option<OrderPolicy>,
    #[command(flatten)]
    pub(crate) rooted: RootedArgs,
    /// Use this tuning table [default: that of MSCCLPP_TUNING_TABLE, if it is set]
    #[arg(long, value_name = "FILE")]
    pub(crate) table: Option<PathBuf>,
    /// Select by predicted times on this machine (see `mscclpp machine list`), or machine file [default: that of MSCCLPP_MACHINE, if it
    /// is set]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
