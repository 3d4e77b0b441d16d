//! `mscclpp plan schema`: which JSON the reader of plan files accepts, as a JSON Schema, and what each operation does.

use std::process::ExitCode;

use mscclpp_core::plan::raw::{IdList, OpKind, Packets, Side};

use crate::args::SchemaArgs;
use crate::error::Result;
use crate::exit;
use crate::output::print;

/// The schema, which `docs/plan.schema.json` repeats.
const SCHEMA: &str = include_str!("plan.schema.json");

/// Prints the schema, or the table of operations.
///
/// # Errors
/// Failures of standard output.
pub(crate) fn schema(args: &SchemaArgs) -> Result<ExitCode> {
    if args.operations {
        print(operations())?
    } else {
        print(SCHEMA)?
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// The operations of plans with their operands and keys, as a table in Markdown.
fn operations() -> String {
    let mut table = "| name | operation | reads | writes | further keys |\n|---|---|---|---|---|\n".to_owned();
    for &kind in OpKind::ALL {
        let cells =
            [kind.description().trim().into(), operands(kind.srcs()), operands(kind.dsts()), further_keys(kind).into()];
        let cells: String = cells
            .iter()
            .map(|cell: &String| if cell.is_empty() { " |".into() } else { format!(" {cell} |") })
            .collect();
        table += &format!("| `{}` |{cells}\n", kind.name());
    }
    // Descriptions have the names of kinds in Rust, the table those of the format.
    for &kind in OpKind::ALL {
        table = table.replace(&format!("`{kind:?}`"), &format!("`{}`", kind.name()));
    }
    table
}

/// Operands of a side, as the table lists them.
fn operands(side: &Side) -> String {
    let mut found = Vec::new();
    for ((min, max), place) in side.ranges().into_iter().zip(["local", "remote", "switch"]) {
        let count = |min, max| {
            if max == usize::MAX { if min > 1 { "2 or more".into() } else { "k".into() } } else { format!("{max}") }
        };
        let mut list = |min: usize, max: usize, packets: bool| {
            let place = if packets && place == "local" { "own" } else { place };
            found.push(format!("{} {place}{}", count(min, max), if packets { " packets" } else { "" }));
        };
        match side.packets {
            _ if max == 0 => {}
            // The first operand is plain.
            Packets::Rest if place == "local" => {
                list(1, 1, false);
                if max > 1 {
                    list(min - 1, if max == usize::MAX { max } else { max - 1 }, true);
                }
            }
            packets => list(min, max, packets != Packets::Nothing),
        }
    }
    found.join(", ")
}

/// The keys of an operation other than its operands, channel type, reduction and slice.
fn further_keys(kind: OpKind) -> &'static str {
    match (kind, kind.ids()) {
        (OpKind::SwitchReduce, _) => {
            "instead of operands `buffer_type`, `buffer_offset`, `size`, `dst_chunk`, one of `channel_ids`"
        }
        (OpKind::Pipeline, _) => "`iter_context`, `ops`",
        (kind, IdList::ChannelPerPortDestination) if kind.is_counted() => "`count`, `channel_ids` on ports",
        (kind, _) if kind.is_counted() && kind.is_data() => "`count`",
        (_, IdList::Nothing) => "",
        (_, IdList::Channels | IdList::ChannelPerPair) => "`channel_ids`",
        (_, IdList::ChannelPerPortDestination) => "`channel_ids` on ports",
        (_, IdList::Semaphores) => "`semaphore_ids`",
        (_, IdList::Barrier) => "`barrier_id`, `num_threadblocks`",
    }
}
