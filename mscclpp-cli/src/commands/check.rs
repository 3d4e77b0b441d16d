//! `mscclpp check`: checks plans and explains errors.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use mscclpp_algorithms as algorithms;
use mscclpp_core::check::limits::{DeviceProfile, check_limits};
use mscclpp_core::check::{Checks, execution_trace, mark_findings};
use mscclpp_core::diag::{Diagnostic, Diagnostics};
use mscclpp_core::export::warnings_for_reference;
use mscclpp_core::plan::Format;
use mscclpp_core::plan::raw::PlanTree;
use serde_json::{Value, json};

use super::executors::Executed;
use super::fuzz::Fuzzed;
use crate::args::{CheckArgs, Level, SourceArgs};
use crate::diagnostics::values;
use crate::error::{Error, Result};
use crate::output::{self, ERROR, print, print_json, warn, write_file};
use crate::progress::Progress;
use crate::table::Columns;
use crate::{exit, source};

/// Maximum number of findings of one code in text output.
const MOST: usize = 5;

/// Checks plans and prints the findings. Findings are the result of the command, so they go to standard output.
///
/// # Errors
/// Those of loading the only plan, contradictory usage, and failures of standard output.
pub(crate) fn check(args: &CheckArgs) -> Result<ExitCode> {
    let files = [("--trace", &args.trace), ("--html", &args.html)];
    let given = files.into_iter().find_map(|(option, path)| Some((option, path.as_ref()?)));
    if let Some((option, _)) = given.filter(|(_, path)| path.as_os_str() == "-") {
        return Err(Error::Usage(format!("{option} -: standard output has the findings; pass the path of a file")));
    }
    let names = names(&args.plans)?;
    match &names[..] {
        [name] if args.plans == names => one(args, name),
        _ => match given {
            Some((option, _)) => Err(Error::Usage(format!("{option} requires one plan, found {}", names.len()))),
            None => many(args, &names),
        },
    }
}

/// Returns the requested names, with each directory replaced by its files.
fn names(asked: &[String]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for name in asked {
        let path = Path::new(name);
        if algorithms::find(name).is_some() || !path.is_dir() {
            names.push(name.clone());
            continue;
        }
        let failed = |source| Error::Read { path: path.to_owned(), source };
        let mut files = Vec::new();
        for entry in path.read_dir().map_err(failed)? {
            let file = entry.map_err(failed)?.path();
            if Format::of_path(&file).is_some() && !file.is_dir() {
                let text = file
                    .to_str()
                    .ok_or_else(|| Error::Usage(format!("the name of {} is not valid UTF-8", file.display())))?;
                files.push(text.to_owned());
            }
        }
        if files.is_empty() {
            return Err(Error::Usage(format!(
                "the directory `{name}` has no plan file with the extension `.json`, `.plan` or `.mscclpp`"
            )));
        }
        files.sort();
        names.extend(files);
    }
    Ok(names)
}

/// Result for one plan.
struct Verdict {
    /// The plan, or why it cannot be read.
    plan: std::result::Result<PlanTree, Error>,
    findings: Diagnostics,
    warnings: Vec<Diagnostic>,
    /// Outcome of `--fuzz`, if requested.
    fuzzed: Option<Fuzzed>,
    /// Results of the validation of executors' forms, if requested.
    executed: Vec<Executed>,
}

impl Verdict {
    /// Checks one plan.
    ///
    /// # Errors
    /// Arguments that a plan file contradicts.
    fn of(args: &CheckArgs, name: &str) -> Result<Self> {
        let mut source = match source::load(&SourceArgs { plan: name.to_owned(), build: args.build.clone() }) {
            Ok(source) => source,
            Err(error @ Error::Usage(_)) => return Err(error),
            Err(error) => {
                // A plan that cannot be read has findings too, which scripts expect in the same place.
                let findings = error.findings().cloned().unwrap_or_default();
                let (warnings, executed) = (Vec::new(), Vec::new());
                return Ok(Self { plan: Err(error), findings, warnings, fuzzed: None, executed });
            }
        };
        let (mut findings, mut warnings) = (Diagnostics::default(), source.warnings);
        let found = match restricted(&mut source.plan, &args.checks()) {
            Ok(warning) => {
                warnings.extend(warning);
                Diagnostics::default()
            }
            Err(found) => found,
        };
        if found.is_empty() {
            warnings.extend(args.checks().warnings(&source.plan));
        }
        if args.strict {
            findings.extend(warnings.drain(..));
        }
        // A plan without a proof is run only on request, by `--level off`: how it fails proves nothing about the findings.
        let is_rejected = !found.is_empty();
        findings.extend(found);
        if let Some(device) = args.device.as_ref().filter(|_| findings.is_empty()) {
            findings.extend(check_limits(&source.plan, device));
            if findings.is_empty() && *device == DeviceProfile::REFERENCE {
                let found = warnings_for_reference(&source.plan);
                if args.strict { findings.extend(found) } else { warnings.extend(found) }
            }
        }
        let fuzzed = args.fuzz.map(|schedules| match is_rejected {
            true => Fuzzed::rejected(),
            false => Fuzzed::of(&source.plan, schedules),
        });
        let executed = args.executor.map_or_else(Vec::new, |executor| Executed::all(&source.plan, executor.forms()));
        Ok(Self { plan: Ok(source.plan), findings, warnings, fuzzed, executed })
    }

