//! An algorithm from any source.

#[cfg(feature = "cuda")]
use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::algorithm::EmbeddedAlgorithm;
use mscclpp_core::check::{LoadOptions, reduction_order};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::{LoadPlan, Plan};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::ReduceOp;

use super::choice::{Choice, Config};
use super::constraints::{Constraints, Rejection, check_buffer_mode, machine};
use super::dividing;
use super::error::{CallError, LoadError, PlanError};
use super::native::{self, Call, Function};
use super::order::OrderPolicy;
use super::request::{Backend, Request};
use super::usual;

/// Maximum length of a plan file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// An algorithm that serves calls of one collective: a name, constraints, and a source of plans.
#[derive(Debug)]
pub struct Algorithm {
    name: String,
    collective: CollectiveKind,
    constraints: Constraints,
    tags: BTreeMap<String, i64>,
    source: Source,
    builtin: bool,
    calls: AtomicU64,
}

/// Source of an algorithm's plans.
#[derive(Debug)]
enum Source {
    /// The library, for any machine that the algorithm supports.
    Builtin(&'static BuiltinAlgorithm),
    /// A function under `#[collective]`, evaluated again for every machine.
    OnDemand(EmbeddedAlgorithm),
    /// Existing plans: embedded in the program, or from files. In order of preference.
    Plans(Vec<Existing>),
    /// No plans, but a function.
    Native(Function),
    /// No plans, but kernels, in a type of the executor that launches them.
    #[cfg(feature = "cuda")]
    Kernels(Box<dyn Any + Send + Sync>),
}

/// A plan, and its only supported reductions; `None` if it accepts any.
#[derive(Debug)]
struct Existing {
    plan: Plan,
    ops: Option<Vec<ReduceOp>>,
}

impl Algorithm {
    /// Returns a built-in algorithm.
    pub fn builtin(built_in: &'static BuiltinAlgorithm) -> Self {
        let spec = built_in.spec(2, 2);
        let constraints = Constraints {
            num_ranks: 2..=mscclpp_algorithms::MAX_RANKS,
            num_nodes: built_in.num_nodes(),
            bytes: spec.min_message_size..=spec.max_message_size,
            buffer_mode: built_in.buffer_mode(),
            multicast: built_in.needs_multicast(),
            order_varies_across: built_in.order_varies_across(),
            ..Constraints::default()
        };
        let algorithm = Self::new(built_in.name(), built_in.kind(), constraints, spec.tags, Source::Builtin(built_in));
        Self { builtin: true, ..algorithm }
    }

    /// Returns the algorithm for a single rank.
    pub(super) fn alone(collective: CollectiveKind) -> Self {
        let alone = Self::native(format!("{}_alone", collective.name()), collective, native::alone);
        Self { builtin: true, ..alone.with_constraints(|limits| limits.num_ranks = 1..=1) }
    }

