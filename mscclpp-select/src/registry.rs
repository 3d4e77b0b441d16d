//! Registry of algorithms, and the selection for a request.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use mscclpp_core::plan::Plan;
use sha2::Digest;

use super::algorithm::{Algorithm, num_blocks};
use super::choice::{Choice, Config};
use super::constraints::Rejection;
use super::decided_by::DecidedBy;
use super::error::{PlanError, RegistryError, SelectError};
use super::explain::{CandidateOutcome, Explanation, Outcome};
use super::limits::LaunchLimits;
use super::order::OrderPolicy;
use super::plan_file::PlanFile;
use super::prediction::Predictions;
use super::request::{Backend, CALLS, Request};
use super::rules::RULES;
use super::tuning::{MachineInfo, TuningTable};
use mscclpp_algorithms as algorithms;
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_predict::Machine;

/// Selects among the algorithms that serve a request; `None` leaves the selection to the registry.
type Selector = dyn Fn(&Request, &[&Algorithm]) -> Option<Choice> + Send + Sync;

/// Maximum number of characters of the names of algorithms that ranks compare.
const MAX_NAMES: usize = 1000;

/// Maximum number of plans that a registry caches; beyond it the cache is cleared.
const MAX_CACHED_PLANS: usize = 1024;

/// A list of algorithms, with the selection among them.
///
/// A request is decided in this order, each time among the algorithms that serve it:
///
/// 1. the selector that was [set](Self::set_selector), if it returns a choice;
/// 2. registered algorithms other than the built-in ones, unless the tuning table has a time of it: the one with the narrowest range of
///    sizes, then the first;
/// 3. the [tuning table](Self::set_table), if it has an entry;
/// 4. predicted times, if the [machine](Self::set_machine) is described, or the devices of a call are those of a description that no
///    default rule serves;
/// 5. the default rules, by size and machine; then the first of the built-in algorithms.
///
/// Nothing here is global: a change of one registry does not affect another. All ranks must set up equal registries,
/// and a selector must decide by its arguments only.
///
/// ```
/// use mscclpp_core::collective::CollectiveKind;
/// use mscclpp_exec::DataType;
/// use mscclpp_select::{Choice, Registry, Request};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::builtin();
/// let request = Request::new(CollectiveKind::AllReduce, 8, DataType::F32, 64 << 20);
/// let usual = registry.select(&request)?;
/// assert_eq!(registry.plan(&request, &usual)?.num_ranks(), 8);
///
/// registry.set_selector(|request, candidates| {
///     let ring = candidates.iter().find(|algorithm| algorithm.name() == "allreduce_ring")?;
///     (request.bytes > 1 << 20).then(|| Choice::from(*ring))
/// });
/// assert_eq!(registry.select(&request)?.algorithm.name(), "allreduce_ring");
/// # Ok(())
/// # }
/// ```
///
/// `Send` and `Sync`: threads may select at the same time; changes borrow the registry mutably.
#[derive(Default)]
pub struct Registry {
    algorithms: Vec<Arc<Algorithm>>,
    selector: Option<Arc<Selector>>,
    strict: bool,
    table: Option<TuningTable>,
    limits: LaunchLimits,
    predictions: Predictions,
    files: Vec<PlanFile>,
    plans: Mutex<BTreeMap<Key, Plan>>,
    /// Classes of requests whose decision was logged.
    logged: Mutex<BTreeSet<String>>,
}

static_assertions::assert_impl_all!(Registry: Send, Sync);

/// Key of a compiled plan: name, backend, ranks, ranks per node, maximum thread blocks, in place, root, whether its order was
/// proved, complete configuration.
type Key = (String, Backend, [u32; 3], bool, u32, bool, Config);

/// The algorithm selected for a request.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The algorithm.
    pub algorithm: Arc<Algorithm>,
    /// Its configuration.
    pub config: Config,
    /// What decided, and why.
    pub decided_by: DecidedBy,
}