    fn word(&self) -> &'static str {
        match (&self.plan, self.findings.is_empty()) {
            (Err(_), _) => "invalid",
            (Ok(_), false) => "rejected",
            (Ok(_), true) => match self.exit() {
                exit::SUCCESS => "accepted",
                exit::FAILURE => "failed",
                _ => "undecided",
            },
        }
    }

    fn exit(&self) -> u8 {
        match (&self.plan, self.findings.is_empty()) {
            (Err(_), _) => exit::USAGE,
            (Ok(_), false) => exit::FAILURE,
            (Ok(_), true) => {
                let codes = self.fuzzed.iter().map(Fuzzed::exit).chain(self.executed.iter().map(Executed::exit));
                let codes: Vec<u8> = codes.collect();
                // A finding takes precedence over checks that could not be completed.
                if codes.contains(&exit::FAILURE) {
                    exit::FAILURE
                } else {
                    codes.into_iter().max().unwrap_or(exit::SUCCESS)
                }
            }
        }
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "plan": self.plan.as_ref().ok().map(|plan| &plan.name),
            "readable": self.plan.is_ok(),
            "accepted": self.exit() == exit::SUCCESS,
            "error": self.plan.as_ref().err().map(ToString::to_string),
            "findings": values(self.findings.iter()),
            "warnings": values(&self.warnings),
        });
        if let Some(fuzzed) = &self.fuzzed {
            value["fuzz"] = fuzzed.json();
        }
        if !self.executed.is_empty() {
            value["executors"] = self.executed.iter().map(Executed::json).collect();
        }
        value
    }

    /// Formats the findings as text, each followed by a blank line.
    fn text(&self) -> String {
        let text = |finding: &Diagnostic| format!("{ERROR}error{ERROR:#}: {finding}\n\n");
        self.findings.deduplicated(MOST).iter().map(text).collect()
    }
}

/// Checks a plan, and restricts it to dividing counts if it loses data at others only: the warning then says so.
pub(super) fn restricted(plan: &mut PlanTree, checks: &Checks) -> std::result::Result<Option<Diagnostic>, Diagnostics> {
    let _working = Progress::spinner(&format!("checking {}", plan.name));
    checks.run_or_restrict(plan)
}

fn one(args: &CheckArgs, name: &str) -> Result<ExitCode> {
    let verdict = Verdict::of(args, name)?;
    if args.json {
        print_json(&verdict.json())?;
    }
    let (code, text) = (verdict.exit(), verdict.text());
    let Verdict { plan, findings, warnings, fuzzed, executed } = verdict;
    let plan = plan?;
    if args.trace.is_some() || args.html.is_some() {
        write_traces(args, &plan, &findings)?;
    }
    if !args.json {
        warnings.iter().for_each(warn);
        let end = match findings.len() {
            0 => accepted(args),
            1 => "is rejected: 1 finding".to_owned(),
            n => format!("is rejected: {n} findings"),
        };
        print(format!("{text}plan `{}` {end}\n", plan.name))?;
        if let Some(fuzzed) = fuzzed {
            print(fuzzed)?;
        }
        executed.iter().try_for_each(print)?;
    }
    Ok(ExitCode::from(code))
}

