//! `mscclpp plan stats`: counts a plan's resources and operations.

use std::collections::BTreeMap;
use std::process::ExitCode;

use mscclpp_core::check::{Checks, ReductionOrder, dividing_counts, reduction_order};
use mscclpp_core::diag::Diagnostics;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::plan::stats::{Chunks, Stats};
use mscclpp_core::types::ChannelKind;
use serde_json::{Value, json};

use super::check::{by_slug, counts, restricted};
use crate::args::StatsArgs;
use crate::error::Result;
use crate::output::{print, print_json};
use crate::table::Columns;
use crate::{exit, source};

/// Counts a plan, per rank and in total.
///
/// # Errors
/// Those of loading; failures of standard output.
pub(crate) fn stats(args: &StatsArgs) -> Result<ExitCode> {
    let mut plan = source::load(&args.source)?.warned();
    let each = Stats::of_plan(&plan);
    let total = Stats::sum(&each);
    let findings = restricted(&mut plan, &Checks::default()).err().unwrap_or_default();
    let order = reduction_order(&plan);
    if args.json {
        print_json(&json!({
            "plan": plan.name,
            "collective": plan.collective.kind.name(),
            "checks": { "accepted": findings.is_empty(), "findings": counts(&findings) },
            "dividing": plan.collective.dividing,
            "reduction_order": order.as_ref().map(order_value),
            "total": value(&total),
            "ranks": each.iter().map(value).collect::<Vec<_>>(),
        }))?;
    } else {
        print(text(&plan, &findings, order.as_ref(), &each, &total))?;
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

fn value(stats: &Stats) -> Value {
    let chunks = |chunks: &Chunks| json!({ "plain": chunks.plain, "packets": chunks.packets });
    let by_channel = |all: &BTreeMap<ChannelKind, Chunks>| -> Value {
        all.iter()
            .map(|(kind, amount)| (kind.name().to_owned(), chunks(amount)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let counts = |all: Vec<(&str, u64)>| -> Value {
        all.into_iter().map(|(name, count)| (name.to_owned(), json!(count))).collect::<serde_json::Map<_, _>>().into()
    };
    json!({
        "thread_blocks": stats.num_blocks,
        "ops": stats.num_ops(),
        "syncs": stats.num_syncs(),
        "ops_by_kind": counts(stats.ops.iter().map(|(kind, count)| (kind.name(), *count)).collect()),
        "channels": counts(stats.num_channels.iter().map(|(kind, count)| (kind.name(), *count)).collect()),
        "remote_buffers": stats.num_remote_buffers,
        "semaphores": stats.num_semaphores,
        "scratch_chunks": stats.scratch_chunks,
        "sent": by_channel(&stats.sent),
        "fetched": by_channel(&stats.fetched),
        "written": chunks(&stats.written),
        "reduced": chunks(&stats.reduced),
    })
}

fn order_value(order: &ReductionOrder) -> Value {
    json!({
        "fingerprint": format!("{:016x}", order.fingerprint),
        "orders": order.num_orders,
        "same_on_all_ranks": order.is_same_on_all_ranks(),
        "differing_ranks": order.differing_ranks,
        "same_for_all_sizes": order.same_for_all_sizes,
        "rank_order": order.is_rank_order,
        "by_switch": order.by_switch,
    })
}

/// Describes whether results are bitwise equal on all ranks and in all launches.
fn order_text(order: &ReductionOrder) -> String {
    let ReductionOrder {
        fingerprint,
        num_orders: orders,
        differing_ranks: differing,
        whole_chunks,
        same_for_all_sizes,
        is_rank_order,
        by_switch,
        ..
    } = order;
    let plural = if *orders == 1 { "" } else { "s" };
    let kind = match (is_rank_order, by_switch) {
        (true, _) => ", that of ranks",
        (false, true) => "; the order within switches is unspecified",
        (false, false) => "",
    };
    let ranks = match &differing[..] {
        [] => "yes".to_owned(),
        [rank] => format!("no, rank {rank} reduces in another order"),
        ranks => format!("no, {} ranks reduce in other orders than the first: {}", ranks.len(), list(ranks)),
    };
    let sizes = match (same_for_all_sizes, whole_chunks) {
        (true, _) => "yes",
        (false, true) => "no, the order changes from chunk to chunk",
        (false, false) => "no, the order changes within chunks",
    };
    format!(
        "reduction order: {fingerprint:016x}, {orders} order{plural}{kind}\n  same bits on all ranks: {ranks}\n  same \
         bits for all message sizes: {sizes}\n"
    )
}

/// Formats numbers, with consecutive ones as ranges.
fn list(numbers: &[u32]) -> String {
    let rows = numbers.chunk_by(|a, b| a + 1 == *b).map(|row| match row {
        [first, .., last] => format!("{first}-{last}"),
        row => row.iter().map(u32::to_string).collect(),
    });
    rows.collect::<Vec<_>>().join(", ")
}

fn text(
    plan: &PlanTree,
    findings: &Diagnostics,
    order: Option<&ReductionOrder>,
    each: &[Stats],
    total: &Stats,
) -> String {
    let mut ranks = Columns::new(&[
        ">rank",
        ">blocks",
        ">ops",
        ">syncs",
        ">memory",
        ">port",
        ">switch",
        ">semaphores",
        ">scratch",
        ">sent",
        ">fetched",
        ">written",
        ">reduced",
    ]);
    for (rank, stats) in each.iter().enumerate() {
        ranks.row(cells(rank.to_string(), stats));
    }
    ranks.row(cells("all".into(), total));
    let mut kinds = Columns::new(&["operation", ">count"]);
    for (kind, count) in &total.ops {
        kinds.row([kind.name().to_owned(), count.to_string()]);
    }
    // The verdict of all checks, whatever checks were requested when the plan was built.
    let verdict = match findings.is_empty() {
        true if plan.collective.dividing => format!("accepted for {}", dividing_counts(plan)),
        true => "accepted".to_owned(),
        false => format!("rejected, {}; `mscclpp check` reports the findings", by_slug(findings)),
    };
    format!(
        "{}: {} of {} ranks; channels by kind; scratch and data in chunks, data in packets counts twice\nchecks: {verdict}\n{}\n{}\n\n{}\n",
        plan.name,
        plan.collective.kind.name(),
        each.len(),
        order.map(order_text).unwrap_or_default(),
        ranks.text(),
        kinds.text()
    )
}

fn cells(rank: String, stats: &Stats) -> Vec<String> {
    let channels = |kind| stats.num_channels.get(&kind).copied().unwrap_or(0).to_string();
    let moved = |all: &BTreeMap<ChannelKind, Chunks>| amount(all.values().map(Chunks::moved).fold(0.0, |a, b| a + b));
    vec![
        rank,
        stats.num_blocks.to_string(),
        stats.num_ops().to_string(),
        stats.num_syncs().to_string(),
        channels(ChannelKind::Memory),
        channels(ChannelKind::Port),
        channels(ChannelKind::Switch),
        stats.num_semaphores.to_string(),
        stats.scratch_chunks.to_string(),
        moved(&stats.sent),
        moved(&stats.fetched),
        amount(stats.written.moved()),
        amount(stats.reduced.moved()),
    ]
}

/// Formats integers without decimals, parts of a chunk with two.
fn amount(chunks: f64) -> String {
    if (chunks - chunks.round()).abs() < 1e-6 { format!("{chunks:.0}") } else { format!("{chunks:.2}") }
}
