//! The plans of MSCCL++ run on the CPU and produce correct results.

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::json::{self, ReadOptions};
use mscclpp_exec::cpu::{Executor, Options, Schedule};
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Error, Message};
use serde_json::Value;

fn plan(slug: &str) -> Plan {
    let text = conformance::text(&format!("{slug}.json"));
    let (tree, _) = json::read(&text, ReadOptions::default()).unwrap_or_else(|error| panic!("{slug}: {error}"));
    Plan::new(&tree)
}

/// Returns whether the reference's simulator reported an error within a launch. Races between launches are not errors
/// here: a launch of this executor ends for all ranks at once.
fn is_wrong_itself(entry: &Value) -> bool {
    let advisories = entry["advisories"].as_array().expect("a list");
    advisories.iter().filter_map(Value::as_str).any(|advisory| {
        advisory == "deadlock"
            || advisory.starts_with("recpkt-")
            || advisory.starts_with("race:") && !advisory.contains("cross-launch")
    })
}

/// Returns element counts of the larger buffer: one for each rank, an odd number of them, and a number that divides
/// evenly. Fewer on many ranks, where a test takes long anyway.
fn counts(ranks: u64) -> [u64; 3] {
    if ranks <= 4 { [ranks, ranks * 1237, ranks * 2048] } else { [ranks, ranks * 137, ranks * 256] }
}

fn run(plan: &Plan, world: &Executor, message: Message, launches: u64) -> Result<String, String> {
    let mut run = world.prepare(plan, message.any_size()).map_err(|error| error.to_string())?;
    let mut buffers = run.buffers().map_err(|error| error.to_string())?;
    let mut text = String::new();
    for launch in 0..launches {
        let verifier = Verifier::new(&run, launch);
        verifier.fill(&mut buffers);
        run.launch_buffers(&mut buffers).map_err(|error| error.to_string())?;
        let report = verifier.check(&buffers);
        if report.wrong > 0 {
            return Err(report.to_string());
        }
        text = report.to_string();
    }
    Ok(text)
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_compute_correct_results() {
    let (mut right, mut failures) = (0, Vec::new());
    for entry in conformance::index() {
        let slug = entry["slug"].as_str().expect("a name");
        if slug.starts_with("unit-") || is_wrong_itself(&entry) {
            continue;
        }
        let plan = plan(slug);
        let ranks = plan.num_ranks();
        for schedule in [Schedule::RoundRobin, Schedule::Seeded(11)] {
            let world = Executor::with_options(ranks, Options::default().schedule(schedule).workers(Some(2)));
            for count in counts(ranks.into()) {
                match run(&plan, &world, Message::new(DataType::F32, count), 2) {
                    Ok(report) if report != "not verified" => right += 1,
                    other => failures.push(format!("{slug}, {count} elements, {schedule:?}: {other:?}")),
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
    assert!(right > 100 * 6, "only {right} runs");
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn fragments_load_and_run_or_report_their_waits() {
    let mut seen = [0; 2];
    for entry in conformance::index() {
        let slug = entry["slug"].as_str().expect("a name");
        if !slug.starts_with("unit-") {
            continue;
        }
        let plan = plan(slug);
        let world = Executor::new(plan.num_ranks());
        for count in counts(plan.num_ranks().into()) {
            let mut run = world.prepare(&plan, Message::new(DataType::F32, count).any_size()).expect(slug);
            let mut buffers = run.buffers().expect(slug);
            match run.launch_buffers(&mut buffers) {
                Ok(()) => seen[0] += 1,
                Err(Error::Stalled(stall)) => {
                    assert!(!stall.blocked.is_empty(), "{slug}");
                    seen[1] += 1;
                }
                Err(other) => panic!("{slug}: {other}"),
            }
        }
    }
    println!("{} runs to the end, {} stalls", seen[0], seen[1]);
    assert!(seen[0] > 0 && seen[1] > 0);
}
