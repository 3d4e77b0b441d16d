//! The text form of machine descriptions.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::constants::{Constant, Constants};
use super::{Machine, MachineError, Tier, builtin};

/// A link between two elements of a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where it begins: `gpu` for every GPU of a node, `gpu0-3` for some of them, or the name of a switch or host.
    pub from: String,
    /// Where it ends, a name of the same form. Not both ends may be several GPUs.
    pub to: String,
    /// Raw bandwidth in each direction, in 10⁹ bytes per second.
    pub gb_per_s: f64,
    /// Whether all nodes share the element where it ends.
    #[serde(default)]
    pub shared: bool,
    /// Whether data passes from its begin to its end only.
    #[serde(default)]
    pub one_way: bool,
    /// Where the bandwidth comes from.
    pub source: String,
}

/// How far predictions were from measured times that were not used for the constants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Accuracy {
    /// Mean of the relative errors, in percent.
    pub mean_percent: f64,
    /// The largest of the relative errors, in percent.
    pub worst_percent: f64,
    /// Number of points that the errors come from.
    pub held_out: u32,
    /// Number of points that are plans of this project, those used for the constants included.
    pub usable: u32,
    /// When it was computed.
    pub date: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantFile {
    value: f64,
    source: String,
    #[serde(default)]
    fitted: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    /// A built-in machine that has everything that this file does not say.
    base: Option<String>,
    ranks: u32,
    ranks_per_node: u32,
    multicast: Option<bool>,
    #[serde(default)]
    one_device: bool,
    #[serde(default)]
    link: Vec<Link>,
    #[serde(default)]
    constant: BTreeMap<String, ConstantFile>,
    #[serde(default)]
    tier: BTreeMap<String, BTreeMap<String, ConstantFile>>,
    #[serde(default)]
    blocks: BTreeMap<String, u32>,
    accuracy: Option<Accuracy>,
}

/// Maximum number of ranks of a machine.
const MAX_RANKS: u32 = 4096;

fn invalid(field: impl Into<String>, reason: impl Into<String>) -> MachineError {
    MachineError::Invalid { field: field.into(), reason: reason.into() }
}

pub(super) fn read(text: &str) -> Result<Machine, MachineError> {
    let file: File = toml::from_str(text).map_err(|error| MachineError::Syntax(error.to_string().trim().to_owned()))?;
    let base = match &file.base {
        None => None,
        Some(name) => {
            let text = builtin::find(name).ok_or_else(|| MachineError::Unknown { name: name.clone() })?;
            // Bases are built in and their bases do not lead back to them, so this ends.
            if name == &file.name {
                return Err(invalid("base", "expected another machine, found the machine itself"));
            }
            Some(read(text)?)
        }
    };
    if !(1..=MAX_RANKS).contains(&file.ranks) {
        return Err(invalid("ranks", format!("expected 1 to {MAX_RANKS}, found {}", file.ranks)));
    }
    if file.ranks_per_node == 0 || !file.ranks.is_multiple_of(file.ranks_per_node) {
        return Err(invalid("ranks_per_node", format!("expected a divisor of ranks, found {}", file.ranks_per_node)));
    }
    for link in &file.link {
        if !(link.gb_per_s.is_finite() && link.gb_per_s > 0.0) {
            return Err(invalid("link.gb_per_s", format!("expected a positive number, found {}", link.gb_per_s)));
        }
        if link.source.trim().is_empty() {
            return Err(invalid("link.source", "expected where the bandwidth comes from, found nothing"));
        }
        let ends = [&link.from, &link.to].map(|end| gpus(end, file.ranks_per_node));
        match ends {
            [Err(reason), _] | [_, Err(reason)] => return Err(invalid("link", reason)),
            [Ok(Some(from)), Ok(Some(to))] if from.clone().count() > 1 && to.clone().count() > 1 => {
                return Err(invalid("link", "expected one GPU or a switch at one end, found several GPUs at both"));
            }
            _ => {}
        }
    }
    let constants = constants("constant", file.constant)?;
    let mut tiers = BTreeMap::new();
    for (name, given) in file.tier {
        let own = self::constants(&format!("tier.{name}"), given)?;
        tiers.insert(name, Tier { constants: own });
    }
    if let Some((name, _)) = file.blocks.iter().find(|(_, count)| !(1..=MAX_BLOCKS).contains(*count)) {
        return Err(invalid(format!("blocks.{name}"), format!("expected 1 to {MAX_BLOCKS}")));
    }
    let mut machine = Machine {
        name: file.name,
        description: file.description,
        ranks: file.ranks,
        ranks_per_node: file.ranks_per_node,
        multicast: file.multicast.unwrap_or(base.as_ref().is_some_and(|base| base.multicast)),
        one_device: file.one_device,
        links: file.link,
        constants,
        tiers,
        blocks: file.blocks,
        accuracy: file.accuracy,
    };
    if let Some(base) = base {
        machine.links.extend(base.links);
        machine.constants = base.constants.with(&machine.constants);
        machine.tiers = base.tiers.into_iter().chain(machine.tiers).collect();
        machine.blocks = base.blocks.into_iter().chain(machine.blocks).collect();
        machine.one_device |= base.one_device;
    }
    Ok(machine)
}

/// Maximum number of thread blocks per part.
const MAX_BLOCKS: u32 = 256;

fn constants(section: &str, given: BTreeMap<String, ConstantFile>) -> Result<Constants, MachineError> {
    let mut all = BTreeMap::new();
    for (name, ConstantFile { value, source, fitted }) in given {
        let field = format!("{section}.{name}");
        if Constants::meaning(&name).is_none() {
            return Err(invalid(field, "unknown constant"));
        }
        let positive = !name.ends_with("_us");
        if !value.is_finite() || value < 0.0 || (positive && value == 0.0) {
            let expected = if positive { "a positive number" } else { "a number of at least 0" };
            return Err(invalid(field, format!("expected {expected}, found {value}")));
        }
        if (name.ends_with("_efficiency") || name == "spread") && value > 1.0 {
            return Err(invalid(field, format!("expected a number of at most 1, found {value}")));
        }
        if source.trim().is_empty() {
            return Err(invalid(field, "expected a source, found nothing"));
        }
        all.insert(name, Constant { value, source, fitted });
    }
    Ok(Constants(all))
}

/// Returns the GPUs of a node that the end of a link names; `None` for another element.
pub(crate) fn gpus(end: &str, per_node: u32) -> Result<Option<std::ops::RangeInclusive<u32>>, String> {
    let Some(numbers) = end.strip_prefix("gpu") else {
        let named = !end.is_empty() && end.len() <= 32;
        return if named { Ok(None) } else { Err(format!("expected a name of at most 32 characters, found `{end}`")) };
    };
    let wrong = || format!("expected `gpu`, `gpu3` or `gpu0-3` with numbers below {per_node}, found `{end}`");
    let number = |text: &str| text.parse::<u32>().ok().filter(|gpu| *gpu < per_node).ok_or_else(wrong);
    let (first, last) = match numbers.split_once('-') {
        None if numbers.is_empty() => (0, per_node.saturating_sub(1)),
        None => (number(numbers)?, number(numbers)?),
        Some((first, last)) => (number(first)?, number(last)?),
    };
    if first <= last { Ok(Some(first..=last)) } else { Err(wrong()) }
}
