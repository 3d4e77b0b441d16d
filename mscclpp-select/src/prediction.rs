//! Selection by predicted times, for machines that have a description.
//!
//! Ranks predict alike: predictions depend on the description, which ranks compare, and on what they share of the call.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_core::lower::lower;
use mscclpp_predict::{Machine, Predictor};

use super::algorithm::Algorithm;
use super::choice::Config;
use super::request::{Backend, Request};
use super::tuning::rounded;
use mscclpp_base::file;

/// The variable that names a machine description for [`Registry::from_env`](crate::Registry::from_env).
pub(super) const MACHINE_VARIABLE: &str = "MSCCLPP_MACHINE";

/// Maximum size of a machine file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum number of ranks for which calls are predicted: the first call of a size waits for the predictions.
const MAX_RANKS: u32 = 64;

/// Maximum product of pairs of ranks and parallel blocks, for the same reason.
const MAX_PAIRS: u64 = 1 << 13;

/// Numbers of parallel blocks that are predicted on devices, besides the usual number.
const BLOCK_COUNTS: [u32; 5] = [1, 4, 8, 16, 32];

/// Part of the time that fewer thread blocks may cost.
const NEARLY: f64 = 0.005;

/// Maximum number of classes of requests whose predictions are kept; beyond it they are dropped.
const MAX_CLASSES: usize = 1024;

/// An algorithm in its best configuration, and its predicted time.
#[derive(Clone, Debug)]
pub(super) struct PredictedTime {
    /// The algorithm.
    pub(super) name: String,
    /// The configuration.
    pub(super) config: Config,
    /// Microseconds.
    pub(super) time_us: f64,
}

/// What decides the predictions of a class: the recognized machine, collective, root, ranks, ranks per node, maximum thread blocks, whether in
/// place and with multicast, bytes.
type Class = (Option<&'static str>, &'static str, [u32; 4], [bool; 2], u64);

/// A machine description, and what was predicted on it.
#[derive(Default)]
pub(super) struct Predictions {
    /// The machine that the environment or the program names, for all requests.
    pub(super) named: Option<Arc<Machine>>,
    ranked: Mutex<BTreeMap<Class, Arc<[PredictedTime]>>>,
}

/// The same machine; predictions are those of each registry.
impl Clone for Predictions {
    fn clone(&self) -> Self {
        Self { named: self.named.clone(), ..Self::default() }
    }
}

/// A machine description, and how it is used for a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DescribedMachine {
    /// Its name.
    pub name: String,
    /// Whether the environment or the program names it; otherwise it was recognized by its devices.
    pub is_named: bool,
    /// Why it is not used, if it is not.
    pub unused: Option<String>,
    /// Mean and largest error of its predictions in percent, if enough measured times state them.
    pub error_percent: Option<(f64, f64)>,
}

impl fmt::Display for DescribedMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, is_named, unused, error_percent } = self;
        if let Some(reason) = unused {
            return write!(f, "machine `{name}` is not used: {reason}");
        }
        write!(f, "machine `{name}`, {}: ", if *is_named { "named" } else { "recognized by its devices" })?;
        match error_percent {
            Some((mean, worst)) => write!(f, "predictions have a mean error of {mean:.1} %, at most {worst:.1} %"),
            None => f.write_str("the error of its predictions is unknown"),
        }
    }
}

/// Returns the machine description of a name or of a file: a path with `/`, or one that ends with `.toml`.
///
/// # Errors
/// Why there is none, or why it cannot be read.
pub(super) fn load(name: &str) -> Result<Machine, String> {
    if !name.contains(['/', '\\']) && !name.ends_with(".toml") {
        return Machine::builtin(name).map_err(|error| {
            format!("{error}; `mscclpp machine list` lists them, and a file's path contains `/` or ends with .toml")
        });
    }
    let bytes = file::read(Path::new(name), MAX_FILE_BYTES).map_err(|error| format!("cannot read it: {error}"))?;
    let text = String::from_utf8(bytes).map_err(|error| format!("expected text in UTF-8: {error}"))?;
    Machine::parse(&text).map_err(|error| error.to_string())
}

/// Returns why a machine does not fit a request, if it does not.
fn mismatch(machine: &Machine, request: &Request) -> Option<String> {
    let Request { num_ranks: found, backend, .. } = *request;
    let expected = if machine.cpu { Backend::Cpu } else { Backend::Cuda };
    match () {
        () if backend != expected => Some(format!("it describes backend {expected}, found {backend}")),
        () if machine.ranks != found => Some(format!("it describes {} ranks, found {found}", machine.ranks)),
        () if found > MAX_RANKS => Some(format!("calls of at most {MAX_RANKS} ranks are predicted, found {found}")),
        () => None,
    }
}

impl Predictions {
    /// Sets or removes the machine for all requests.
    pub(super) fn set_machine(&mut self, machine: Option<Machine>) {
        *self = Self { named: machine.map(Arc::new), ..Self::default() };
    }

