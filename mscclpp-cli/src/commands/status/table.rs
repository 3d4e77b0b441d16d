//! The status of a job as text.

use mscclpp_bootstrap::Address;
use mscclpp_communicator::status::{CommunicatorStatus, RankStatus};

use crate::table::Columns;

/// Returns a table for each communicator, each with its verdict.
pub(super) fn text(address: &Address, communicators: &[CommunicatorStatus]) -> String {
    let text = |communicator: &CommunicatorStatus| {
        let ranks = &communicator.ranks;
        let title = match communicator.number {
            0 => format!("{} ranks, rank 0 at {address}", ranks.len()),
            number => {
                format!("communicator {number:x} of {} ranks, ranks {} of the job", ranks.len(), list(job_ranks(ranks)))
            }
        };
        format!("{title}\n\n{}\n\n{}\n", table(ranks), communicator.verdict)
    };
    communicators.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn table(ranks: &[RankStatus]) -> String {
    let mut table = Columns::new(&[">rank", "host", ">pid", "state", ">for", "call", "at", "waits for"]);
    for rank in ranks {
        let call = rank.call.as_ref();
        let dash = || "-".to_owned();
        table.row([
            rank.rank.to_string(),
            if rank.host.is_empty() { dash() } else { rank.host.clone() },
            if rank.pid == 0 { dash() } else { rank.pid.to_string() },
            rank.state.name().to_owned(),
            rank.duration.map_or_else(dash, |duration| format!("{:.1} s", duration.as_secs_f64())),
            call.map_or_else(dash, |call| call.text.clone()),
            call.and_then(|call| call.at.clone()).unwrap_or_else(dash),
            if rank.waits_for.is_empty() { dash() } else { list(rank.waits_for.iter().copied()) },
        ]);
    }
    table.text()
}

fn job_ranks(ranks: &[RankStatus]) -> impl Iterator<Item = u32> {
    ranks.iter().map(|rank| rank.job_rank)
}

/// Returns `1, 2, 5`.
fn list(ranks: impl Iterator<Item = u32>) -> String {
    ranks.map(|rank| rank.to_string()).collect::<Vec<_>>().join(", ")
}
