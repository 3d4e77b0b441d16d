//! `mscclpp find`: the fastest proved plan for a collective on a machine.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use mscclpp_algorithms::{self as algorithms, OrderScope};
use mscclpp_core::plan::json::{self, Style};
use mscclpp_find::{Finder, Ranked, Ranking, Request};
use mscclpp_predict::Machine;
use mscclpp_select::tuning::{CandidateTime, MachineInfo, TuningEntry, TuningTable, rounded};
use mscclpp_select::{Backend, Request as Call};
use serde_json::{Value, json};

use super::bound::us;
use super::machine::{accuracy, load};
use crate::args::FindArgs;
use crate::error::{Error, Result};
use crate::exit;
use crate::output::{print, print_json, warn, write_file};
use crate::progress::Progress;
use crate::size::human;
use crate::table::Columns;

/// Number of plans that are shown for a size.
const MAX_SHOWN_PLANS: usize = 10;

/// Finds plans for one size, or a tuning table for several.
///
/// # Errors
/// Those of the machine; [`Error::Usage`] for ranks that it does not have, and if no plan is found; failures of the output.
pub(crate) fn find(args: &FindArgs) -> Result<ExitCode> {
    let machine = load(&args.machine)?;
    match (args.sizes, args.size) {
        (Some((first, last)), _) => find_table(args, &machine, first, last)?,
        (None, size) => find_one(args, &machine, size.unwrap_or(0))?,
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

fn request<'m>(args: &FindArgs, machine: &'m Machine, in_place: Option<bool>) -> Request<'m> {
    let num_ranks = args.ranks.unwrap_or(machine.ranks);
    Request { kind: args.collective, machine, num_ranks, max_blocks: args.blocks, in_place }
}

fn rank(finder: &Finder, sizes: &[u64], limit: usize) -> Result<Vec<Ranking>> {
    let _working = Progress::spinner("simulating and checking plans");
    finder.rank(sizes, limit).map_err(|error| Error::Usage(error.to_string()))
}

fn find_one(args: &FindArgs, machine: &Machine, size: u64) -> Result<()> {
    let in_place = if args.in_place { Some(true) } else { args.out_of_place.then_some(false) };
    let request = request(args, machine, in_place);
    let finder = {
        let _working = Progress::spinner(&format!("packing trees for {} ranks", request.num_ranks));
        Finder::new(request)
    };
    let rankings = rank(&finder, &[size], MAX_SHOWN_PLANS)?;
    let [ranking] = &rankings[..] else { return Ok(()) };
    let written = match (&args.output, ranking.ranked.first()) {
        (Some(directory), Some(best)) => write_plan(directory, args, machine, ranking, best)?,
        _ => Vec::new(),
    };
    if args.json {
        print_json(&value(args, machine, ranking, &written))
    } else {
        print(text(args, machine, ranking, &written))
    }
}

/// Writes a plan and its function, and returns the names of the files.
fn write_plan(
    directory: &Path,
    args: &FindArgs,
    machine: &Machine,
    ranking: &Ranking,
    best: &Ranked,
) -> Result<Vec<String>> {
    fs::create_dir_all(directory).map_err(|source| Error::Write { path: directory.to_owned(), source })?;
    let about = [
        format!(
            "`{}` for {} of {} on {} ranks of {}.",
            best.candidate.name(),
            args.collective.name(),
            human(ranking.bytes),
            best.candidate.plan().ranks.len(),
            machine.name
        ),
        String::new(),
        format!(
            "Predicted time: {}, accuracy: {}. Lower bound: {}.",
            us(best.time_us),
            accuracy(machine),
            us(ranking.bound.time_us)
        ),
        "The checks accept the plan, as the compiler does when it compiles this function.".to_owned(),
    ];
    let files = [
        (format!("{}.rs", best.candidate.name()), best.candidate.source(&about)),
        (format!("{}.json", best.candidate.name()), json::write(best.candidate.plan(), Style::Pretty)),
    ];
    let mut names = Vec::new();
    for (name, text) in files {
        let path = directory.join(name);
        write_file(&path, text.as_bytes())?;
        names.push(path.display().to_string());
    }
    Ok(names)
}

