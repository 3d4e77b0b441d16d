//! Tuned configurations of MSCCL++: the JSON files that its benchmark writes.
//!
//! A file has profiles, each for a kind of device (`sku`) and a number of ranks (`scale`), or for any. A profile lists for each collective the
//! fastest algorithm by the bytes of a rank's input. As in MSCCL++, the most specific profile that has the collective counts, and in it the
//! largest size that is not above that of the call, or the first one. Names of MSCCL++'s algorithms become those of ours that move data in the
//! same way ([`REFERENCE_NAMES`](mscclpp_algorithms::REFERENCE_NAMES)).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind;
use serde::de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::record::CandidateTime;
use crate::choice::Config;
use crate::request::{Backend, CALLS, Request};

/// Version of the format.
const VERSION: u64 = 1;

/// Kinds of devices that MSCCL++ recognizes in the name of a device.
const SKUS: [&str; 4] = ["GB300", "MI300X", "H100", "A100"];

/// Tuned configurations of one kind of device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TunedConfigs {
    /// The text of the file.
    pub(super) text: String,
    /// The kind of device, if the file names one.
    pub(super) sku: Option<String>,
    /// The most specific ones first.
    profiles: Vec<Profile>,
}

/// Configurations for a number of ranks.
#[derive(Clone, Debug, PartialEq)]
struct Profile {
    scale: Option<u32>,
    is_of_device: bool,
    /// By the name of the collective: ascending by size.
    collectives: BTreeMap<String, Vec<Tuned>>,
}

/// The fastest candidate at a size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tuned {
    /// Bytes of a rank's input.
    pub(super) bytes: u64,
    pub(super) fastest: CandidateTime,
    /// Whether it was measured on registered memory.
    symmetric_memory: bool,
}

impl TunedConfigs {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// How it is invalid, with line and column.
    pub(super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let File { profiles: read, .. } = serde_json::from_str(text)?;
        let skus: BTreeSet<&String> = read.iter().filter_map(|profile| profile.sku.as_ref()).collect();
        if skus.len() > 1 {
            let names = skus.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let what =
                format!("expected profiles of one kind of device, found {names}; keep those of the devices in use");
            return Err(serde_json::Error::custom(what));
        }
        let sku = skus.into_iter().next().cloned();
        let mut profiles: Vec<Profile> = Vec::new();
        for RawProfile { sku, scale, collectives } in read {
            let collectives = collectives.into_iter().map(|(name, entries)| (name, entries.sorted())).collect();
            let profile = Profile { scale, is_of_device: sku.is_some(), collectives };
            // A later profile replaces an earlier one for the same devices and ranks.
            profiles.retain(|other| (other.scale, other.is_of_device) != (profile.scale, profile.is_of_device));
            profiles.push(profile);
        }
        profiles.sort_by_key(|profile| {
            std::cmp::Reverse(u32::from(profile.scale.is_some()) + u32::from(profile.is_of_device))
        });
        for name in profiles.iter().flat_map(|profile| profile.collectives.keys()) {
            if !CALLS.iter().any(|(_, kind)| kind.name() == name) {
                log::warn!("tuned configurations of `{name}` are not used: there is no such collective");
            }
        }
        Ok(Self { text: text.to_owned(), sku, profiles })
    }

    /// Returns the configuration for a request.
    pub(super) fn lookup(&self, request: &Request) -> Option<&Tuned> {
        if request.backend != Backend::Cuda {
            return None;
        }
        let bytes = match request.collective {
            CollectiveKind::AllGather => request.bytes / u64::from(request.num_ranks.max(1)),
            _ => request.bytes,
        };
        let is_for = |profile: &&Profile| profile.scale.is_none_or(|scale| scale == request.num_ranks);
        let name = request.collective.name();
        let mut profiles = self.profiles.iter().filter(is_for);
        let tuned = profiles.find_map(|profile| profile.collectives.get(name).filter(|tuned| !tuned.is_empty()))?;
        let after = tuned.partition_point(|tuned| tuned.bytes <= bytes);
        let found = tuned.get(after.saturating_sub(1))?;
        // Without it the algorithm would access memory that peers cannot.
        (request.registered || !found.symmetric_memory).then_some(found)
    }
}

