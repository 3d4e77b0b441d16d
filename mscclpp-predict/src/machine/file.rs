//! The text form of machine descriptions.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::constants::{ConstantFile, Constants};
use super::link::Link;
use super::{Accuracy, Machine, MachineError, RecognizedBy, Tier, builtin, invalid};

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
    one_device: Option<bool>,
    cpu: Option<bool>,
    processors: Option<u32>,
    recognized_by: Option<RecognizedBy>,
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
/// Maximum number of thread blocks per part.
const MAX_BLOCKS: u32 = 256;
/// Maximum number of directed edges of all nodes.
const MAX_EDGES: u64 = 1 << 17;

/// Reads a machine description. Bases are built in, and their bases do not lead back to them, so this ends.
pub(super) fn read(text: &str) -> Result<Machine, MachineError> {
    let file: File = toml::from_str(text).map_err(|error| MachineError::Syntax(error.to_string().trim().to_owned()))?;
    if let Ok(table) = toml::from_str(text) {
        printable("", &toml::Value::Table(table))?;
    }
    let base = match &file.base {
        None => None,
        Some(name) => {
            let text = builtin::find(name).ok_or_else(|| MachineError::Unknown { name: name.clone() })?;
            Some(read(text)?)
        }
    };
    if !(1..=MAX_RANKS).contains(&file.ranks) {
        return Err(invalid("ranks", format!("expected 1 to {MAX_RANKS}, found {}", file.ranks)));
    }
    if file.ranks_per_node == 0 || !file.ranks.is_multiple_of(file.ranks_per_node) {
        return Err(invalid("ranks_per_node", format!("expected a divisor of ranks, found {}", file.ranks_per_node)));
    }
    if file.processors == Some(0) {
        return Err(invalid("processors", "expected 1 or more, found 0"));
    }
    let wrong_blocks = file.blocks.iter().find(|(_, count)| !(1..=MAX_BLOCKS).contains(*count));
    if let Some((name, count)) = wrong_blocks {
        return Err(invalid(format!("blocks.{name}"), format!("expected 1 to {MAX_BLOCKS}, found {count}")));
    }
    if let Some(accuracy) = &file.accuracy {
        accuracy.check()?;
    }
    let own_links = file.link.len();
    let mut tiers = BTreeMap::new();
    for (name, given) in file.tier {
        let constants = Constants::read(&format!("tier.{name}"), given)?;
        tiers.insert(name, Tier { constants });
    }
    let mut machine = Machine {
        name: file.name,
        description: file.description,
        ranks: file.ranks,
        ranks_per_node: file.ranks_per_node,
        multicast: file.multicast.or(base.as_ref().map(|base| base.multicast)).unwrap_or(false),
        one_device: file.one_device.or(base.as_ref().map(|base| base.one_device)).unwrap_or(false),
        cpu: file.cpu.or(base.as_ref().map(|base| base.cpu)).unwrap_or(false),
        processors: file.processors.or(base.as_ref().and_then(|base| base.processors)),
        recognized_by: file.recognized_by,
        links: file.link,
        constants: Constants::read("constant", file.constant)?,
        tiers,
        blocks: file.blocks,
        accuracy: file.accuracy,
    };
    if let Some(base) = base {
        machine.inherit(base);
    }
    for (number, link) in machine.links.iter().enumerate() {
        link.check(machine.ranks_per_node).map_err(|(field, reason)| {
            match (number.checked_sub(own_links), &file.base) {
                (Some(number), Some(base)) => invalid(format!("link[{number}]{field} of base `{base}`"), reason),
                _ => invalid(format!("link[{number}]{field}"), reason),
            }
        })?;
    }
    let in_node = machine.links.iter().map(|link| link.num_edges(machine.ranks_per_node));
    let edges = in_node.fold(0, u64::saturating_add).saturating_mul((machine.ranks / machine.ranks_per_node).into());
    if edges > MAX_EDGES {
        let reason = format!("expected links that connect at most {MAX_EDGES} pairs of elements, found {edges}");
        return Err(invalid("link", reason));
    }
    Ok(machine)
}

/// Refuses control characters in texts: they go to terminals, and into functions that are generated.
fn printable(field: &str, value: &toml::Value) -> Result<(), MachineError> {
    match value {
        toml::Value::String(text) => match text.chars().find(|character| character.is_control()) {
            Some(found) => Err(invalid(
                field,
                format!("expected a text without control characters, found {found:?}; remove it or write a space"),
            )),
            None => Ok(()),
        },
        toml::Value::Array(values) => {
            (0..).zip(values).try_for_each(|(number, value)| printable(&format!("{field}[{number}]"), value))
        }
        toml::Value::Table(table) => table.iter().try_for_each(|(key, value)| {
            // The name of a field is a text, too.
            printable(&format!("name in `{field}`"), &toml::Value::String(key.clone()))?;
            printable(&if field.is_empty() { key.clone() } else { format!("{field}.{key}") }, value)
        }),
        _ => Ok(()),
    }
}

impl Machine {
    /// Adds what a base has and this machine does not.
    fn inherit(&mut self, base: Self) {
        self.links.extend(base.links);
        self.constants = base.constants.with(&self.constants);
        for (name, tier) in base.tiers {
            let own = self.tiers.remove(&name).map(|tier| tier.constants).unwrap_or_default();
            self.tiers.insert(name, Tier { constants: tier.constants.with(&own) });
        }
        for (name, count) in base.blocks {
            self.blocks.entry(name).or_insert(count);
        }
    }
}
