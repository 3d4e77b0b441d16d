//! Joint analysis of the dumps of several ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::record::{CallRecord, Dump, GroupRecord, StateRecord, WaitRecord};

/// Maximum number of ranks that a text lists.
const MAX_LISTED: usize = 8;
/// Wait from which on a rank that runs counts as stuck, in seconds.
const MIN_WAIT_SECONDS: f64 = 1.0;

/// Analysis of a failure in a communicator, or of ranks that run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Analysis {
    /// The job, as its dumps name it.
    pub job: String,
    /// The subset of the job's ranks that forms the communicator; `None` for all of them.
    pub group: Option<GroupRecord>,
    /// Number of ranks of the communicator; all following ranks are numbered in it.
    #[serde(rename = "ranks")]
    pub num_ranks: u32,
    /// Ranks without a dump: killed, suspended, or without the variable.
    pub missing_dumps: Vec<u32>,
    /// The first call in which ranks differ.
    pub divergence: Option<Divergence>,
    /// From a blocked thread block to the one for which all of them wait.
    pub wait_chain: Vec<WaitRecord>,
    /// The most likely root cause, as a rank and a reason; `None` if the dumps do not show one.
    pub root_cause: Option<(u32, String)>,
    /// Error of each rank's call; without ranks whose dumps were requested while they ran.
    pub failures: BTreeMap<u32, String>,
    /// What the ranks were doing whose dumps were requested while they ran.
    pub states: BTreeMap<u32, StateRecord>,
}

/// A call that is not the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Its number, counted from 1.
    pub number: u64,
    /// The ranks' calls with their source locations, the call that most ranks made first.
    pub calls: Vec<(CallRecord, Vec<u32>)>,
    /// Ranks that had not made this call yet, with their last call.
    pub lagging: Vec<(u32, Option<CallRecord>)>,
}

/// Analyzes dumps, each communicator of each job alone, in the order of the dumps: the oldest first, so that
/// a failure precedes its consequences. If a communicator's rank has several dumps, the last one counts.
pub fn analyze(dumps: &[Dump]) -> Vec<Analysis> {
    let mut groups: Vec<BTreeMap<u32, &Dump>> = Vec::new();
    let mut places: BTreeMap<(&str, Option<&str>), usize> = BTreeMap::new();
    for dump in dumps {
        let name = dump.rank.group.as_ref().map(|group| group.name.as_str());
        let place = *places.entry((&dump.rank.job, name)).or_insert_with(|| {
            groups.push(BTreeMap::new());
            groups.len() - 1
        });
        groups[place].insert(dump.rank.rank, dump);
    }
    groups.iter().map(analyze_communicator).collect()
}

/// Analyzes the dumps of a communicator.
fn analyze_communicator(by_rank: &BTreeMap<u32, &Dump>) -> Analysis {
    let ranks = by_rank.values().map(|dump| dump.rank.num_ranks).max().unwrap_or(0);
    let first = by_rank.values().next().map(|dump| &dump.rank);
    let (job, group) = first.map_or_else(Default::default, |rank| (rank.job.clone(), rank.group.clone()));
    // A forged file may state a very large number of ranks.
    let missing_dumps: Vec<u32> = (0..ranks).filter(|rank| !by_rank.contains_key(rank)).take(1 << 16).collect();
    let divergence = divergence(by_rank);
    let chain = wait_chain(by_rank);
    let root_cause_found = root_cause(by_rank, &missing_dumps, divergence.as_ref(), &chain);
    let failures = by_rank.iter().filter_map(|(rank, dump)| Some((*rank, dump.failure.as_ref()?.message.clone())));
    let states = by_rank.iter().filter_map(|(rank, dump)| Some((*rank, dump.state.clone()?)));
    Analysis {
        job,
        group,
        num_ranks: ranks,
        missing_dumps,
        divergence,
        wait_chain: chain,
        root_cause: root_cause_found,
        failures: failures.collect(),
        states: states.collect(),
    }
}

