//! Links between the elements of a machine.

use std::fmt::{self, Display, Formatter};
use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer, de};

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Every GPU of a node: `gpu`.
    EveryGpu,
    /// Some GPUs of a node: `gpu3` or `gpu0-3`.
    Gpus {
        /// The first one.
        first: u32,
        /// The last one.
        last: u32,
    },
    /// A switch, host or network, by its name.
    Element(String),
}

/// A link between two elements of a machine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Where it begins.
    pub from: LinkEnd,
    /// Where it ends. Not both ends may be several GPUs.
    pub to: LinkEnd,
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

/// Maximum number of characters of an element's name.
const MAX_NAME: usize = 32;

impl LinkEnd {
    /// Reads an end.
    fn parse(text: &str) -> Result<Self, String> {
        let Some(numbers) = text.strip_prefix("gpu") else {
            return match text.chars().count() {
                1..=MAX_NAME => Ok(Self::Element(text.to_owned())),
                count => Err(format!("expected a name of 1 to {MAX_NAME} characters, found {count}")),
            };
        };
        let wrong = || format!("expected `gpu`, `gpu3` or `gpu0-3`, found `{text}`");
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (first, last) = match numbers.split_once('-') {
            None if numbers.is_empty() => return Ok(Self::EveryGpu),
            None => (number(numbers)?, number(numbers)?),
            Some((first, last)) => (number(first)?, number(last)?),
        };
        if first <= last { Ok(Self::Gpus { first, last }) } else { Err(wrong()) }
    }

    /// Returns the GPUs of a node that the end is; `None` for another element.
    pub fn gpus(&self, ranks_per_node: u32) -> Option<RangeInclusive<u32>> {
        match *self {
            Self::EveryGpu => Some(0..=ranks_per_node.saturating_sub(1)),
            Self::Gpus { first, last } => Some(first..=last),
            Self::Element(_) => None,
        }
    }

    /// Returns the number of elements of a node that the end is.
    fn count(&self, ranks_per_node: u32) -> u64 {
        self.gpus(ranks_per_node).map_or(1, |gpus| u64::from(gpus.end() - gpus.start()) + 1)
    }
}

impl Display for LinkEnd {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::EveryGpu => f.write_str("gpu"),
            Self::Gpus { first, last } if first == last => write!(f, "gpu{first}"),
            Self::Gpus { first, last } => write!(f, "gpu{first}-{last}"),
            Self::Element(name) => f.write_str(name),
        }
    }
}

impl<'de> Deserialize<'de> for LinkEnd {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// Bandwidths that links may have, in 10⁹ bytes per second.
pub(super) const BANDWIDTHS: RangeInclusive<f64> = 1e-6..=1e6;

impl Link {
    /// Checks a link of a machine with nodes of the given size.
    ///
    /// # Errors
    /// The name of the field that is wrong, empty for the link itself, and what is wrong with it.
    pub(super) fn check(&self, ranks_per_node: u32) -> Result<(), (&'static str, String)> {
        if !BANDWIDTHS.contains(&self.gb_per_s) {
            let (min, max) = BANDWIDTHS.into_inner();
            return Err((".gb_per_s", format!("expected {min} to {max}, found {}", self.gb_per_s)));
        }
        if self.source.trim().is_empty() {
            return Err((".source", "expected where the bandwidth comes from, found nothing".to_owned()));
        }
        for (field, end) in [(".from", &self.from), (".to", &self.to)] {
            if end.gpus(ranks_per_node).is_some_and(|gpus| *gpus.end() >= ranks_per_node) {
                return Err((field, format!("expected GPUs below {ranks_per_node} of a node, found `{end}`")));
            }
        }
        if self.from.count(ranks_per_node) > 1 && self.to.count(ranks_per_node) > 1 {
            return Err(("", "expected one GPU or a switch at one end, found several GPUs at both".to_owned()));
        }
        Ok(())
    }

    /// Returns the number of directed edges that the link is in one node.
    pub(super) fn num_edges(&self, ranks_per_node: u32) -> u64 {
        let directions = if self.one_way { 1 } else { 2 };
        self.from.count(ranks_per_node) * self.to.count(ranks_per_node) * directions
    }
}