    /// Creates an algorithm from a function that is called instead of running a plan. It runs on the CPU, on all ranks,
    /// and may communicate with the other ranks in any way.
    pub fn native(
        name: impl Into<String>,
        collective: CollectiveKind,
        function: impl Fn(Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        let constraints = Constraints { backend: Some(Backend::Cpu), ..Constraints::default() };
        let source = Source::Native(Function::new(function));
        Self::new(&name.into(), collective, constraints, BTreeMap::new(), source)
    }

    /// Creates an algorithm from kernels, of a type that their executor [knows](Self::kernels_as).
    #[cfg(feature = "cuda")]
    pub(crate) fn of_kernels(name: &str, collective: CollectiveKind, kernels: impl Any + Send + Sync) -> Self {
        let constraints = Constraints { backend: Some(Backend::Cuda), ..Constraints::default() };
        Self::new(name, collective, constraints, BTreeMap::new(), Source::Kernels(Box::new(kernels)))
    }

    /// Creates an algorithm from the embedded plans of a function under `#[collective]`: `name::algorithm()`. Requests
    /// for other machines are rejected; [`on_demand`](Self::on_demand) serves those too.
    ///
    /// # Errors
    /// [`LoadError::Empty`] if there are none.
    pub fn embedded(embedded: EmbeddedAlgorithm) -> Result<Self, LoadError> {
        Self::plans(embedded.name(), embedded.plans().to_vec())
    }

    /// Creates an algorithm from a function under `#[collective]`, evaluated for every requested machine:
    /// `name::algorithm()`. The specification is its attribute's, with the request's ranks, nodes, placement and root;
    /// plans for which the attribute asks are used unchanged. Limits are set by
    /// [`with_constraints`](Self::with_constraints).
    #[doc(hidden)]
    pub fn on_demand(embedded: EmbeddedAlgorithm) -> Self {
        let spec = embedded.spec(2, &defaults(&embedded));
        let constraints =
            Constraints { bytes: spec.min_message_size..=spec.max_message_size, ..Constraints::default() };
        Self::new(embedded.name(), spec.collective.kind, constraints, spec.tags, Source::OnDemand(embedded))
    }

    /// Creates an algorithm from one plan, under the plan's name: one that was compiled at run time, or loaded.
    pub fn plan(plan: Plan) -> Self {
        let (name, collective) = (plan.name().to_owned(), plan.collective().kind);
        Self::of_plans(&name, collective, vec![plan])
    }

    /// Creates an algorithm from several plans of one collective, for different machines or sizes.
    ///
    /// # Errors
    /// [`LoadError::Empty`] if there are none, [`LoadError::Mixed`] if they are of different collectives.
    pub fn plans(name: &str, plans: Vec<Plan>) -> Result<Self, LoadError> {
        let Some(first) = plans.first() else { return Err(LoadError::Empty { name: name.to_owned() }) };
        let collective = first.collective().kind;
        if let Some(other) = plans.iter().find(|plan| plan.collective().kind != collective) {
            let found = other.collective().kind.name();
            return Err(LoadError::Mixed { name: name.to_owned(), expected: collective.name(), found });
        }
        Ok(Self::of_plans(name, collective, plans))
    }

    /// Loads a plan from a file: MSCCL++ JSON or a plan image. It is fully checked before it can run.
    ///
    /// # Errors
    /// [`LoadError::Read`], [`LoadError::TooLong`] beyond 1 GiB, and [`LoadError::NotAPlan`] with all diagnostics.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_with_options(path, &LoadOptions::default())
    }