/// Writes the plan's abstract execution, as far as it progresses, as a trace and as a page.
///
/// # Errors
/// [`Error::Findings`] if the abstract execution fails and the checks have not reported that; failures of the output.
fn write_traces(args: &CheckArgs, plan: &PlanTree, findings: &Diagnostics) -> Result<()> {
    let _working = Progress::spinner(&format!("tracing {}", plan.name));
    let mut trace = match execution_trace(plan) {
        Ok(trace) => trace,
        Err(_) if !findings.is_empty() => {
            warn("no trace was written: the abstract execution of the plan failed");
            return Ok(());
        }
        Err(findings) => {
            let what = format!("plan `{}` cannot be traced: its abstract execution failed", plan.name);
            return Err(Error::Findings { what, findings });
        }
    };
    if let Some(path) = &args.trace {
        let text =
            serde_json::to_vec(&trace).map_err(|error| Error::Write { path: path.to_owned(), source: error.into() })?;
        write_file(path, &text)?;
    }
    if let Some(path) = &args.html {
        let mut deduplicated = Diagnostics::default();
        deduplicated.extend(findings.deduplicated(MOST));
        let unmarked = mark_findings(&mut trace, &deduplicated);
        let ranks = plan.ranks.len();
        trace.title = format!("{}: {} of {ranks} ranks", plan.name, plan.collective.kind.name());
        trace.notes = match findings.is_empty() {
            true => vec![format!("The plan {}.", accepted(args))],
            false => vec!["The plan is rejected.".to_owned()],
        };
        let text = |finding: &Diagnostic| format!("{}: {}", finding.code.entry().number, finding.message);
        trace.notes.extend(unmarked.into_iter().map(text));
        trace.notes.push(
            "Time is logical: an operation takes one step, and ends one step after everything for which it waits."
                .into(),
        );
        write_file(path, trace.page().as_bytes())?;
    }
    Ok(())
}

/// Returns the message for a plan without findings, which states only the requested checks.
fn accepted(args: &CheckArgs) -> String {
    let mut text = match args.level {
        Level::Full => "is accepted".to_owned(),
        Level::Basic => "is accepted: only shapes and pairing were checked".to_owned(),
        Level::Off => "was parsed; no checks were run".to_owned(),
    };
    if args.level != Level::Off && !args.allow.allow.is_empty() {
        let slugs: Vec<_> = args.allow.allow.iter().map(|code| code.entry().slug).collect();
        let _ = write!(text, ", with {} allowed", slugs.join(", "));
    }
    text
}

fn many(args: &CheckArgs, names: &[String]) -> Result<ExitCode> {
    let progress = Progress::new(names.len() as u64);
    let mut table = Columns::new(&["plan", "verdict", "findings"]);
    let (mut list, mut counts, mut worst) = (Vec::new(), BTreeMap::new(), exit::SUCCESS);
    for name in names {
        progress.doing(name.clone());
        let verdict = Verdict::of(args, name)?;
        if args.json {
            let mut value = verdict.json();
            value["source"] = json!(name);
            list.push(value);
        } else {
            progress.aside(|| report_plan(name, &verdict))?;
            table.row([name.clone(), verdict.word().to_owned(), by_slug(&verdict.findings)]);
        }
        *counts.entry(verdict.word()).or_insert(0) += 1;
        worst = worst.max(verdict.exit());
        progress.step();
    }
    drop(progress);
    if args.json {
        print_json(&json!({ "accepted": worst == exit::SUCCESS, "plans": list }))?;
    } else {
        let counts: Vec<_> = counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        print(format!("{}\n\n{} plans: {}\n", table.text(), names.len(), counts.join(", ")))?;
    }
    Ok(ExitCode::from(worst))
}

/// Reports the errors of one of several plans, as soon as it is checked.
fn report_plan(name: &str, verdict: &Verdict) -> Result<()> {
    verdict.warnings.iter().for_each(|warning| warn(format_args!("{name}: {warning}")));
    match &verdict.plan {
        Err(error) => {
            output::report(error);
            Ok(())
        }
        Ok(_) if verdict.exit() == exit::SUCCESS => Ok(()),
        Ok(_) => {
            let fuzzed = verdict.fuzzed.as_ref().map_or_else(String::new, |fuzzed| format!("{fuzzed}\n\n"));
            let executed = verdict.executed.iter().filter(|executed| executed.exit() != exit::SUCCESS);
            let executed: String = executed.map(|executed| format!("{executed}\n\n")).collect();
            print(format!("{name}:\n\n{}{fuzzed}{executed}", verdict.text()))
        }
    }
}

/// Formats counts by slug, such as `1 deadlock, 2 race`; empty if there is no finding.
pub(super) fn by_slug(findings: &Diagnostics) -> String {
    let counts: Vec<_> = counts(findings).into_iter().map(|(slug, count)| format!("{count} {slug}")).collect();
    counts.join(", ")
}

/// Returns the number of findings of each kind.
pub(super) fn counts(findings: &Diagnostics) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    findings.iter().for_each(|finding| *counts.entry(finding.code.entry().slug).or_insert(0) += 1);
    counts
}
