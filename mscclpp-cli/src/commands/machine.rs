//! `mscclpp machine`: the machines on which times are predicted.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_predict::{Constants, MIN_POINTS, Machine, MachineError};
use serde_json::{Value, json};

use super::machine_measure::measure;
use crate::args::{MachineArgs, MachineCommand};
use crate::error::{Error, Result, similar, suggestion_hint};
use crate::exit;
use crate::output::{print, print_json};
use crate::table::Columns;

/// Lists the machines, or shows one.
///
/// # Errors
/// Those of [`load`]; failures of standard output.
pub(crate) fn machine(args: &MachineArgs) -> Result<ExitCode> {
    match &args.command {
        MachineCommand::List(args) => {
            let all = Machine::names().map(load).collect::<Result<Vec<_>>>()?;
            if args.json { print_json(&all.iter().map(summary).collect())? } else { print(list(&all))? }
        }
        MachineCommand::Show(args) => {
            let machine = load(&args.machine)?;
            if args.json { print_json(&value(&machine))? } else { print(text(&machine))? }
        }
        MachineCommand::Measure(args) => return measure(args),
    }
    Ok(ExitCode::from(exit::SUCCESS))
}

/// Maximum size of a machine file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Returns the machine of a name, or of a file if the text is a path and no name.
///
/// # Errors
/// [`Error::UnknownMachine`]; for files [`Error::Read`] and [`Error::MachineFile`].
pub(crate) fn load(name: &str) -> Result<Machine> {
    let is_path = name.contains(['/', '\\']) || name.ends_with(".toml");
    if !is_path || Machine::names().any(|known| known == name) {
        return Machine::builtin(name).map_err(|error| match error {
            MachineError::Unknown { name } => unknown(name),
            other => Error::MachineFile { path: name.into(), reason: other.to_string() },
        });
    }
    let path = Path::new(name);
    let invalid = |reason: String| Error::MachineFile { path: path.to_owned(), reason };
    let bytes = mscclpp_exec::file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => invalid("expected a machine file of at most 1 MiB, found more".to_owned()),
        _ => Error::Read { path: path.to_owned(), source },
    })?;
    let text = String::from_utf8(bytes).map_err(|error| invalid(format!("expected text in UTF-8: {error}")))?;
    let machine = Machine::parse(&text).map_err(|error| match error {
        MachineError::Unknown { name } => unknown(name),
        other => invalid(other.to_string()),
    })?;
    let is_known = |name: &&String| *name == "default" || algorithms::find(name).is_some();
    match machine.blocks.keys().find(|name| !is_known(name)) {
        None => Ok(machine),
        Some(name) => {
            let similar = similar(name, algorithms::all().iter().map(BuiltinAlgorithm::name));
            let hint = suggestion_hint(&similar);
            Err(invalid(format!("blocks: expected `default` or a built-in algorithm, found `{name}`{hint}")))
        }
    }
}

fn unknown(name: String) -> Error {
    Error::UnknownMachine { suggestions: similar(&name, Machine::names()), name }
}

/// Describes how far predictions on a machine are from measured times.
pub(crate) fn accuracy(machine: &Machine) -> String {
    match machine.stated_accuracy() {
        Some(accuracy) => format!(
            "mean error {:.1} %, worst {:.1} %, over {} measured times that the constants were not fitted to ({})",
            accuracy.mean_percent, accuracy.worst_percent, accuracy.held_out, accuracy.date
        ),
        None => format!("unknown, since fewer than {MIN_POINTS} times of plans were measured on this machine"),
    }
}

fn summary(machine: &Machine) -> Value {
    json!({
        "name": machine.name,
        "description": machine.description,
        "ranks": machine.ranks,
        "ranks_per_node": machine.ranks_per_node,
        "multicast": machine.multicast,
        "error": machine.stated_accuracy().map(|accuracy| json!({
            "mean_percent": accuracy.mean_percent,
            "worst_percent": accuracy.worst_percent,
            "points": accuracy.held_out,
            "date": accuracy.date,
        })),
    })
}

fn list(all: &[Machine]) -> String {
    let mut table = Columns::new(&["name", ">ranks", ">per node", ">mean error", ">worst", "description"]);
    for machine in all {
        let (mean, worst) = machine.stated_accuracy().map_or_else(
            || ("extrapolated".to_owned(), "-".to_owned()),
            |accuracy| (format!("{:.1} %", accuracy.mean_percent), format!("{:.1} %", accuracy.worst_percent)),
        );
        table.row([
            machine.name.clone(),
            machine.ranks.to_string(),
            machine.ranks_per_node.to_string(),
            mean,
            worst,
            machine.description.clone(),
        ]);
    }
    table.text()
}

/// Returns all constants, with the tier of those that have one.
fn constants(machine: &Machine) -> impl Iterator<Item = (Option<&str>, &Constants)> {
    let tiers = machine.tiers.iter().map(|(name, tier)| (Some(name.as_str()), &tier.constants));
    std::iter::once((None, &machine.constants)).chain(tiers)
}

fn value(machine: &Machine) -> Value {
    let mut all = summary(machine);
    all["links"] = (machine.links.iter())
        .map(|link| {
            json!({ "from": link.from.to_string(), "to": link.to.to_string(), "gb_per_s": link.gb_per_s, "one_way": link.one_way, "shared": link.shared,
                "source": link.source })
        })
        .collect();
    all["constants"] = constants(machine)
        .flat_map(|(tier, constants)| constants.0.iter().map(move |(name, constant)| (tier, name, constant)))
        .map(|(tier, name, constant)| {
            json!({ "name": name, "tier": tier, "value": constant.value, "fitted": constant.fitted, "source": constant.source })
        })
        .collect();
    all["blocks"] = json!(machine.blocks);
    all
}

fn text(machine: &Machine) -> String {
    let mut links = Columns::new(&["link", ">GB/s each way", "source"]);
    for link in &machine.links {
        let arrow = if link.one_way { "->" } else { "--" };
        let shared = if link.shared { ", shared by all nodes" } else { "" };
        links.row([
            format!("{} {arrow} {}{shared}", link.from, link.to),
            link.gb_per_s.to_string(),
            link.source.clone(),
        ]);
    }
    let mut table = Columns::new(&["constant", ">value", "what it is", "source"]);
    for (tier, constants) in constants(machine) {
        for (name, constant) in &constants.0 {
            table.row([
                tier.map_or_else(|| name.clone(), |tier| format!("{tier}: {name}")),
                constant.value.to_string(),
                Constants::meaning(name).unwrap_or_default().to_owned(),
                constant.source.clone(),
            ]);
        }
    }
    format!(
        "{}: {}\n{} ranks, {} per node{}\naccuracy: {}\n\n{}\n\n{}\n",
        machine.name,
        machine.description,
        machine.ranks,
        machine.ranks_per_node,
        if machine.multicast { ", sums and multicast in switches" } else { "" },
        accuracy(machine),
        links.text(),
        table.text()
    )
}
