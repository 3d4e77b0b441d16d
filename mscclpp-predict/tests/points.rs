//! Fits the constants of machine descriptions to public measured times, and compares predictions with times that were not used
//! for that.
//!
//! The points are not part of the repository: `MSCCLPP_POINTS` names a TOML file with a list `point`. With `MSCCLPP_BLESS=1` the test of
//! the errors writes them into the machine descriptions, and the test of the constants fits and writes these, for the
//! machines in `MSCCLPP_MACHINES` (names separated by commas) or all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_predict::{MIN_POINTS, Machine, Predictor};
use serde::Deserialize;

/// A measured time.
#[derive(Clone, Debug, Deserialize)]
struct Point {
    machine: String,
    kernel: String,
    plan: String,
    bytes: u64,
    ranks: u32,
    time_us: f64,
    usable: bool,
    half: String,
}

#[derive(Deserialize)]
struct Points {
    point: Vec<Point>,
}

/// Returns the usable points by machine.
fn points() -> BTreeMap<String, Vec<Point>> {
    let path = std::env::var_os("MSCCLPP_POINTS").expect("MSCCLPP_POINTS names the file of points");
    let text = std::fs::read_to_string(path).expect("the points");
    let all: Points = toml::from_str(&text).expect("points in TOML");
    let mut machines: BTreeMap<String, Vec<Point>> = BTreeMap::new();
    for point in all.point.into_iter().filter(|point| point.usable) {
        machines.entry(point.machine.clone()).or_default().push(point);
    }
    let wanted = std::env::var("MSCCLPP_MACHINES").unwrap_or_default();
    machines.retain(|name, _| wanted.is_empty() || wanted.split(',').any(|one| one == name));
    machines
}

/// Returns the plan that a machine runs for a point, as `mscclpp simulate` builds it.
fn plan(machine: &Machine, point: &Point) -> PlanTree {
    let algorithm = mscclpp_algorithms::find(&point.plan).expect("a built-in algorithm");
    let per_node = machine.ranks_per_node.min(point.ranks);
    let per_node = match algorithm.supports(point.ranks, per_node) {
        true => per_node,
        false => algorithm.ranks_per_node(point.ranks).expect("a supported number of ranks"),
    };
    let spec = algorithm.spec(point.ranks, per_node);
    let (mut spec, arguments) = algorithm.with_parallel_blocks(spec, machine.blocks_of(&point.plan).unwrap_or(1));
    spec.collective.in_place |= algorithm.buffer_mode() == mscclpp_algorithms::BufferMode::InPlace;
    let trace = algorithm.record(spec, &arguments).unwrap_or_else(|error| panic!("{}: {error}", point.plan));
    lower(&trace).unwrap_or_else(|error| panic!("{}: {error}", point.plan))
}

/// An algorithm, the ranks and the thread blocks.
type PlanKey = (String, u32, u32);

/// Predicts the times of points.
#[derive(Default)]
struct Model {
    predictors: BTreeMap<PlanKey, Predictor<'static>>,
}

impl Model {
    fn predict(&mut self, machine: &Machine, point: &Point) -> f64 {
        let key = (point.plan.clone(), point.ranks, machine.blocks_of(&point.plan).unwrap_or(1));
        // Plans live as long as the test.
        let new = || Predictor::new(Box::leak(Box::new(plan(machine, point))));
        let predictor = self.predictors.entry(key).or_insert_with(new);
        let tier = Some(point.kernel.as_str()).filter(|name| machine.tiers.contains_key(*name));
        predictor.predict(machine, point.bytes, tier).unwrap_or_else(|error| panic!("{point:?}: {error}")).time_us
    }

    /// Returns the relative errors of points.
    fn errors(&mut self, machine: &Machine, points: &[Point]) -> Vec<f64> {
        points.iter().map(|point| (self.predict(machine, point) / point.time_us - 1.0).abs()).collect()
    }
}

fn mean(errors: &[f64]) -> f64 {
    errors.iter().sum::<f64>() / errors.len().max(1) as f64
}

fn worst(errors: &[f64]) -> f64 {
    errors.iter().copied().fold(0.0, f64::max)
}

fn half(points: &[Point], half: &str) -> Vec<Point> {
    points.iter().filter(|point| point.half == half).cloned().collect()
}