    /// Does what [`load`](Self::load) does, with other checks.
    ///
    /// # Errors
    /// As [`load`](Self::load), except those of checks that the options disable.
    pub fn load_with_options(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, LoadError> {
        let path = path.as_ref();
        load(path, &read(path)?, options).map(Self::plan)
    }

    fn of_plans(name: &str, collective: CollectiveKind, plans: Vec<Plan>) -> Self {
        let tags = plans.iter().flat_map(Plan::tags).map(|(key, value)| (key.to_owned(), value)).collect();
        let existing = |plan: Plan| {
            let ops = match plan.tree().reductions()[..] {
                [] | [ReduceOp::Sum] => None,
                [op] => Some(vec![op]),
                // A plan with mixed reductions supports no single one.
                _ => Some(Vec::new()),
            };
            Existing { plan, ops }
        };
        let plans = plans.into_iter().map(existing).collect();
        Self::new(name, collective, Constraints::default(), tags, Source::Plans(plans))
    }

    fn new(
        name: &str,
        collective: CollectiveKind,
        constraints: Constraints,
        tags: BTreeMap<String, i64>,
        source: Source,
    ) -> Self {
        Self { name: name.to_owned(), collective, constraints, tags, source, builtin: false, calls: AtomicU64::new(0) }
    }

    /// Returns this algorithm with another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns this algorithm with a tag, for selectors.
    #[must_use]
    pub fn with_tag(mut self, key: impl Into<String>, value: i64) -> Self {
        self.tags.insert(key.into(), value);
        self
    }

    /// Returns this algorithm with changed constraints. Requests that its plans cannot serve are rejected nevertheless.
    #[must_use]
    pub fn with_constraints(mut self, change: impl FnOnce(&mut Constraints)) -> Self {
        change(&mut self.constraints);
        self
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the collective that it implements.
    pub fn collective(&self) -> CollectiveKind {
        self.collective
    }

    /// Returns its tags, which are labels for selectors.
    pub fn tags(&self) -> &BTreeMap<String, i64> {
        &self.tags
    }

    /// Returns the value of a tag.
    pub fn tag(&self, key: &str) -> Option<i64> {
        self.tags.get(key).copied()
    }

    /// Returns its constraints.
    #[doc(hidden)]
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// Returns whether it is a built-in algorithm.
    #[doc(hidden)]
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// Passes everything that distinguishes it from other algorithms to `add`, in parts.
    pub(super) fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        add(self.name.as_bytes());
        add(format!("{:?} {:?} {:?}", self.collective, self.constraints, self.tags).as_bytes());
        let mut plan = |plan: &Plan| add(&plan.hash().to_le_bytes());
        match &self.source {
            Source::Builtin(built_in) => built_in.plans().iter().for_each(plan),
            Source::OnDemand(embedded) => embedded.plans().iter().for_each(plan),
            Source::Plans(plans) => plans.iter().for_each(|existing| plan(&existing.plan)),
            Source::Native(_) => {}
            #[cfg(feature = "cuda")]
            Source::Kernels(_) => {}
        }
    }

    /// Returns whether its plans are compiled on demand.
    pub(super) fn is_compiled(&self) -> bool {
        matches!(self.source, Source::Builtin(_) | Source::OnDemand(_))
    }

    /// Returns how often it was launched.
    #[doc(hidden)]
    pub fn num_calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a launch, for executors of a registry's plans.
    #[doc(hidden)]
    pub fn record_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Checks that it can serve a request of its collective. Whether the plan can be built is checked only when it is
    /// built.
    ///
    /// # Errors
    /// Why not.
    #[doc(hidden)]
    pub fn check_request(&self, request: &Request) -> Result<(), Rejection> {
        self.constraints.check_request(request)?;
        match &self.source {
            Source::Builtin(built_in) if !built_in.supports(request.num_ranks, request.ranks_per_node) => {
                Err(Rejection::Nodes { expected: built_in.requirement(), found: machine(request) })
            }
            Source::OnDemand(embedded) => {
                let spec = embedded.spec(request.num_ranks, &defaults(embedded));
                if spec.collective.dividing { dividing::check_spec(&spec, request) } else { Ok(()) }
            }
            Source::Plans(plans) => suitable(plans, request).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns whether it has plans; otherwise it is a function or consists of kernels.
    #[doc(hidden)]
    pub fn has_plans(&self) -> bool {
        matches!(self.source, Source::Builtin(_) | Source::OnDemand(_) | Source::Plans(_))
    }

    /// Calls a native algorithm's function.
    ///
    /// # Errors
    /// [`CallError`] if it has none, or with the error that the function returns.
    #[doc(hidden)]
    pub fn call(&self, call: Call<'_>) -> Result<(), CallError> {
        let failed = |source| CallError { name: self.name.clone(), source };
        match &self.source {
            Source::Native(function) => function.call(call).map_err(failed),
            _ => Err(failed("it runs plans and is not a function".into())),
        }
    }

    /// Returns its kernels, if it consists of kernels of this type.
    #[cfg(feature = "cuda")]
    pub(crate) fn kernels_as<T: Any>(&self) -> Option<&T> {
        match &self.source {
            Source::Kernels(kernels) => kernels.downcast_ref(),
            _ => None,
        }
    }

    /// Returns values of [`Config::blocks`] that are worth trying for a request, the usual one first.
    #[doc(hidden)]
    pub fn block_counts(&self, backend: Backend) -> Vec<Option<u32>> {
        match (&self.source, backend) {
            (Source::Builtin(_), Backend::Cpu) => vec![None, Some(2), Some(4)],
            (Source::Builtin(_), Backend::Cuda) => {
                vec![None, Some(4), Some(8), Some(16), Some(24), Some(32), Some(48), Some(64), Some(128)]
            }
            _ => vec![None],
        }
    }

    /// Returns a configuration with the usual numbers for a request where it leaves them open, if the numbers depend on the
    /// request: those of a built-in algorithm on a device.
    pub(super) fn complete(&self, request: &Request, config: &Config) -> Config {
        match (&self.source, request.backend) {
            (Source::Builtin(built_in), Backend::Cuda) => {
                let (blocks, threads) = usual::on_device(built_in, request);
                let (blocks, threads) = (config.blocks.unwrap_or(blocks), config.threads.unwrap_or(threads));
                Config { blocks: Some(blocks), threads: Some(threads) }
            }
            _ => config.clone(),
        }
    }

    /// Returns a configuration with all numbers with which the plan for a request on a device is built; none if its plans exist.
    pub(super) fn numbers(&self, request: &Request, config: &Config) -> Option<Config> {
        let config = self.complete(request, config);
        match &self.source {
            Source::Builtin(_) => Some(config),
            Source::OnDemand(embedded) => {
                let spec = embedded.spec(request.num_ranks, &defaults(embedded));
                let Config { blocks, threads } = config;
                let blocks = blocks.unwrap_or(spec.instances);
                Some(Config { blocks: Some(blocks), threads: threads.or(Some(spec.threads_per_block)) })
            }
            _ => None,
        }
    }

    /// Records the program of a built-in algorithm for a request; `None` for other algorithms, and if it does not support the request.
    pub(super) fn record(&self, request: &Request, config: &Config) -> Option<Trace> {
        let Source::Builtin(built_in) = &self.source else { return None };
        let has_switch = request.multicast || !built_in.needs_multicast();
        let fits = has_switch && check_buffer_mode(built_in.buffer_mode(), request.in_place).is_ok();
        let (spec, arguments) = usual::build_for(built_in, request, config);
        let max = built_in.max_parallel_blocks(request.num_ranks, request.max_blocks);
        let is_possible = fits && config.blocks.is_none_or(|blocks| blocks <= max);
        is_possible.then(|| built_in.record(spec, &arguments).ok()).flatten()
    }

    /// Builds the plan for a request.
    ///
    /// # Cost
    /// None for an existing plan; else that of compiling and checking it, linear in its operations.
    /// [`Registry::plan`](super::Registry::plan) caches compiled plans. If the request demands the order of ranks, also that
    /// of proving it.
    ///
    /// # Errors
    /// [`PlanError::Rejected`] if it does not serve the request; [`PlanError::Native`] if it has no plans;
    /// [`PlanError::Build`], [`PlanError::Program`] and [`PlanError::Panicked`] if its program does not build for the
    /// request's machine; [`PlanError::NotInRankOrder`] if the request demands that order and the plan has another one.
    #[doc(hidden)]
    pub fn build(&self, request: &Request, config: &Config) -> Result<Plan, PlanError> {
        let plan = self.build_any(request, config)?;
        // Two operands commute.
        let is_ordered = request.order == OrderPolicy::RankOrder && request.rounds() && request.num_ranks > 2;
        if is_ordered && !reduction_order(&plan.tree()).is_some_and(|order| order.is_rank_order) {
            return Err(PlanError::NotInRankOrder { name: self.name.clone() });
        }
        Ok(plan)
    }

    fn build_any(&self, request: &Request, config: &Config) -> Result<Plan, PlanError> {
        let rejected = |rejection| PlanError::Rejected { name: self.name.clone(), rejection: Box::new(rejection) };
        self.check_request(request).map_err(rejected)?;
        if let Some(found) = config.blocks.filter(|blocks| !(1..=Config::MAX_BLOCKS).contains(blocks)) {
            return Err(rejected(Rejection::BlockCount { found }));
        }
        match &self.source {
            Source::Builtin(built_in) => {
                let (spec, arguments) = usual::build_for(built_in, request, &self.complete(request, config));
                Ok(built_in.plan(spec, &arguments)?)
            }
            Source::OnDemand(embedded) => {
                let arguments = defaults(embedded);
                let mut spec = embedded.spec(request.num_ranks, &arguments);
                spec.ranks_per_node = request.ranks_per_node;
                spec.collective.in_place = request.in_place;
                spec.collective.root = request.root;
                spec.instances = config.blocks.unwrap_or(spec.instances);
                spec.threads_per_block = config.threads.unwrap_or(spec.threads_per_block);
                let mut plan = self.compile(embedded, &spec, &arguments)?;
                // Its own number of instances may be too many for the devices.
                while config.blocks.is_none() && spec.instances > 1 && num_blocks(&plan) > request.max_blocks {
                    spec.instances /= 2;
                    plan = self.compile(embedded, &spec, &arguments)?;
                }
                Ok(plan)
            }
            Source::Plans(plans) => suitable(plans, request).cloned().map_err(rejected),
            _ => Err(PlanError::Native { name: self.name.clone() }),
        }
    }

    /// Compiles the user's function, which may not support the number of ranks.
    fn compile(&self, embedded: &EmbeddedAlgorithm, spec: &AlgoSpec, arguments: &[i128]) -> Result<Plan, PlanError> {
        let name = || self.name.clone();
        catch_unwind(AssertUnwindSafe(|| embedded.compile(spec.clone(), arguments)))
            .map_err(|panic| PlanError::Panicked { name: name(), message: message(&*panic) })?
            .map_err(|findings| PlanError::Program { name: name(), findings })
    }
}

/// Returns the bytes of a plan file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    mscclpp_base::file::read(path, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => LoadError::TooLong { path: path.to_owned(), limit: MAX_FILE_BYTES },
        _ => LoadError::Read { path: path.to_owned(), source },
    })
}

/// Returns the plan of the bytes of a file, checked; logs its warnings.
pub(super) fn load(path: &Path, bytes: &[u8], options: &LoadOptions) -> Result<Plan, LoadError> {
    let (plan, warnings) = Plan::load_with_options(bytes, options)
        .map_err(|findings| LoadError::NotAPlan { path: path.to_owned(), findings })?;
    for warning in warnings {
        log::warn!("{}: {warning}", path.display());
    }
    Ok(plan)
}

/// Returns the largest number of thread blocks of a rank.
pub(super) fn num_blocks(plan: &Plan) -> u32 {
    plan.ranks().map(|rank| rank.blocks().count() as u32).max().unwrap_or(0)
}

/// Returns the message of a panic.
pub(super) fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no panic message").to_owned()
}