/// Returns the first call that is not the same on all ranks with dumps.
fn divergence(by_rank: &BTreeMap<u32, &Dump>) -> Option<Divergence> {
    let end = |dump: &Dump| dump.calls.last().map_or(0, |call| call.number);
    let ends = by_rank.values().map(|dump| end(dump));
    let (least, most) = (ends.clone().min()?, ends.max()?);
    let next = (most > least).then(|| least + 1);
    // The recorded calls of all ranks, up to the first call that some of them have not made.
    let mut by_number: BTreeMap<u64, Vec<(u32, &CallRecord)>> = BTreeMap::new();
    for (&rank, dump) in by_rank {
        for call in dump.calls.iter().filter(|call| call.number <= least || Some(call.number) == next) {
            by_number.entry(call.number).or_default().push((rank, call));
        }
    }
    by_number.into_iter().find_map(|(number, made)| {
        let mut calls: BTreeMap<&str, (CallRecord, Vec<u32>)> = BTreeMap::new();
        for (rank, call) in made {
            let (_, ranks) = calls.entry(&call.request).or_insert_with(|| (call.clone(), Vec::new()));
            ranks.push(rank);
        }
        let mut calls: Vec<_> = calls.into_values().collect();
        calls.sort_by_key(|(_, ranks)| (std::cmp::Reverse(ranks.len()), ranks.first().copied()));
        let lagging = by_rank.iter().filter(|(_, dump)| end(dump) < number);
        let lagging: Vec<_> = lagging.map(|(rank, dump)| (*rank, dump.calls.last().cloned())).collect();
        (calls.len() > 1 || !lagging.is_empty()).then_some(Divergence { number, calls, lagging })
    })
}

/// Follows the operations that would have released each wait, from the first wait of the lowest rank that has one.
fn wait_chain(by_rank: &BTreeMap<u32, &Dump>) -> Vec<WaitRecord> {
    // A rank's report about itself takes precedence over other ranks' reports about it.
    let mut waits: BTreeMap<(u32, u32), &WaitRecord> = BTreeMap::new();
    for own in [false, true] {
        for (&rank, dump) in by_rank {
            for wait in dump.waits.iter().filter(|wait| (wait.op.rank == rank) == own) {
                waits.insert((wait.op.rank, wait.op.block), wait);
            }
        }
    }
    let mut chain: Vec<WaitRecord> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut at = waits.keys().next().copied();
    while let Some(key) = at {
        let Some(&wait) = waits.get(&key) else { break };
        chain.push(wait.clone());
        if !seen.insert(key) {
            break;
        }
        at = wait.released_by.as_ref().map(|op| (op.rank, op.block));
    }
    chain
}

/// Returns the root cause.
fn root_cause(
    by_rank: &BTreeMap<u32, &Dump>,
    missing_dumps: &[u32],
    divergence: Option<&Divergence>,
    chain: &[WaitRecord],
) -> Option<(u32, String)> {
    // Ranks that name the same rank know more than the calls that they made: what all ranks did at that time.
    let mut named = by_rank.values().filter_map(|dump| {
        let failure = dump.failure.as_ref()?;
        Some((failure.root_cause?, &failure.message))
    });
    if let Some((rank, message)) = named.next()
        && named.all(|(other, _)| other == rank)
    {
        return Some((rank, message.lines().next().unwrap_or_default().to_owned()));
    }
    // Dumps of ranks that progress were not written at the same time.
    let is_stuck = |dump: &&Dump| {
        let waits = |state: &StateRecord| state.state == "waiting" && state.seconds >= MIN_WAIT_SECONDS;
        dump.state.as_ref().is_none_or(waits)
    };
    if !by_rank.values().any(is_stuck) {
        return None;
    }
    if let Some(Divergence { number, calls, lagging }) = divergence {
        if let [.., (_, more), (call, ranks)] = &calls[..] {
            let what = format!("in call {number} it calls {} at {}, unlike the other ranks", call.request, call.at);
            // With equally many ranks on both sides, either call may be the correct one.
            return ranks.first().filter(|_| more.len() > ranks.len()).map(|rank| (*rank, what));
        }
        if let Some((rank, last)) = lagging.first() {
            let last = last
                .as_ref()
                .map_or_else(String::new, |last| format!("; its last call was {} at {}", last.request, last.at));
            return Some((*rank, format!("it did not make call {number}{last}")));
        }
    }
    let end = chain.last();
    let awaited = end.and_then(|wait| wait.released_by.as_ref());
    if let Some(op) = awaited.filter(|op| missing_dumps.contains(&op.rank)) {
        return Some((
            op.rank,
            format!("{op} would unblock a waiting rank, but the rank wrote no dump: it was killed or suspended"),
        ));
    }
    if let [rank] = missing_dumps {
        return Some((*rank, "it is the only rank without a dump: it was killed or suspended".to_owned()));
    }
    let end = end?;
    match awaited {
        None => Some((end.op.rank, format!("no remaining operation would unblock {}", end.op))),
        Some(op) if by_rank.contains_key(&op.rank) && chain.len() > 1 && is_cycle(chain) => {
            Some((op.rank, "thread blocks form a wait-for cycle".to_owned()))
        }
        Some(op) => Some((op.rank, format!("{op} would unblock a waiting rank, but was not reached"))),
    }
}

