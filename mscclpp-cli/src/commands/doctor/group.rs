//! `mscclpp doctor --group`: checks whether the ranks of a job find and reach each other.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_bootstrap as bootstrap;
use mscclpp_bootstrap::Bootstrap;
use serde_json::json;

use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json};
use crate::table::Columns;

/// Bytes that each rank sends to the next over a direct stream.
const BYTES: usize = 1 << 20;
/// Bytes of the messages that go through rank 0.
const MESSAGE: usize = 1 << 10;
/// Number of rounds, the last ones, whose times are kept.
const KEPT: usize = 4096;

/// Maximum timeout of the calls after all ranks have joined: all of them make the same calls, at once.
const MAX_TIMEOUT: Duration = Duration::from_secs(60);

/// Joins the job that the environment describes, tests every kind of connection between its ranks for `time`, and
/// prints the results on rank 0.
///
/// # Errors
/// [`Error::Group`] with the name of the rank that is missing, died, or does not match; [`Error::CorruptData`] for data
/// that arrived corrupted.
pub(super) fn group(time: Duration, json: bool) -> Result<ExitCode> {
    let start = Instant::now();
    let comm = Bootstrap::from_env()?;
    comm.set_timeout(comm.timeout().min(MAX_TIMEOUT));
    let together = start.elapsed();
    let until = start + time;
    let mut barriers = VecDeque::new();
    for round in 0u32.. {
        let start = Instant::now();
        comm.barrier()?;
        if barriers.len() == KEPT {
            barriers.pop_front();
        }
        barriers.push_back(start.elapsed());
        gather(&comm, round)?;
        ring(&comm, round)?;
        // Rank 0's clock decides for all ranks.
        let is_another_round = Instant::now() < until || round < 20;
        if comm.broadcast(0, &[u8::from(is_another_round)])? == [0] {
            break;
        }
    }
    barriers.make_contiguous().sort_unstable();
    pairs(&comm)?;
    let stream = streams(&comm)?;
    let slowest = comm.all_gather(&stream.to_le_bytes())?;
    let slowest =
        slowest.iter().filter_map(|rate| Some(f64::from_le_bytes(*rate.first_chunk()?))).fold(f64::MAX, f64::min);
    if comm.rank() == 0 {
        let barrier = barriers[barriers.len() / 2];
        report(&comm, &Times { together, barrier, slowest }, json)?;
    }
    comm.barrier()?;
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Measurements of rank 0.
struct Times {
    together: Duration,
    barrier: Duration,
    /// Rate of the slowest pair of neighbors, in bytes per second and direction; the largest number for a single rank.
    slowest: f64,
}

fn report(group: &Bootstrap, times: &Times, json: bool) -> Result<()> {
    let members = (0..group.num_ranks()).map(|rank| Ok((group.rank_info(rank)?, group.node_of(rank)?)));
    let members = members.collect::<std::result::Result<Vec<_>, bootstrap::Error>>()?;
    let (ms, us) = (times.together.as_secs_f64() * 1e3, times.barrier.as_secs_f64() * 1e6);
    let stream = (times.slowest < f64::MAX).then_some(times.slowest / 1e9);
    if json {
        let ranks: Vec<_> = members
            .iter()
            .map(|(member, node)| json!({ "rank": member.rank, "node": node, "pid": member.pid, "host": member.hostname }))
            .collect();
        return print_json(&json!({
            "ranks": ranks, "nodes": group.num_nodes(), "ranks_per_node": group.ranks_per_node(),
            "together_ms": ms, "barrier_us": us, "stream_gbs": stream,
        }));
    }
    let mut table = Columns::new(&[">rank", ">node", ">pid", "host"]);
    for (member, node) in members {
        table.row([member.rank.to_string(), node.to_string(), member.pid.to_string(), member.hostname.clone()]);
    }
    let stream = stream.map_or_else(String::new, |rate| format!(", slowest connection {rate:.2} GB/s"));
    print(format!(
        "{}\n\n{} on {} joined in {ms:.1} ms, barrier {us:.0} us{stream}\n",
        table.text(),
        counted(group.num_ranks(), "rank"),
        counted(group.num_nodes(), "node"),
    ))
}

fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Returns the data that `rank` sends in a round.
fn pattern(rank: u32, round: u32, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| (index as u32).wrapping_mul(31).wrapping_add(rank * 7 + round) as u8).collect()
}

fn garbled(what: &str, rank: u32) -> Error {
    Error::CorruptData { what: what.into(), rank }
}

fn gather(group: &Bootstrap, round: u32) -> Result<()> {
    let parts = group.all_gather(&pattern(group.rank(), round, MESSAGE))?;
    for (rank, part) in (0..).zip(parts) {
        if part != pattern(rank, round, MESSAGE) {
            return Err(garbled("an all_gather", rank));
        }
    }
    Ok(())
}

fn ring(group: &Bootstrap, round: u32) -> Result<()> {
    let (rank, ranks) = (group.rank(), group.num_ranks());
    let (next, last) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    group.send(next, 0, &pattern(rank, round, MESSAGE))?;
    if group.recv(last, 0)? != pattern(last, round, MESSAGE) {
        return Err(garbled("a message", last));
    }
    Ok(())
}

/// Exchanges data with every other rank over a direct stream. All ranks go through the others in the same order, so
/// that there are always two ranks whose next peer is each other.
fn pairs(group: &Bootstrap) -> Result<()> {
    let (rank, ranks) = (group.rank(), group.num_ranks());
    for peer in (0..ranks).filter(|peer| *peer != rank) {
        // Different from the numbers of the streams below.
        let stream = group.stream(peer, u64::from(ranks))?;
        let found = exchange(stream, rank.to_le_bytes().into(), group.timeout())
            .map_err(|error| Error::Broken { rank: peer, reason: error.to_string() })?;
        if found != peer.to_le_bytes() {
            return Err(garbled("a stream", peer));
        }
    }
    Ok(())
}

/// Exchanges data with both neighbors over direct streams, one pair after the other; returns the bytes per second of
/// the slower one.
fn streams(group: &Bootstrap) -> Result<f64> {
    let (rank, ranks) = (group.rank(), group.num_ranks());
    let mut slowest = f64::MAX;
    for first in 0..ranks {
        let second = (first + 1) % ranks;
        let peer = if rank == first { second } else { first };
        if rank == peer || (rank != first && rank != second) {
            group.barrier()?;
            continue;
        }
        let (ours, theirs) = (pattern(rank, 0, BYTES), pattern(peer, 0, BYTES));
        let stream = group.stream(peer, u64::from(first))?;
        let start = Instant::now();
        let found = exchange(stream, ours, group.timeout())
            .map_err(|error| Error::Broken { rank: peer, reason: error.to_string() })?;
        slowest = slowest.min(BYTES as f64 / start.elapsed().as_secs_f64());
        if found != theirs {
            return Err(garbled("a stream", peer));
        }
        group.barrier()?;
    }
    Ok(slowest)
}

/// Sends `ours` and receives the same number of bytes, both at once, because it is more than the system buffers.
fn exchange(mut stream: TcpStream, ours: Vec<u8>, deadline: Duration) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(deadline))?;
    stream.set_write_timeout(Some(deadline))?;
    let mut out = stream.try_clone()?;
    let mut theirs = vec![0; ours.len()];
    let sender = thread::spawn(move || out.write_all(&ours));
    stream.read_exact(&mut theirs)?;
    sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
    Ok(theirs)
}
