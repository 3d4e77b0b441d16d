//! Machine descriptions: what a machine consists of, and the constants of the timing model on it.

mod accuracy;
mod builtin;
mod constants;
mod error;
mod file;
mod link;

use std::collections::BTreeMap;

use serde::Deserialize;

pub use accuracy::Accuracy;
pub(crate) use constants::BYTES_PER_US;
pub use constants::{Constant, Constants};
pub use error::MachineError;
use error::invalid;
pub use link::{Link, LinkEnd};

/// Number of usable measured points below which the error of predictions is not stated, and no constants are fitted.
pub const MIN_POINTS: u32 = 8;

/// A described machine.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub description: String,
    /// Number of ranks, one per GPU.
    pub ranks: u32,
    /// Ranks that can map each other's memory.
    pub ranks_per_node: u32,
    /// Whether switches reduce and multicast.
    pub multicast: bool,
    /// Whether all ranks share one device, so that no link is between them. Operations in a switch have no predicted time there,
    /// since no such time was measured.
    pub one_device: bool,
    /// Whether ranks are threads or processes of a CPU; otherwise they are GPUs.
    pub cpu: bool,
    /// Number of processors that all ranks share, each of which runs one thread block at a time; `None` if each thread block has its own.
    pub processors: Option<u32>,
    /// How communicators recognize the machine; `None` if they use it only where it is named.
    pub recognized_by: Option<RecognizedBy>,
    /// The links of a node, and from a node to what nodes share.
    pub links: Vec<Link>,
    /// The constants of the timing model.
    pub constants: Constants,
    /// Other constants by kind of kernel, such as `interpreted`.
    pub tiers: BTreeMap<String, Tier>,
    /// Per built-in algorithm, the number of thread blocks with which it was measured; the entry `default` is for all others.
    pub blocks: BTreeMap<String, u32>,
    /// How far predictions were from measured times that were not used for the constants.
    pub accuracy: Option<Accuracy>,
}

/// A kind of kernel.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Constants that differ from those of the machine.
    pub constants: Constants,
}

/// Properties of devices by which communicators recognize a built-in machine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecognizedBy {
    /// Part of the name of every device.
    pub device: String,
    /// Ranks whose devices access the memory of each other: 1 where none does.
    pub ranks_per_node: u32,
}

impl Machine {
    /// Returns the name of the built-in machine that devices are: their labels, which contain their names, by rank, and the number of
    /// ranks whose devices access the memory of each other. `None` for machines that no description recognizes.
    pub fn recognize<'a>(labels: impl Iterator<Item = &'a str> + Clone, ranks_per_node: u32) -> Option<&'static str> {
        let num_ranks = labels.clone().count();
        let is_it = |text: &str| {
            let Ok(Self { recognized_by: Some(by), ranks, .. }) = Self::parse(text) else { return false };
            let has_devices = labels.clone().all(|label| label.contains(&by.device));
            ranks as usize == num_ranks && by.ranks_per_node == ranks_per_node && has_devices
        };
        // Few descriptions have the section, so few are parsed.
        let mut with_section = builtin::ALL.iter().filter(|(_, text)| text.contains("[recognized_by]"));
        with_section.find(|(_, text)| is_it(text)).map(|(name, _)| *name)
    }

    /// Returns the names of the built-in machines, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::ALL.iter().map(|(name, _)| *name)
    }

    /// Returns a built-in machine.
    ///
    /// # Errors
    /// [`MachineError::Unknown`].
    pub fn builtin(name: &str) -> Result<Self, MachineError> {
        let text = builtin::find(name).ok_or_else(|| MachineError::Unknown { name: name.to_owned() })?;
        Self::parse(text)
    }

    /// Reads a machine description.
    ///
    /// # Errors
    /// Those of the text: [`MachineError::Syntax`] and [`MachineError::Invalid`]; [`MachineError::Unknown`] for its base.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        file::read(text)
    }

    /// Returns the constants of a tier, or those of the machine if it has no tier of this name.
    pub fn constants_of(&self, tier: Option<&str>) -> Constants {
        let tier = tier.and_then(|name| self.tiers.get(name));
        tier.map_or_else(|| self.constants.clone(), |tier| self.constants.with(&tier.constants))
    }

    /// Returns the number of thread blocks with which predictions run a built-in algorithm.
    pub fn blocks_of(&self, algorithm: &str) -> Option<u32> {
        self.blocks.get(algorithm).or_else(|| self.blocks.get("default")).copied()
    }

    /// Returns the error of predictions, if enough measured points state it.
    pub fn stated_accuracy(&self) -> Option<&Accuracy> {
        self.accuracy.as_ref().filter(|accuracy| accuracy.usable >= MIN_POINTS)
    }
}

#[cfg(test)]
mod tests;