impl Decision {
    /// Creates a decision for an algorithm with its usual configuration for the request.
    fn complete(request: &Request, algorithm: &Arc<Algorithm>, decided_by: DecidedBy) -> Self {
        let config = algorithm.complete(request, &Config::default());
        Self { algorithm: Arc::clone(algorithm), config, decided_by }
    }
}

/// The same algorithms, selector, table and limits; compiled plans and logged decisions are those of each registry.
impl Clone for Registry {
    fn clone(&self) -> Self {
        Self {
            algorithms: self.algorithms.clone(),
            selector: self.selector.clone(),
            strict: self.strict,
            table: self.table.clone(),
            limits: self.limits,
            predictions: self.predictions.clone(),
            files: self.files.clone(),
            ..Self::default()
        }
    }
}

impl Registry {
    /// Creates a registry without algorithms.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Creates a registry of the built-in algorithms.
    pub fn builtin() -> Self {
        let builtin = algorithms::all().iter().map(Algorithm::builtin);
        let alone = CALLS.map(|(_, collective)| Algorithm::alone(collective));
        let algorithms = builtin.chain(alone).map(Arc::new).collect();
        Self { algorithms, ..Self::default() }
    }

    /// Returns the registry of transfers between two ranks, which are broadcasts for the selection: without functions and kernels of the
    /// program, which were added for broadcasts of all ranks.
    #[doc(hidden)]
    pub fn of_transfers(all: &Arc<Self>) -> Arc<Self> {
        let serves = |algorithm: &Arc<Algorithm>| algorithm.is_builtin() || algorithm.has_plans();
        if all.algorithms.iter().all(serves) {
            return Arc::clone(all);
        }
        let mut registry = Self::clone(all);
        registry.algorithms.retain(serves);
        Arc::new(registry)
    }

    /// Adds an algorithm.
    ///
    /// # Errors
    /// [`RegistryError::Duplicate`] if there is one with the same name.
    pub fn add(&mut self, algorithm: Algorithm) -> Result<(), RegistryError> {
        if self.find(algorithm.name()).is_some() {
            return Err(RegistryError::Duplicate { name: algorithm.name().to_owned() });
        }
        self.algorithms.push(Arc::new(algorithm));
        Ok(())
    }

    /// Returns the plan files that were added or could not be.
    #[doc(hidden)]
    pub fn files(&self) -> &[PlanFile] {
        &self.files
    }

    pub(super) fn push_file(&mut self, file: PlanFile) {
        self.files.push(file);
    }