fn file(machine: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("machines").join(format!("{machine}.toml"))
}

fn blesses() -> bool {
    std::env::var_os("MSCCLPP_BLESS").is_some_and(|value| value == "1")
}

#[test]
#[ignore = "needs the measured times that MSCCLPP_POINTS names"]
fn stated_errors_are_those_of_the_held_out_points() {
    for (name, points) in points() {
        let text = std::fs::read_to_string(file(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let machine = Machine::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut model = Model::default();
        let held = half(&points, "held");
        let errors = model.errors(&machine, &held);
        for point in points.iter().filter(|_| std::env::var_os("MSCCLPP_VERBOSE").is_some()) {
            let found = model.predict(&machine, point);
            let error = 100.0 * (found / point.time_us - 1.0);
            println!(
                "{:5} {:30} {:24} {:>12} {:>3} {:>10.2} {found:>10.2} {error:>6.1} %",
                point.half, point.plan, point.kernel, point.bytes, point.ranks, point.time_us
            );
        }
        let (mean, worst) = (100.0 * mean(&errors), 100.0 * worst(&errors));
        println!("{name}: {} of {} points, mean {mean:.1} %, worst {worst:.1} %", held.len(), points.len());
        if blesses() {
            if held.is_empty() {
                continue;
            }
            let kept = text.split("\n[accuracy]").next().unwrap_or_default().trim_end();
            let usable = machine.accuracy.as_ref().map_or(0, |stated| stated.usable).max(points.len() as u32);
            let date = std::env::var("MSCCLPP_DATE").expect("MSCCLPP_DATE is the date of today");
            let section = format!(
                "\n\n[accuracy]\nmean_percent = {mean:.1}\nworst_percent = {worst:.1}\nheld_out = {}\nusable = {usable}\ndate = \"{date}\"\n",
                held.len()
            );
            std::fs::write(file(&name), kept.to_owned() + &section).expect("the machine description is written");
            continue;
        }
        let Some(stated) = &machine.accuracy else { continue };
        assert!(
            (stated.mean_percent - mean).abs() < 0.06 && (stated.worst_percent - worst).abs() < 0.06,
            "{name}: {stated:?}"
        );
        assert_eq!(stated.held_out as usize, held.len(), "{name}");
        assert!(stated.usable as usize >= points.len(), "{name}");
    }
}

/// A constant that is fitted: its tier, if it is one of a tier, and its name.
type Key = (Option<String>, String);

/// Returns the constants of a file that are fitted.
fn fitted(text: &str) -> Vec<Key> {
    let value: toml::Table = toml::from_str(text).expect("a machine description");
    let of = |tier: Option<String>, section: Option<&toml::Value>| -> Vec<Key> {
        let constants = section.and_then(toml::Value::as_table).into_iter().flatten();
        let fitted =
            constants.filter(|(_, constant)| constant.get("fitted").and_then(toml::Value::as_bool) == Some(true));
        fitted.map(|(name, _)| (tier.clone(), name.clone())).collect()
    };
    let mut keys = of(None, value.get("constant"));
    for (tier, section) in value.get("tier").and_then(toml::Value::as_table).into_iter().flatten() {
        keys.extend(of(Some(tier.clone()), Some(section)));
    }
    keys
}

fn constant<'m>(machine: &'m mut Machine, (tier, name): &Key) -> &'m mut f64 {
    let constants = match tier {
        None => &mut machine.constants,
        Some(tier) => &mut machine.tiers.get_mut(tier).expect("a tier of the file").constants,
    };
    &mut constants.0.get_mut(name).expect("a constant of the file").value
}

/// Returns the algorithms of points whose number of thread blocks a file states, unless `MSCCLPP_KEEP_BLOCKS` names them.
fn own_blocks(text: &str, points: &[Point]) -> Vec<String> {
    let value: toml::Table = toml::from_str(text).expect("a machine description");
    let stated =
        value.get("blocks").and_then(toml::Value::as_table).into_iter().flatten().map(|(name, _)| name.clone());
    let kept = std::env::var("MSCCLPP_KEEP_BLOCKS").unwrap_or_default();
    let kept: Vec<&str> = kept.split(',').collect();
    stated.filter(|name| !kept.contains(&name.as_str()) && points.iter().any(|point| point.plan == *name)).collect()
}