fn value(args: &FindArgs, machine: &Machine, ranking: &Ranking, written: &[String]) -> Value {
    let stated = machine.stated_accuracy();
    let plans = ranking.ranked.iter().map(|found| {
        json!({
            "plan": found.candidate.name(),
            "config": found.candidate.config(),
            "in_place": found.candidate.plan().collective.in_place,
            "blocks": found.candidate.num_blocks(),
            "time_us": found.time_us,
            "times_bound": Some(found.time_us / ranking.bound.time_us).filter(|times| times.is_finite()),
            "links_algbw_gbps": found.links_gb_per_s,
        })
    });
    json!({
        "collective": args.collective.name(),
        "machine": machine.name,
        "ranks": args.ranks.unwrap_or(machine.ranks),
        "bytes": ranking.bytes,
        "bound_us": ranking.bound.time_us,
        "error_percent": stated.map(|accuracy| accuracy.mean_percent),
        "worst_error_percent": stated.map(|accuracy| accuracy.worst_percent),
        "extrapolated": stated.is_none(),
        "candidates": ranking.num_candidates,
        "refused": ranking.num_refused,
        "plans": plans.collect::<Vec<_>>(),
        "files": written,
    })
}

fn text(args: &FindArgs, machine: &Machine, ranking: &Ranking, written: &[String]) -> String {
    let mut lines = vec![
        format!(
            "{} of {} on {} ranks of {}: {} candidates, {} refused by the checks",
            args.collective.name(),
            human(ranking.bytes),
            args.ranks.unwrap_or(machine.ranks),
            machine.name,
            ranking.num_candidates,
            ranking.num_refused
        ),
        format!("accuracy: {}", accuracy(machine)),
        format!("bound: {}", us(ranking.bound.time_us)),
        String::new(),
    ];
    let mut table = Columns::new(&["plan", "built with", "in place", ">blocks", ">time (us)", ">times bound"]);
    for found in &ranking.ranked {
        table.row([
            found.candidate.name().to_owned(),
            found.candidate.config(),
            if found.candidate.plan().collective.in_place { "yes" } else { "no" }.to_owned(),
            found.candidate.num_blocks().to_string(),
            format!("{:.2}", found.time_us),
            times_bound(found.time_us, ranking),
        ]);
    }
    lines.push(table.text());
    lines.extend(less_traffic(ranking));
    lines.extend(written.iter().map(|file| format!("wrote {file}")));
    lines.join("\n")
}

/// Returns why the fastest plan is first although its links take longer than the bound by a part that another plan's do not.
fn less_traffic(ranking: &Ranking) -> Option<String> {
    const NEAR: f64 = 1.05;
    let bound = &ranking.bound;
    // Short messages take as long as latency requires, whatever the links carry.
    if bound.throughput_us <= bound.latency_us {
        return None;
    }
    let bound_us = bound.load_reduce_us.unwrap_or(bound.throughput_us);
    let times = |found: &Ranked| Some(ranking.bytes as f64 / found.links_gb_per_s? / 1000.0 / bound_us);
    let (first, others) = ranking.ranked.split_first()?;
    let of_first = times(first).filter(|times| *times > NEAR)?;
    let (other, of_other) =
        others.iter().find_map(|found| times(found).filter(|times| *times <= NEAR).map(|times| (found, times)))?;
    Some(format!(
        "{} loads links less, {of_other:.2} times the bound where {} takes {of_first:.2}, but is predicted to take {:.2} us instead of {:.2} us",
        other.candidate.name(),
        first.candidate.name(),
        other.time_us,
        first.time_us
    ))
}

/// Returns how many times the bound a time is; `-` if the bound is zero.
fn times_bound(time_us: f64, ranking: &Ranking) -> String {
    let times = time_us / ranking.bound.time_us;
    if times.is_finite() { format!("{times:.2}") } else { "-".to_owned() }
}

