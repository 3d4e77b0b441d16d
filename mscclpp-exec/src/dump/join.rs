//! What the dumps of several ranks say together.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::record::{CallRecord, Dump, WaitRecord};

/// Ranks that a text lists.
const LISTED: usize = 8;

/// What is known of a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// Number of ranks.
    pub ranks: u32,
    /// Ranks that left nothing: killed, stopped, or without the variable.
    pub silent: Vec<u32>,
    /// The first call in which ranks differ.
    pub divergence: Option<Divergence>,
    /// From a thread block that waits to the one that all wait for.
    pub chain: Vec<Link>,
    /// Whose fault it is most likely, with the reason; nothing if the dumps do not say.
    pub culprit: Option<(u32, String)>,
    /// What each rank's call returned.
    pub failures: BTreeMap<u32, String>,
}

/// A call that is not the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Its number, counted from 1.
    pub number: u64,
    /// What ranks called, and where; the call that most ranks made first.
    pub calls: Vec<(CallRecord, Vec<u32>)>,
    /// Ranks that had not come so far, with their last call.
    pub behind: Vec<(u32, Option<CallRecord>)>,
}

/// A thread block in the chain, or its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// What waits.
    pub wait: WaitRecord,
}

/// Joins the dumps of a job. Of a rank with several the last one counts.
pub fn join(dumps: &[Dump]) -> Findings {
    let by_rank: BTreeMap<u32, &Dump> = dumps.iter().map(|dump| (dump.rank.rank, dump)).collect();
    let ranks = dumps.iter().map(|dump| dump.rank.ranks).max().unwrap_or(0);
    // There may be very many ranks in a file that was made up.
    let silent: Vec<u32> = (0..ranks).filter(|rank| !by_rank.contains_key(rank)).take(1 << 16).collect();
    let divergence = divergence(&by_rank);
    let chain = chain(&by_rank);
    let culprit = culprit(&by_rank, &silent, divergence.as_ref(), &chain);
    let failures = by_rank.iter().map(|(rank, dump)| (*rank, dump.failure.message.clone())).collect();
    Findings { ranks, silent, divergence, chain, culprit, failures }
}

/// The first call that is not the same on all ranks that left something.
fn divergence(by_rank: &BTreeMap<u32, &Dump>) -> Option<Divergence> {
    let ends = by_rank.values().map(|dump| dump.calls.last().map_or(0, |call| call.number));
    let (least, most) = (ends.clone().min()?, ends.max()?);
    let numbers: BTreeSet<u64> = by_rank
        .values()
        .flat_map(|dump| &dump.calls)
        .map(|call| call.number)
        .filter(|number| *number <= least)
        .collect();
    let next = (most > least).then_some(least + 1);
    numbers.into_iter().chain(next).find_map(|number| {
        let mut calls: Vec<(CallRecord, Vec<u32>)> = Vec::new();
        let mut behind = Vec::new();
        for (&rank, dump) in by_rank {
            match dump.calls.iter().find(|call| call.number == number) {
                Some(call) => match calls.iter_mut().find(|(other, _)| other.request == call.request) {
                    Some((_, ranks)) => ranks.push(rank),
                    None => calls.push((call.clone(), vec![rank])),
                },
                None if dump.calls.last().is_none_or(|last| last.number < number) => {
                    behind.push((rank, dump.calls.last().cloned()));
                }
                // It has forgotten.
                None => {}
            }
        }
        calls.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
        (calls.len() > 1 || (!calls.is_empty() && !behind.is_empty())).then_some(Divergence { number, calls, behind })
    })
}

/// Follows who would have released whom, from the first wait of the lowest rank that has one.
fn chain(by_rank: &BTreeMap<u32, &Dump>) -> Vec<Link> {
    // What a rank says of itself goes before what others say of it.
    let mut waits: BTreeMap<(u32, u32), &WaitRecord> = BTreeMap::new();
    for own in [false, true] {
        for (&rank, dump) in by_rank {
            for wait in dump.waits.iter().filter(|wait| (wait.op.rank == rank) == own) {
                waits.insert((wait.op.rank, wait.op.block), wait);
            }
        }
    }
    let mut chain: Vec<Link> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = waits.keys().next().copied();
    while let Some(key) = at {
        let Some(&wait) = waits.get(&key) else { break };
        chain.push(Link { wait: wait.clone() });
        if !seen.insert(key) {
            break;
        }
        at = wait.released_by.as_ref().map(|op| (op.rank, op.block));
    }
    chain
}