/// Returns the largest value that a constant may have.
fn limit(machine: &Machine, name: &str) -> f64 {
    match name {
        name if name.ends_with("_efficiency") || name == "spread" => 1.0,
        // One thread block moves no more than the device.
        name if name.starts_with("block_") => machine.constants.get("memory_gb_per_s").unwrap_or(f64::INFINITY),
        _ => f64::INFINITY,
    }
}

/// Weight of the worst error beside the mean, and of the distance of a constant from its first value.
const WORST: f64 = 0.2;
const DISTANCE: f64 = 0.002;

/// Numbers of thread blocks that are tried.
const BLOCKS: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// Fits constants by descent along one of them at a time, with smaller and smaller steps.
fn fit(machine: &mut Machine, keys: &[Key], points: &[Point], own_blocks: &[String]) -> f64 {
    let mut model = Model::default();
    let first: Vec<f64> = keys.iter().map(|key| *constant(machine, key)).collect();
    let mut cost = |machine: &mut Machine| {
        let errors = model.errors(machine, points);
        let far: f64 = keys.iter().zip(&first).map(|(key, first)| (*constant(machine, key) / first).ln().powi(2)).sum();
        mean(&errors) + WORST * worst(&errors) + DISTANCE * far
    };
    let mut best = cost(machine);
    for step in [1.5, 1.2, 1.08, 1.03, 1.01] {
        for _ in 0..12 {
            let before = best;
            for key in keys {
                for factor in [step, 1.0 / step] {
                    loop {
                        let old = *constant(machine, key);
                        let limit = limit(machine, &key.1);
                        *constant(machine, key) = (old * factor).min(limit).max(1e-3);
                        let new = cost(machine);
                        if new < best - 1e-6 {
                            best = new;
                            continue;
                        }
                        *constant(machine, key) = old;
                        break;
                    }
                }
            }
            for algorithm in own_blocks.iter().filter(|_| step > 1.1) {
                for blocks in BLOCKS {
                    let old = machine.blocks.insert(algorithm.clone(), blocks);
                    let new = cost(machine);
                    if new < best - 1e-3 {
                        best = new;
                    } else {
                        machine.blocks.extend(old.map(|old| (algorithm.clone(), old)));
                    }
                }
            }
            if best > before - 1e-4 {
                break;
            }
        }
    }
    best
}

#[test]
#[ignore = "needs the measured times that MSCCLPP_POINTS names, and fits for minutes"]
fn constants_are_fitted() {
    for (name, points) in points() {
        let text = std::fs::read_to_string(file(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut machine = Machine::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let keys = fitted(&text);
        if points.len() < MIN_POINTS as usize {
            assert!(keys.is_empty(), "{name}: {} points, expected at least {MIN_POINTS} to fit {keys:?}", points.len());
            continue;
        }
        let half = half(&points, "fit");
        let cost = fit(&mut machine, &keys, &half, &own_blocks(&text, &half));
        println!("{name}: {} points, {} constants, cost {cost:.4}", half.len(), keys.len());
        if !blesses() {
            continue;
        }
        let mut section = None;
        let lines = text.lines().map(|line| {
            if let Some(tier) = line.strip_prefix("[tier.") {
                section = Some(tier.trim_end_matches(']').to_owned());
            } else if line.starts_with('[') {
                section = None;
            }
            let own =
                keys.iter().find(|(tier, name)| *tier == section && line.starts_with(&format!("{name} = {{ value = ")));
            match (own, line.split_once(", source")) {
                (Some(key), Some((_, rest))) => {
                    let value = *constant(&mut machine, key);
                    let digits = (3 - value.log10().floor() as i32).clamp(0, 6) as usize;
                    format!("{} = {{ value = {value:.digits$}, source{rest}\n", key.1)
                }
                _ => match line.split_once(" = ").and_then(|(name, _)| Some((name, machine.blocks.get(name)?))) {
                    Some((name, blocks)) => format!("{name} = {blocks}\n"),
                    None => format!("{line}\n"),
                },
            }
        });
        std::fs::write(file(&name), lines.collect::<String>()).expect("the machine description is written");
    }
}
