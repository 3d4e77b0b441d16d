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
use mscclpp_predict::fit::{Fit, Key, constant};
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

/// Returns the algorithms of points whose number of thread blocks a file states, unless `MSCCLPP_KEEP_BLOCKS` names them.
fn own_blocks(text: &str, points: &[Point]) -> Vec<String> {
    let value: toml::Table = toml::from_str(text).expect("a machine description");
    let stated =
        value.get("blocks").and_then(toml::Value::as_table).into_iter().flatten().map(|(name, _)| name.clone());
    let kept = std::env::var("MSCCLPP_KEEP_BLOCKS").unwrap_or_default();
    let kept: Vec<&str> = kept.split(',').collect();
    stated.filter(|name| !kept.contains(&name.as_str()) && points.iter().any(|point| point.plan == *name)).collect()
}

/// Weight of the worst error beside the mean.
const WORST: f64 = 0.2;

/// Numbers of thread blocks that are tried.
const BLOCKS: [u32; 8] = [1, 2, 4, 8, 12, 16, 24, 32];

/// Fits constants by descent along one of them at a time, with smaller and smaller steps.
fn fit(machine: &mut Machine, keys: &[Key], points: &[Point], own_blocks: &[String]) -> f64 {
    let mut model = Model::default();
    let fit = Fit::new(machine, keys.iter().cloned());
    let mut cost = |machine: &mut Machine| {
        let errors = model.errors(machine, points);
        mean(&errors) + WORST * worst(&errors) + fit.distance(machine)
    };
    let mut best = cost(machine);
    for step in [1.5, 1.2, 1.08, 1.03, 1.01] {
        for _ in 0..12 {
            let before = best;
            best = fit.descend(machine, step, best, &mut cost);
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
                    let value = *constant(&mut machine, key).expect("a constant of the file");
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

/// A closed form of the time of a plan: two numbers and the bytes.
type Form = fn(f64, f64, f64) -> f64;

/// Closed forms, by name.
const FORMS: [(&str, Form); 3] = [
    ("a + b n", |a, b, n| a + b * n),
    ("hypot(a, b n)", |a, b, n| a.hypot(b * n)),
    ("a + ln(1 + exp(b n - 1))", |a, b, n| a + if b * n > 30.0 { b * n - 1.0 } else { (b * n - 1.0).exp().ln_1p() }),
];

/// Fits the two numbers of a form to points, by descent on the mean relative error.
fn fit_form(form: Form, points: &[&Point]) -> (f64, f64) {
    let cost = |(a, b)| {
        mean(&points.iter().map(|one| (form(a, b, one.bytes as f64) / one.time_us - 1.0).abs()).collect::<Vec<_>>())
    };
    let least = points.iter().map(|point| point.time_us).fold(f64::INFINITY, f64::min);
    let slowest = points.iter().map(|point| point.time_us / point.bytes as f64).fold(f64::INFINITY, f64::min);
    let mut best = (least, slowest);
    for step in [4.0, 2.0, 1.3, 1.1, 1.03, 1.01, 1.003] {
        let mut is_better = true;
        while is_better {
            is_better = false;
            for (x, y) in
                [(step, 1.0), (1.0 / step, 1.0), (1.0, step), (1.0, 1.0 / step), (step, 1.0 / step), (1.0 / step, step)]
            {
                let new = (best.0 * x, best.1 * y);
                if cost(new) < cost(best) - 1e-9 {
                    (best, is_better) = (new, true);
                }
            }
        }
    }
    best
}

/// Returns the relative errors of a form on held-out points, and on those that it was fitted to: one form per plan, kernel and ranks, with
/// at least two points to fit, and otherwise one for all of the machine's.
fn form_errors(form: Form, points: &[Point]) -> [Vec<f64>; 2] {
    let all: Vec<&Point> = points.iter().filter(|point| point.half == "fit").collect();
    let key = |point: &Point| (point.plan.clone(), point.kernel.clone(), point.ranks);
    let mut groups: BTreeMap<_, Vec<&Point>> = BTreeMap::new();
    all.iter().for_each(|point| groups.entry(key(point)).or_default().push(point));
    let of_machine = fit_form(form, &all);
    let fitted: BTreeMap<_, _> =
        groups.into_iter().filter(|(_, own)| own.len() > 1).map(|(key, own)| (key, fit_form(form, &own))).collect();
    ["held", "fit"].map(|half| {
        let points = points.iter().filter(|point| point.half == half);
        let error = |point: &Point| {
            let (a, b) = fitted.get(&key(point)).copied().unwrap_or(of_machine);
            (form(a, b, point.bytes as f64) / point.time_us - 1.0).abs()
        };
        points.map(error).collect()
    })
}

#[test]
#[ignore = "needs the measured times that MSCCLPP_POINTS names"]
fn model_is_compared_with_closed_forms() {
    println!("| machine | points | held out | model: mean, worst | closed form: mean, worst | form |");
    println!("|---|---|---|---|---|---|");
    let (mut of_model, mut of_forms) = (Vec::new(), Vec::new());
    for (name, points) in points() {
        let held = half(&points, "held");
        let machine = Machine::builtin(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        if points.len() < MIN_POINTS as usize || held.is_empty() {
            continue;
        }
        let errors = Model::default().errors(&machine, &held);
        // The best form is the one with the least error on the points that it was fitted to.
        let forms = FORMS.map(|(form_name, form)| (form_name, form_errors(form, &points)));
        let best = forms.iter().min_by(|(_, [_, a]), (_, [_, b])| mean(a).total_cmp(&mean(b)));
        let (form_name, [closed, _]) = best.expect("three forms");
        let percent = |errors: &[f64]| format!("{:.1} %, {:.1} %", 100.0 * mean(errors), 100.0 * worst(errors));
        println!(
            "| `{name}` | {} | {} | {} | {} | {form_name} |",
            points.len(),
            held.len(),
            percent(&errors),
            percent(closed)
        );
        of_model.extend(errors);
        of_forms.extend(closed);
    }
    println!("all points: model {:.1} %, closed forms {:.1} %", 100.0 * mean(&of_model), 100.0 * mean(&of_forms));
    assert!(!of_model.is_empty() && of_model.iter().chain(&of_forms).all(|error| error.is_finite()));
}