    /// Removes the algorithm with a name, and returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.algorithms.len();
        self.algorithms.retain(|algorithm| algorithm.name() != name);
        self.lock_plans().retain(|key, _| key.0 != name);
        self.algorithms.len() < before
    }

    /// Returns the algorithm with a name.
    pub fn find(&self, name: &str) -> Option<&Arc<Algorithm>> {
        self.algorithms.iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns all algorithms, in the order in which they were added.
    #[doc(hidden)]
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Algorithm>> {
        self.algorithms.iter()
    }

    /// Sets the function that selects algorithms. It gets the request and the algorithms that serve it, and must return
    /// the same on all ranks.
    pub fn set_selector(
        &mut self,
        selector: impl Fn(&Request, &[&Algorithm]) -> Option<Choice> + Send + Sync + 'static,
    ) {
        self.selector = Some(Arc::new(selector));
    }

    /// Removes the selector.
    pub fn clear_selector(&mut self) {
        self.selector = None;
    }

    /// Sets or removes the tuning table. A table of another machine or version is used with a warning that names both.
    pub fn set_table(&mut self, table: Option<TuningTable>) {
        if let Some(table) = &table {
            for difference in table.machine.differences(&MachineInfo::current()) {
                log::warn!("{difference}; measure again with `mscclpp tune`");
            }
        }
        self.table = table;
    }

    /// Sets or removes the description of the machine: calls of as many ranks as it has follow predicted times. The first call of a size
    /// waits until these are computed.
    pub fn set_machine(&mut self, machine: Option<Machine>) {
        self.predictions.set_machine(machine);
    }

    /// Sets whether it is an error if neither selector nor table decide a request, or if they decide for an algorithm
    /// that rejects it. A registry that is not strict then uses the other rules, and warns in the latter case.
    pub fn set_strict(&mut self, strict: bool) {
        self.strict = strict;
    }

    /// Sets what calls on devices may take of a device, whatever selector, table or rules decide. Plans from files and those that a
    /// program embeds keep their numbers, and so does an algorithm that the caller forces.
    #[doc(hidden)]
    pub fn set_launch_limits(&mut self, limits: LaunchLimits) {
        self.limits = limits;
    }

    /// Returns what calls on devices may take of a device.
    #[doc(hidden)]
    pub fn launch_limits(&self) -> LaunchLimits {
        self.limits
    }

    /// Selects the algorithm for a request. The first decision of a class of requests is logged at level info.
    ///
    /// # Errors
    /// [`SelectError::NoAlgorithm`]; if the registry is strict also [`SelectError::BadChoice`] and
    /// [`SelectError::Undecided`].
    pub fn select(&self, request: &Request) -> Result<Decision, SelectError> {
        let decision = self.limit(request, self.decide(request)?);
        self.log_decision(request, &decision);
        Ok(decision)
    }

    /// Returns the decision for a request, and the outcome of every algorithm of its collective.
    pub fn explain(&self, request: &Request) -> Explanation {
        let decision = self.decide(request).map(|decision| self.limit(request, decision));
        let verdict = |algorithm: &Arc<Algorithm>| {
            let outcome = match (&decision, algorithm.check_request(request)) {
                (Ok(chosen), _) if Arc::ptr_eq(&chosen.algorithm, algorithm) => {
                    Outcome::Selected { config: chosen.config.clone(), decided_by: chosen.decided_by }
                }
                (_, Ok(())) => Outcome::Eligible,
                (_, Err(rejection)) => Outcome::Rejected(rejection),
            };
            CandidateOutcome { name: algorithm.name().to_owned(), outcome }
        };
        let verdicts = self.of_collective(request).map(verdict).collect();
        let refused = self.files.iter().filter_map(PlanFile::refusal).collect();
        let machine = self.predictions.explain(request);
        let kernel = decision.as_ref().ok().and_then(|decision| self.kernel(request, decision));
        Explanation { request: *request, candidates: verdicts, machine, refused, kernel, error: decision.err() }
    }

    /// Returns which kernel launches the plan of a decision on devices of one node, at best.
    #[cfg(feature = "cuda")]
    fn kernel(&self, request: &Request, decision: &Decision) -> Option<KernelTier> {
        if request.backend != Backend::Cuda || request.num_nodes() != 1 || !decision.algorithm.has_plans() {
            return None;
        }
        let plan = self.plan(request, decision).ok()?;
        let floats = request.prepare_options().in_switch_floats;
        Some(mscclpp_exec::cuda::best_tier(&plan, request.message(), floats, request.multicast))
    }

    #[cfg(not(feature = "cuda"))]
    fn kernel(&self, _: &Request, _: &Decision) -> Option<KernelTier> {
        None
    }

    /// Returns the plan of a decision. Compiled plans are cached.
    ///
    /// # Errors
    /// As [`Algorithm::build`].
    #[doc(hidden)]
    pub fn plan(&self, request: &Request, decision: &Decision) -> Result<Plan, PlanError> {
        let algorithm = &decision.algorithm;
        let Request { backend, num_ranks: ranks, ranks_per_node, max_blocks, in_place, root, .. } = *request;
        let name = algorithm.name().to_owned();
        let is_ordered = request.order == OrderPolicy::RankOrder && request.rounds();
        let config = algorithm.complete(request, &decision.config);
        let key = (name, backend, [ranks, ranks_per_node, max_blocks], in_place, root, is_ordered, config.clone());
        // Plans from files may support certain sizes only, and cost nothing to build.
        if !algorithm.is_compiled() {
            return algorithm.build(request, &decision.config);
        }
        if let Some(plan) = self.lock_plans().get(&key) {
            return Ok(plan.clone());
        }
        let plan = algorithm.build(request, &config)?;
        let mut plans = self.lock_plans();
        if plans.len() >= MAX_CACHED_PLANS {
            plans.clear();
        }
        plans.insert(key, plan.clone());
        Ok(plan)
    }

    /// Returns a text that differs between registries that may decide differently: their algorithms, plans, constraints
    /// and settings. It does not cover the behavior of a selector or a native algorithm, and of an algorithm that is
    /// compiled on demand it covers only the plans that its attribute names.
    #[doc(hidden)]
    pub fn fingerprint(&self) -> String {
        let mut digest = sha2::Sha256::new();
        for algorithm in &self.algorithms {
            algorithm.digest(&mut |part| {
                digest.update((part.len() as u64).to_le_bytes());
                digest.update(part);
            });
        }
        digest.update(self.table.as_ref().map(TuningTable::text).unwrap_or_default());
        digest.update(self.predictions.description());
        digest.update([self.strict.into(), self.selector.is_some().into()]);
        for limit in [self.limits.max_blocks, self.limits.max_threads] {
            digest.update(limit.unwrap_or(u32::MAX).to_le_bytes());
        }
        format!("{} ({} algorithms)", hex(digest), self.algorithms.len())
    }

    /// Returns a text that differs between tuning tables; `none` without a table.
    #[cfg(feature = "process")]
    #[doc(hidden)]
    pub fn table_fingerprint(&self) -> String {
        let text = |table: &TuningTable| {
            let digest = sha2::Sha256::new().chain_update(table.text());
            format!("{} ({} entries)", hex(digest), table.entries.len())
        };
        self.table.as_ref().map_or_else(|| "none".to_owned(), text)
    }

    /// Returns a text that differs between machines that were [set](Self::set_machine); `none` without one.
    #[cfg(feature = "process")]
    #[doc(hidden)]
    pub fn machine_fingerprint(&self) -> String {
        let text = |machine: &Arc<Machine>| {
            let digest = sha2::Sha256::new().chain_update(self.predictions.description());
            format!("{} ({})", hex(digest), machine.name)
        };
        self.predictions.named.as_ref().map_or_else(|| "none".to_owned(), text)
    }

    /// Returns the names of the algorithms other than the built-in ones, for comparisons among the ranks; `None` without any. Of very many
    /// the first ones: a difference beyond them is one of the fingerprints.
    #[doc(hidden)]
    pub fn added_names(&self) -> Option<String> {
        let added =
            self.algorithms.iter().filter(|algorithm| !algorithm.is_builtin()).map(|algorithm| algorithm.name());
        let names: Vec<_> = added.collect();
        (!names.is_empty()).then(|| names.join(", ").chars().take(MAX_NAMES).collect())
    }

    /// Returns how often each algorithm was launched, without those that never were, in the order in which they were
    /// added.
    pub fn call_counts(&self) -> Vec<(&str, u64)> {
        let calls = self.algorithms.iter().map(|algorithm| (algorithm.name(), algorithm.num_calls()));
        calls.filter(|(_, calls)| *calls > 0).collect()
    }

    fn of_collective<'a>(&'a self, request: &'a Request) -> impl Iterator<Item = &'a Arc<Algorithm>> {
        self.algorithms.iter().filter(|algorithm| algorithm.collective() == request.collective)
    }

    fn decide(&self, request: &Request) -> Result<Decision, SelectError> {
        let mut rejections = Vec::new();
        let mut candidates = Vec::new();
        for algorithm in self.of_collective(request) {
            match algorithm.check_request(request) {
                Ok(()) => candidates.push(algorithm),
                Err(rejection) => rejections.push((algorithm.name().to_owned(), rejection)),
            }
        }
        if candidates.is_empty() {
            return Err(SelectError::NoAlgorithm { request: request.to_string(), rejections });
        }
        let chosen = self.selector.as_ref().and_then(|selector| {
            let borrowed: Vec<&Algorithm> = candidates.iter().map(|candidate| &***candidate).collect();
            selector(request, &borrowed)
        });
        if let Some(choice) = chosen
            && let Some(decision) =
                self.follow(request, choice, "selector", DecidedBy::Selector, &candidates, &rejections)?
        {
            return Ok(decision);
        }
        let added = candidates.iter().copied().filter(|candidate| !candidate.is_builtin()).min_by_key(added_rank);
        if let Some(added) = added.filter(|added| !self.strict && !self.is_measured(request, added.name())) {
            return Ok(Decision::complete(request, added, DecidedBy::Added));
        }
        if let Some((choice, bytes)) = self.table.as_ref().and_then(|table| table.choice(request)) {
            let why = DecidedBy::Table(bytes);
            if let Some(decision) = self.follow(request, choice, "tuning table", why, &candidates, &rejections)? {
                return Ok(decision);
            }
        }
        if self.strict {
            return Err(SelectError::Undecided { request: request.to_string() });
        }
        Ok(self.decide_by_prediction(request, &candidates).unwrap_or_else(|| decide_by_rules(request, &candidates)))
    }

    /// Selects the algorithm with the least predicted time of those that serve the request and whose plan is proved.
    fn decide_by_prediction(&self, request: &Request, candidates: &[&Arc<Algorithm>]) -> Option<Decision> {
        let predicted = self.predictions.of(request, self.of_collective(request));
        predicted.iter().find_map(|time| {
            let found = candidates.iter().find(|candidate| candidate.name() == time.name)?;
            let decided_by = DecidedBy::Prediction((time.time_us * 1e3) as u64);
            let decision = Decision { algorithm: Arc::clone(found), config: time.config.clone(), decided_by };
            self.plan(request, &decision).is_ok().then_some(decision)
        })
    }

    /// Returns whether the tuning table has a time of an algorithm for a request, so that the table compares it with others.
    fn is_measured(&self, request: &Request, name: &str) -> bool {
        let entry = self.table.as_ref().and_then(|table| table.lookup(request));
        entry.is_some_and(|entry| entry.others.iter().chain([&entry.fastest]).any(|time| time.algorithm == name))
    }

    /// Returns a decision with a configuration within the limits.
    fn limit(&self, request: &Request, mut decision: Decision) -> Decision {
        if self.limits == LaunchLimits::default() || request.backend != Backend::Cuda {
            return decision;
        }
        let Some(numbers) = decision.algorithm.numbers(request, &decision.config) else { return decision };
        decision.config = self.limits.apply(&numbers);
        // A plan may have several thread blocks for each of its blocks. One that cannot be built is reported where it is used.
        while let (Some(blocks), Ok(plan)) = (decision.config.blocks, self.plan(request, &decision))
            && let Some(fewer) = self.limits.fewer_blocks(blocks, num_blocks(&plan))
        {
            decision.config.blocks = Some(fewer);
        }
        decision
    }

    /// Returns the decision for a choice of the caller's.
    ///
    /// # Errors
    /// As [`decision_by`](Self::decision_by).
    #[doc(hidden)]
    pub fn decision(&self, request: &Request, choice: &Choice) -> Result<Decision, SelectError> {
        self.decision_by(request, choice, DecidedBy::Forced)
    }

    /// Returns the decision for a choice of the caller's or of the selector's.
    ///
    /// # Errors
    /// [`SelectError::BadChoice`] if there is no such algorithm, with those that there are, or it does not serve the request.
    #[doc(hidden)]
    pub fn decision_by(&self, request: &Request, choice: &Choice, by: DecidedBy) -> Result<Decision, SelectError> {
        let bad = |reason| {
            let (name, request) = (choice.name.clone(), request.to_string());
            SelectError::BadChoice {
                by: if by == DecidedBy::Selector { "selector" } else { "caller" },
                name,
                request,
                reason,
            }
        };
        let found = self.of_collective(request).find(|algorithm| algorithm.name() == choice.name);
        let algorithm = found.ok_or_else(|| {
            let eligible = self.of_collective(request).filter(|algorithm| algorithm.check_request(request).is_ok());
            let names: Vec<_> = eligible.map(|algorithm| format!("`{}`", algorithm.name())).collect();
            bad(format!("{}; those that serve it: {}", missing(request), names.join(", ")))
        })?;
        algorithm.check_request(request).map_err(|rejection| bad(format!("it {rejection}")))?;
        Ok(Decision { algorithm: Arc::clone(algorithm), config: choice.config.clone(), decided_by: by })
    }

    /// Returns the decision for a choice; `None` if the choice cannot be used.
    fn follow(
        &self,
        request: &Request,
        choice: Choice,
        by: &'static str,
        why: DecidedBy,
        candidates: &[&Arc<Algorithm>],
        rejections: &[(String, Rejection)],
    ) -> Result<Option<Decision>, SelectError> {
        if let Some(found) = candidates.iter().find(|candidate| candidate.name() == choice.name) {
            return Ok(Some(Decision { algorithm: Arc::clone(found), config: choice.config, decided_by: why }));
        }
        let rejected = rejections.iter().find(|(name, _)| *name == choice.name);
        let why = rejected.map_or_else(|| missing(request), |(_, rejection)| format!("it {rejection}"));
        if self.strict {
            let request = request.to_string();
            return Err(SelectError::BadChoice { by, name: choice.name, request, reason: why });
        }
        log::warn!("the {by} selected `{}` for {request}, but {why}; the default rules select instead", choice.name);
        Ok(None)
    }

    fn log_decision(&self, request: &Request, decision: &Decision) {
        if !log::log_enabled!(log::Level::Info) {
            return;
        }
        let class = request.class();
        let Decision { algorithm, config, decided_by: why } = decision;
        let line = format!("{class}: `{}`, {config}; {why}", algorithm.name());
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_CACHED_PLANS && !logged.contains(&line) {
            log::info!("{line}");
            logged.insert(line);
        }
    }

    /// Returns the number of compiled plans.
    #[doc(hidden)]
    pub fn num_plans(&self) -> usize {
        self.lock_plans().len()
    }

    fn lock_plans(&self) -> std::sync::MutexGuard<'_, BTreeMap<Key, Plan>> {
        // A panic leaves the map consistent.
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the beginning of a digest as text.
fn hex(digest: sha2::Sha256) -> String {
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn missing(request: &Request) -> String {
    format!("the registry has no such {} algorithm", request.collective.name())
}

/// Selects by the default rules.
fn decide_by_rules(request: &Request, candidates: &[&Arc<Algorithm>]) -> Decision {
    for rule in RULES.iter().filter(|rule| rule.covers(request)) {
        if let Some(found) = candidates.iter().find(|candidate| candidate.name() == rule.name) {
            return Decision::complete(request, found, DecidedBy::Rule(rule.reason));
        }
    }
    Decision::complete(request, candidates[0], DecidedBy::First)
}

/// Orders algorithms of the application: plans, which are proved, before functions and kernels, then those for fewer sizes.
fn added_rank(algorithm: &&Arc<Algorithm>) -> (bool, u64) {
    let bytes = &algorithm.constraints().bytes;
    (!algorithm.has_plans(), bytes.end() - bytes.start())
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.algorithms.iter().map(|algorithm| algorithm.name()).collect();
        f.debug_struct("Registry")
            .field("algorithms", &names)
            .field("selector", &self.selector.is_some())
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}