#[derive(Deserialize)]
struct File {
    #[serde(default, rename = "version", deserialize_with = "read_version")]
    _version: (),
    profiles: Vec<RawProfile>,
}

#[derive(Deserialize)]
struct RawProfile {
    #[serde(default, deserialize_with = "read_sku")]
    sku: Option<String>,
    #[serde(default, deserialize_with = "read_scale")]
    scale: Option<u32>,
    #[serde(default)]
    collectives: BTreeMap<String, RawEntries>,
}

/// A list, or an object that has it as `configs`.
struct RawEntries(Vec<RawEntry>);

impl<'de> Deserialize<'de> for RawEntries {
    // Not an untagged enum, whose errors have no place.
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = RawEntries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of configurations, or an object with a list `configs`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut reader: A) -> Result<RawEntries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = reader.next_element()? {
            entries.push(entry);
        }
        Ok(RawEntries(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut reader: A) -> Result<RawEntries, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = reader.next_key::<String>()? {
            match key.as_str() {
                "configs" => entries = reader.next_value()?,
                _ => drop(reader.next_value::<IgnoredAny>()?),
            }
        }
        Ok(RawEntries(entries))
    }
}

#[derive(Deserialize)]
struct RawEntry {
    message_size: std::num::NonZero<u64>,
    algorithm: String,
    #[serde(default, deserialize_with = "read_blocks")]
    nblocks: Option<u32>,
    #[serde(default, deserialize_with = "read_threads")]
    nthreads: Option<u32>,
    #[serde(default)]
    symmetric_memory: Option<bool>,
    #[serde(default)]
    time_us: Option<f64>,
}

impl RawEntries {
    fn sorted(self) -> Vec<Tuned> {
        let mut tuned: Vec<Tuned> = self.0.into_iter().map(RawEntry::tuned).collect();
        tuned.sort_by_key(|tuned| tuned.bytes);
        // Of two configurations of a size, the first counts.
        tuned.dedup_by_key(|tuned| tuned.bytes);
        tuned
    }
}

impl RawEntry {
    fn tuned(self) -> Tuned {
        let Self { message_size, algorithm, nblocks, nthreads, symmetric_memory, time_us } = self;
        let name = algorithms::find(&algorithm).map(|found| found.name().to_owned());
        // 0 is the usual number.
        let fastest = CandidateTime {
            algorithm: name.unwrap_or(algorithm),
            blocks: nblocks.filter(|&blocks| blocks > 0),
            threads: nthreads.filter(|&threads| threads > 0),
            time_us: time_us.unwrap_or(0.0),
        };
        Tuned { bytes: message_size.get(), fastest, symmetric_memory: symmetric_memory.unwrap_or(false) }
    }
}

fn read_version<'de, D: Deserializer<'de>>(reader: D) -> Result<(), D::Error> {
    match u64::deserialize(reader)? {
        VERSION => Ok(()),
        found => Err(D::Error::custom(format!("expected version {VERSION}, found {found}"))),
    }
}

fn read_sku<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(reader)?.map(|name| normalized(&name)))
}

/// Returns the kind of a device by its name.
fn normalized(name: &str) -> String {
    let upper = name.to_uppercase();
    match SKUS.into_iter().find(|sku| upper.contains(sku)) {
        Some(sku) => sku.to_owned(),
        None => upper,
    }
}

fn read_scale<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(reader)? {
        Some(0) => Err(D::Error::custom("expected a positive number of ranks, found 0")),
        scale => Ok(scale),
    }
}

fn read_blocks<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(reader)? {
        Some(blocks) if blocks > Config::MAX_BLOCKS => {
            Err(D::Error::custom(format!("expected at most {} blocks, found {blocks}", Config::MAX_BLOCKS)))
        }
        blocks => Ok(blocks),
    }
}

fn read_threads<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u32>, D::Error> {
    match Option::<u32>::deserialize(reader)? {
        Some(threads) if threads > 1024 || !threads.is_multiple_of(32) => {
            Err(D::Error::custom(format!("expected a multiple of 32 up to 1024 threads, found {threads}")))
        }
        threads => Ok(threads),
    }
}