fn is_cycle(chain: &[WaitRecord]) -> bool {
    let Some((last, others)) = chain.split_last() else { return false };
    others.iter().any(|wait| (wait.op.rank, wait.op.block) == (last.op.rank, last.op.block))
}

/// Formats ranks for messages: `1, 2, 5 and 60 more`.
fn format_ranks(ranks: &[u32]) -> String {
    let names: Vec<_> = ranks.iter().take(MAX_LISTED).map(u32::to_string).collect();
    let more = ranks.len().saturating_sub(MAX_LISTED);
    if more == 0 { names.join(", ") } else { format!("{} and {more} more", names.join(", ")) }
}

impl fmt::Display for Analysis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found: BTreeSet<u32> = self.failures.keys().chain(self.states.keys()).copied().collect();
        let found: Vec<u32> = found.into_iter().collect();
        write!(f, "{} ranks", self.num_ranks)?;
        if let Some(group) = &self.group {
            write!(f, " in {}, ranks {} of the job", group.name, format_ranks(&group.ranks))?;
        }
        writeln!(f, "; dumps of rank {}", format_ranks(&found))?;
        if !self.missing_dumps.is_empty() {
            writeln!(f, "no dump from rank {}", format_ranks(&self.missing_dumps))?;
        }
        if let Some(Divergence { number, calls, lagging }) = &self.divergence {
            writeln!(f, "\ncall {number} differs:")?;
            for (call, ranks) in calls {
                writeln!(f, "  rank {}: {} at {}", format_ranks(ranks), call.request, call.at)?;
            }
            for (rank, last) in lagging {
                match last {
                    Some(last) => {
                        writeln!(f, "  rank {rank}: not yet; call {} was {} at {}", last.number, last.request, last.at)?
                    }
                    None => writeln!(f, "  rank {rank}: no call yet")?,
                }
            }
        }
        if !self.wait_chain.is_empty() {
            writeln!(f, "\nwait chain:")?;
            for wait in &self.wait_chain {
                writeln!(f, "  {} waits for {}", wait.op, wait.waits_for)?;
                match &wait.released_by {
                    Some(op) => writeln!(f, "    which {op} would provide")?,
                    None => writeln!(f, "    which no remaining operation would provide")?,
                }
            }
        }
        if !self.failures.is_empty() {
            writeln!(f, "\nerrors that the calls returned:")?;
        }
        for (rank, message) in &self.failures {
            writeln!(f, "  rank {rank}: {}", message.lines().next().unwrap_or_default())?;
        }
        if !self.states.is_empty() {
            writeln!(f, "\nwhen the dumps were written:")?;
        }
        for (rank, StateRecord { state, seconds }) in &self.states {
            writeln!(f, "  rank {rank}: {state} for {seconds:.1} s")?;
        }
        match &self.root_cause {
            Some((rank, why)) => writeln!(f, "\nlikely root cause: rank {rank}: {why}"),
            None => writeln!(f, "\nno root cause found"),
        }
    }
}