/// Whose fault it is.
fn culprit(
    by_rank: &BTreeMap<u32, &Dump>,
    silent: &[u32],
    divergence: Option<&Divergence>,
    chain: &[Link],
) -> Option<(u32, String)> {
    if let Some(Divergence { number, calls, behind }) = divergence {
        if let [_, .., (call, ranks)] = &calls[..] {
            let what = format!("in call {number} it calls {} at {}, unlike the others", call.request, call.at);
            return Some((*ranks.first()?, what));
        }
        if let Some((rank, last)) = behind.first() {
            let last = last
                .as_ref()
                .map_or_else(String::new, |last| format!("; its last was {} at {}", last.request, last.at));
            return Some((*rank, format!("it did not come to call {number}{last}")));
        }
    }
    let end = chain.last();
    let awaited = end.and_then(|link| link.wait.released_by.as_ref());
    if let Some(op) = awaited.filter(|op| silent.contains(&op.rank)) {
        return Some((op.rank, format!("{op} is waited for, and the rank left nothing: it was killed or stopped")));
    }
    if let [rank] = silent {
        return Some((*rank, "it is the only rank that left nothing: it was killed or stopped".to_owned()));
    }
    let end = end?;
    match awaited {
        None => Some((end.wait.op.rank, format!("no operation that was still to come would release {}", end.wait.op))),
        Some(op) if by_rank.contains_key(&op.rank) && chain.len() > 1 && is_cycle(chain) => {
            Some((op.rank, "thread blocks wait for each other in a circle".to_owned()))
        }
        Some(op) => Some((op.rank, format!("{op} is waited for, and was not reached"))),
    }
}

fn is_cycle(chain: &[Link]) -> bool {
    let Some((last, others)) = chain.split_last() else { return false };
    others.iter().any(|link| (link.wait.op.rank, link.wait.op.block) == (last.wait.op.rank, last.wait.op.block))
}

/// Ranks for people: `1, 2, 5 and 60 more`.
fn listed(ranks: &[u32]) -> String {
    let names: Vec<_> = ranks.iter().take(LISTED).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(LISTED);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: Vec<u32> = self.failures.keys().copied().collect();
        writeln!(f, "{} ranks; dumps of rank {}", self.ranks, listed(&found))?;
        if !self.silent.is_empty() {
            writeln!(f, "nothing of rank {}", listed(&self.silent))?;
        }
        if let Some(Divergence { number, calls, behind }) = &self.divergence {
            writeln!(f, "\ncall {number} differs:")?;
            for (call, ranks) in calls {
                writeln!(f, "  rank {}: {} at {}", listed(ranks), call.request, call.at)?;
            }
            for (rank, last) in behind {
                match last {
                    Some(last) => {
                        writeln!(f, "  rank {rank}: not yet; call {} was {} at {}", last.number, last.request, last.at)?
                    }
                    None => writeln!(f, "  rank {rank}: no call yet")?,
                }
            }
        }
        if !self.chain.is_empty() {
            writeln!(f, "\nwho waits for whom:")?;
            for Link { wait } in &self.chain {
                writeln!(f, "  {} waits for {}", wait.op, wait.waits_for)?;
                match &wait.released_by {
                    Some(op) => writeln!(f, "    which {op} would bring")?,
                    None => writeln!(f, "    which nothing that was still to come would bring")?,
                }
            }
        }
        writeln!(f, "\nwhat the calls returned:")?;
        for (rank, message) in &self.failures {
            writeln!(f, "  rank {rank}: {}", message.lines().next().unwrap_or_default())?;
        }
        match &self.culprit {
            Some((rank, why)) => writeln!(f, "\nmost likely rank {rank}: {why}"),
            None => writeln!(f, "\nthe dumps do not say whose fault it is"),
        }
    }
}