/// Returns the first value of each parameter.
fn defaults(embedded: &EmbeddedAlgorithm) -> Vec<i128> {
    embedded.params().iter().map(|param| param.values.first().copied().unwrap_or(1)).collect()
}

/// Returns the first plan that serves a request; else why the closest one does not.
fn suitable<'a>(plans: &'a [Existing], request: &Request) -> Result<&'a Plan, Rejection> {
    let mut closest = (0, None);
    for existing in plans {
        match fits(existing, request) {
            Ok(()) => return Ok(&existing.plan),
            Err((met, rejection)) => {
                if closest.1.is_none() || met > closest.0 {
                    closest = (met, Some(rejection));
                }
            }
        }
    }
    let mut ranks: Vec<_> = plans.iter().map(|existing| existing.plan.num_ranks()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let all = || match ranks[..] {
        [1] => "1 rank".to_owned(),
        _ => format!("{} ranks", ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    };
    Err(match closest {
        (met, Some(rejection)) if met > 0 => rejection,
        _ => Rejection::Ranks { expected: all(), found: request.num_ranks },
    })
}

/// Checks that a plan serves a request; else returns how many conditions it meets, and the first that it does not.
fn fits(Existing { plan, ops }: &Existing, request: &Request) -> Result<(), (u32, Rejection)> {
    let collective = plan.collective();
    if plan.num_ranks() != request.num_ranks {
        return Err((
            0,
            Rejection::Ranks { expected: format!("{} ranks", plan.num_ranks()), found: request.num_ranks },
        ));
    }
    if plan.ranks_per_node() != request.ranks_per_node {
        let expected = format!("nodes of {}", plan.ranks_per_node());
        return Err((1, Rejection::Nodes { expected, found: machine(request) }));
    }
    let placement = if collective.in_place { BufferMode::InPlace } else { BufferMode::OutOfPlace };
    check_buffer_mode(placement, request.in_place).map_err(|rejection| (2, rejection))?;
    if collective.root != request.root {
        return Err((3, Rejection::Root { found: request.root }));
    }
    let expected = plan.min_message_size()..=plan.max_message_size();
    if !expected.contains(&request.bytes) {
        return Err((4, Rejection::Bytes { expected, found: request.bytes }));
    }
    if collective.dividing {
        dividing::check_plan(plan, request).map_err(|rejection| (5, rejection))?;
    }
    if let (Some(ops), Some(found)) = (ops, request.op)
        && !ops.contains(&found)
    {
        return Err((6, Rejection::Op { found }));
    }
    Ok(())
}

impl From<&Algorithm> for Choice {
    fn from(algorithm: &Algorithm) -> Self {
        Self::named(algorithm.name())
    }
}