    /// Returns a text that differs between machines that are named; empty without one.
    pub(super) fn description(&self) -> String {
        self.named.as_ref().map(|machine| format!("{machine:?}")).unwrap_or_default()
    }

    /// Returns the machine for a request.
    fn machine(&self, request: &Request) -> Option<Arc<Machine>> {
        let recognized = || Machine::builtin(request.machine?).ok().map(Arc::new);
        self.named.clone().or_else(recognized)
    }

    /// Returns what a registry says of the machine for a request.
    pub(super) fn explain(&self, request: &Request) -> Option<DescribedMachine> {
        let machine = self.machine(request)?;
        Some(DescribedMachine {
            name: machine.name.clone(),
            is_named: self.named.is_some(),
            unused: mismatch(&machine, request),
            error_percent: machine.stated_accuracy().map(|error| (error.mean_percent, error.worst_percent)),
        })
    }

    /// Returns the predicted times of the algorithms that support a request's machine, the fastest first. None without a machine that fits.
    ///
    /// # Cost
    /// The first request of a class, which has the sizes up to a power of two, builds and simulates each algorithm with several numbers of
    /// thread blocks; others look the result up.
    pub(super) fn of<'a>(
        &self,
        request: &Request,
        algorithms: impl Iterator<Item = &'a Arc<Algorithm>>,
    ) -> Arc<[PredictedTime]> {
        let named = self.named.as_ref();
        let is_described = named.is_some() || request.machine.is_some();
        if !is_described || request.bytes == 0 || named.is_some_and(|machine| mismatch(machine, request).is_some()) {
            return Arc::default();
        }
        let request = Request { bytes: rounded(request.bytes), ..*request };
        let Request { collective, root, num_ranks, ranks_per_node, max_blocks, in_place, multicast, bytes, .. } =
            request;
        let recognized = if named.is_some() { None } else { request.machine };
        let numbers = [root, num_ranks, ranks_per_node, max_blocks];
        let class = (recognized, collective.name(), numbers, [in_place, multicast], bytes);
        let lock = || self.ranked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&class) {
            return Arc::clone(known);
        }
        let machine = self.machine(&request).filter(|machine| mismatch(machine, &request).is_none());
        let ranked: Arc<[PredictedTime]> =
            machine.map(|machine| rank(&machine, &request, algorithms)).unwrap_or_default().into();
        let mut kept = lock();
        if kept.len() >= MAX_CLASSES {
            kept.clear();
        }
        kept.insert(class, Arc::clone(&ranked));
        ranked
    }
}

/// Predicts algorithms, each in the configuration with the fewest thread blocks of those that are nearly as fast as its fastest one.
fn rank<'a>(
    machine: &Machine,
    request: &Request,
    algorithms: impl Iterator<Item = &'a Arc<Algorithm>>,
) -> Vec<PredictedTime> {
    let best = |algorithm: &Arc<Algorithm>| {
        let times: Vec<(u32, PredictedTime)> = configs(algorithm, request)
            .into_iter()
            .filter_map(|config| {
                let plan = lower(&algorithm.record(request, &config)?).ok()?;
                let num_blocks = plan.ranks.iter().map(|rank| rank.blocks.len() as u32).max().unwrap_or(0);
                let is_meant = (plan.min_message_size..=plan.max_message_size).contains(&request.bytes);
                if num_blocks > request.max_blocks || !is_meant {
                    return None;
                }
                let time_us = Predictor::new(&plan).predict(machine, request.bytes, None).ok()?.time_us;
                Some((num_blocks, PredictedTime { name: algorithm.name().to_owned(), config, time_us }))
            })
            .collect();
        let fastest = times.iter().map(|(_, time)| time.time_us).fold(f64::INFINITY, f64::min);
        let nearly = times.into_iter().filter(|(_, time)| time.time_us <= fastest * (1.0 + NEARLY));
        nearly.min_by_key(|(num_blocks, _)| *num_blocks).map(|(_, time)| time)
    };
    let mut ranked: Vec<PredictedTime> = algorithms.filter_map(best).collect();
    // The sort is stable, so equal times have the order of the registry.
    ranked.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
    ranked
}

/// Returns the configurations of an algorithm that are predicted.
fn configs(algorithm: &Algorithm, request: &Request) -> Vec<Config> {
    let others = if request.backend == Backend::Cuda { &BLOCK_COUNTS[..] } else { &[] };
    let pairs = |blocks: u32| u64::from(request.num_ranks).pow(2) * u64::from(blocks);
    let others = others.iter().filter(|blocks| pairs(**blocks) <= MAX_PAIRS);
    let others = others.map(|blocks| Config { blocks: Some(*blocks), threads: None });
    [Config::default()].into_iter().chain(others).map(|config| algorithm.complete(request, &config)).collect()
}