/// Finds the fastest built-in algorithm for each power of two, in place and not.
fn find_table(args: &FindArgs, machine: &Machine, first: u64, last: u64) -> Result<()> {
    let powers = (0..u64::BITS).map(|power| 1_u64 << power);
    let sizes: Vec<u64> = powers.filter(|size| (first..=last).contains(size) && rounded(*size) == *size).collect();
    if sizes.is_empty() {
        return Err(Error::Usage(format!(
            "--sizes {first}:{last}: expected a power of two from 1K to 256M between them"
        )));
    }
    let num_ranks = args.ranks.unwrap_or(machine.ranks);
    let devices = Some(format!("{num_ranks} ranks of {}, predicted", machine.name));
    let mut table = TuningTable::new(MachineInfo { devices, ..MachineInfo::current() });
    let mut shown = Columns::new(&[">bytes", "in place", "algorithm", ">blocks", ">time (us)", ">times bound"]);
    let asked =
        [false, true].into_iter().filter(|&in_place| if in_place { !args.out_of_place } else { !args.in_place });
    for in_place in asked {
        let finder = Finder::of_builtins(request(args, machine, Some(in_place)));
        for ranking in rank(&finder, &sizes, usize::MAX)? {
            let mut times = ranking.ranked.iter().filter_map(entry);
            let Some(fastest) = times.next() else {
                warn(format_args!(
                    "the table has no entry for {} of {}, {}: expected a built-in algorithm whose results are equal on all ranks, \
                     found none",
                    args.collective.name(),
                    human(ranking.bytes),
                    if in_place { "in place" } else { "out of place" }
                ));
                continue;
            };
            shown.row([
                human(ranking.bytes),
                if in_place { "yes" } else { "no" }.to_owned(),
                fastest.algorithm.clone(),
                fastest.blocks.map_or_else(|| "-".to_owned(), |blocks| blocks.to_string()),
                format!("{:.2}", fastest.time_us),
                times_bound(fastest.time_us, &ranking),
            ]);
            let ranks_per_node = machine.ranks_per_node.min(num_ranks);
            let call = Call {
                in_place,
                ranks_per_node,
                registered: true,
                backend: Backend::Cuda,
                ..Call::new(args.collective, num_ranks, mscclpp_exec::DataType::F32, ranking.bytes)
            };
            table.entries.push(TuningEntry::new(&call, fastest, times.collect()));
        }
    }
    if table.entries.is_empty() {
        return Err(Error::Usage(format!(
            "expected a built-in algorithm for `{}` on {num_ranks} ranks of machine `{}` whose results are equal on all ranks, found none; \
             use `--size` for other plans",
            args.collective.name(),
            machine.name
        )));
    }
    let text = table.text_after(
        "Written by `mscclpp find`: the algorithm with the least predicted time per request, in microseconds.",
    );
    let mut written = Vec::new();
    if let Some(directory) = &args.output {
        fs::create_dir_all(directory).map_err(|source| Error::Write { path: directory.clone(), source })?;
        let path = directory.join("tuning.toml");
        write_file(&path, text.as_bytes())?;
        written.push(path.display().to_string());
    }
    if args.json {
        return print_json(&json!({
            "collective": args.collective.name(),
            "machine": machine.name,
            "ranks": num_ranks,
            "entries": table.entries.iter().map(|entry| json!({
                "bytes": entry.bytes,
                "in_place": entry.in_place,
                "algorithm": entry.fastest.algorithm,
                "blocks": entry.fastest.blocks,
                "time_us": entry.fastest.time_us,
            })).collect::<Vec<_>>(),
            "files": written,
        }));
    }
    let written = written.iter().map(|file| format!("wrote {file}"));
    print([shown.text()].into_iter().chain(written).collect::<Vec<_>>().join("\n"))
}

/// Returns the time of a built-in algorithm whose results are equal on all ranks; tables have no others.
fn entry(found: &Ranked) -> Option<CandidateTime> {
    let (name, blocks) = found.candidate.builtin()?;
    let order = algorithms::find(name)?.order_varies_across();
    let differs = matches!(order, Some(OrderScope::Ranks | OrderScope::Nodes));
    (!differs).then(|| CandidateTime {
        algorithm: name.to_owned(),
        blocks: Some(blocks),
        threads: None,
        time_us: found.time_us,
    })
}
