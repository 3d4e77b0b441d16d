//! An algorithm, wherever it comes from.

use std::collections::BTreeMap;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use mscclpp_algorithms::{BufferMode, BuiltinAlgorithm};
use mscclpp_core::algorithm::EmbeddedAlgorithm as Baked;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::{LoadOptions, Plan};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::ReduceOp;

use super::choice::Config;
use super::constraints::{Constraints, Rejection, machine, placed};
use super::error::{CallError, LoadError, PlanError};
use super::native::{self, Call, Function};
use super::request::{Backend, Request};
#[cfg(feature = "cuda")]
use crate::cuda::Executor;
#[cfg(feature = "cuda")]
use crate::cuda::native::{NativeAlgorithm, NativeRun, Shared};

/// The longest plan file that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// Something that serves calls of one collective: a name, where it can be used, and where its plans come from.
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

/// Where plans come from.
#[derive(Debug)]
enum Source {
    /// The library, for any machine that the algorithm supports.
    Builtin(&'static BuiltinAlgorithm),
    /// A function under `#[collective]`, run again for every machine.
    Compiled(Baked),
    /// Plans that exist: baked into the program, or from files. In order of preference.
    Plans(Vec<Existing>),
    /// No plans, but a function.
    Native(Function),
    /// No plans, but kernels.
    #[cfg(feature = "cuda")]
    Kernels(Shared),
}

/// A plan, and the only reductions that it does; `None` if it takes any.
#[derive(Debug)]
struct Existing {
    plan: Plan,
    ops: Option<Vec<ReduceOp>>,
}

impl Algorithm {
    /// An algorithm of the library.
    pub fn builtin(shipped: &'static BuiltinAlgorithm) -> Self {
        let (least, most) = shipped.nodes_between();
        let spec = shipped.spec(2, 2);
        let constraints = Constraints {
            ranks: 2..=mscclpp_algorithms::MAX_RANKS,
            nodes: least..=most,
            bytes: spec.min_message_size..=spec.max_message_size,
            placement: shipped.placement(),
            multicast: shipped.needs_multicast(),
            order_varies_across: shipped.own_order(),
            ..Constraints::default()
        };
        let algorithm = Self::new(shipped.name(), shipped.kind(), constraints, spec.tags, Source::Builtin(shipped));
        Self { builtin: true, ..algorithm }
    }

    /// What the library does where there is one rank only.
    pub(super) fn alone(collective: CollectiveKind) -> Self {
        let alone = Self::native(format!("{}_alone", collective.name()), collective, native::alone);
        Self { builtin: true, ..alone.with_constraints(|limits| limits.ranks = 1..=1) }
    }

    /// A function that is called instead of a plan being run. It runs on the CPU, on all ranks, and may talk to the other
    /// ranks in whatever way it likes.
    pub fn native(
        name: impl Into<String>,
        collective: CollectiveKind,
        function: impl Fn(Call<'_>) -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        let constraints = Constraints { backend: Some(Backend::Cpu), ..Constraints::default() };
        let source = Source::Native(Function::new(function));
        Self::new(&name.into(), collective, constraints, BTreeMap::new(), source)
    }

    /// Kernels that are launched instead of a plan being run, on CUDA devices. They are bound to a world by
    /// [`prepare_on`](Self::prepare_on).
    #[cfg(feature = "cuda")]
    pub fn kernels(name: impl Into<String>, collective: CollectiveKind, algorithm: impl NativeAlgorithm) -> Self {
        let constraints = Constraints { backend: Some(Backend::Cuda), ..Constraints::default() };
        let source = Source::Kernels(Shared::new(algorithm));
        Self::new(&name.into(), collective, constraints, BTreeMap::new(), source)
    }

    /// The plans that a function under `#[collective]` was built to: `name::algorithm()`. Requests for other machines are
    /// refused; [`on_demand`](Self::compiled) serves those too.
    ///
    /// # Errors
    /// [`LoadError::Empty`] if there are none.
    pub fn embedded(baked: Baked) -> Result<Self, LoadError> {
        Self::plans(baked.name(), baked.plans().to_vec())
    }

    /// A function under `#[collective]`, run for every machine that asks for it: `name::algorithm()`. The specification is its
    /// attribute's, with the request's ranks, nodes, placement and root; plans that the attribute asks for are taken as
    /// they are. Limits are up to [`with_constraints`](Self::constrained).
    pub fn on_demand(baked: Baked) -> Self {
        let spec = baked.spec(2, &defaults(&baked));
        let constraints =
            Constraints { bytes: spec.min_message_size..=spec.max_message_size, ..Constraints::default() };
        Self::new(baked.name(), spec.collective.kind, constraints, spec.tags, Source::Compiled(baked))
    }

    /// One plan, under its own name: one that was compiled at run time, or loaded.
    pub fn plan(plan: Plan) -> Self {
        let (name, collective) = (plan.name().to_owned(), plan.collective().kind);
        Self::of_plans(&name, collective, vec![plan])
    }

    /// Several plans of one collective, for different machines or sizes.
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

    /// A plan from a file: MSCCL++ JSON or an image. Checked in full before anybody runs it.
    ///
    /// # Errors
    /// [`LoadError::Read`], [`LoadError::TooLong`] beyond 1 GiB, and [`LoadError::NotAPlan`] with everything that is wrong.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        Self::load_with(path, &LoadOptions::default())
    }

    /// [`load`](Self::load) with other checks.
    ///
    /// # Errors
    /// As [`load`](Self::load), less what the options leave out.
    pub fn load_with(path: impl AsRef<Path>, options: &LoadOptions) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let bytes = crate::file::read(path, LONGEST).map_err(|error| match error {
            crate::file::ReadError::TooLong => LoadError::TooLong { path: path.to_owned(), limit: LONGEST },
            crate::file::ReadError::Io(source) => LoadError::Read { path: path.to_owned(), source },
        })?;
        let (plan, warnings) = Plan::load_with(&bytes, options)
            .map_err(|findings| LoadError::NotAPlan { path: path.to_owned(), findings })?;
        for warning in warnings {
            log::warn!("{}: {warning}", path.display());
        }
        Ok(Self::plan(plan))
    }

    fn of_plans(name: &str, collective: CollectiveKind, plans: Vec<Plan>) -> Self {
        let tags = plans.iter().flat_map(Plan::tags).map(|(key, value)| (key.to_owned(), value)).collect();
        let existing = |plan: Plan| {
            let ops = match plan.tree().reductions()[..] {
                [] | [ReduceOp::Sum] => None,
                [op] => Some(vec![op]),
                // One that mixes reductions does no single one.
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

    /// Another name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// With a tag, for selectors.
    #[must_use]
    pub fn with_tag(mut self, key: impl Into<String>, value: i64) -> Self {
        self.tags.insert(key.into(), value);
        self
    }

    /// With changed constraints. What its plans cannot do is refused all the same.
    #[must_use]
    pub fn with_constraints(mut self, change: impl FnOnce(&mut Constraints)) -> Self {
        change(&mut self.constraints);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The collective that it implements.
    pub fn collective(&self) -> CollectiveKind {
        self.collective
    }

    /// Labels for selectors.
    pub fn tags(&self) -> &BTreeMap<String, i64> {
        &self.tags
    }

    /// The value of a tag.
    pub fn tag(&self, key: &str) -> Option<i64> {
        self.tags.get(key).copied()
    }

    /// Where it can be used.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// Whether it comes with the library.
    pub fn is_builtin(&self) -> bool {
        self.builtin
    }

    /// Everything that tells it from another one, in parts.
    pub(super) fn digest(&self, add: &mut dyn FnMut(&[u8])) {
        add(self.name.as_bytes());
        add(format!("{:?} {:?} {:?}", self.collective, self.constraints, self.tags).as_bytes());
        let mut plan = |plan: &Plan| add(&plan.hash().to_le_bytes());
        match &self.source {
            Source::Builtin(shipped) => shipped.plans().iter().for_each(plan),
            Source::Compiled(baked) => baked.plans().iter().for_each(plan),
            Source::Plans(plans) => plans.iter().for_each(|existing| plan(&existing.plan)),
            Source::Native(_) => {}
            #[cfg(feature = "cuda")]
            Source::Kernels(_) => {}
        }
    }

    /// Whether its plans are compiled when they are asked for.
    pub(super) fn is_compiled(&self) -> bool {
        matches!(self.source, Source::Builtin(_) | Source::Compiled(_))
    }

    /// How often it was launched.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Counts a launch: for whoever runs plans of a registry.
    pub fn count(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether it can serve a request of its collective. Whether the plan can be built is seen when it is.
    ///
    /// # Errors
    /// Why not.
    pub fn check_request(&self, request: &Request) -> Result<(), Rejection> {
        self.constraints.check_request(request)?;
        match &self.source {
            Source::Builtin(shipped) if !shipped.supports(request.ranks, request.ranks_per_node) => {
                Err(Rejection::Nodes { expected: shipped.requirement(), found: machine(request) })
            }
            Source::Plans(plans) => suitable(plans, request).map(drop),
            _ => Ok(()),
        }
    }

    /// Whether it is a function, which [`call`](Self::call) calls, and has no plans.
    pub fn is_native(&self) -> bool {
        matches!(self.source, Source::Native(_))
    }

    /// Calls a native algorithm's function.
    ///
    /// # Errors
    /// [`CallError`] if it has none, or with what the function returns.
    pub fn call(&self, call: Call<'_>) -> Result<(), CallError> {
        let failed = |source| CallError { name: self.name.clone(), source };
        match &self.source {
            Source::Native(function) => function.call(call).map_err(failed),
            _ => Err(failed("it runs plans and is not a function".into())),
        }
    }

    /// Whether it is kernels, which [`prepare_on`](Self::prepare_on) binds to a world, and has no plans.
    #[cfg(feature = "cuda")]
    pub fn is_kernels(&self) -> bool {
        matches!(self.source, Source::Kernels(_))
    }

    /// Binds kernels to a world of CUDA devices and a request. The first time on a world they are compiled.
    ///
    /// # Errors
    /// [`CallError`] if it is no [`kernels`](Self::kernels), does not serve the request, or with what its functions return.
    #[cfg(feature = "cuda")]
    pub fn prepare_on(&self, world: &Executor, request: &Request) -> Result<NativeRun, CallError> {
        let failed = |source| CallError { name: self.name.clone(), source };
        self.check_request(request).map_err(|refusal| failed(format!("it {refusal}").into()))?;
        match &self.source {
            Source::Kernels(kernels) => kernels.prepare(&self.name, world, request),
            _ => Err(failed("it is not a kernel: prepare its plan".into())),
        }
    }

    /// Values of [`Config::blocks`] that are worth trying for a request, the usual one first.
    pub fn blocks(&self, backend: Backend) -> Vec<Option<u32>> {
        match (&self.source, backend) {
            (Source::Builtin(_), Backend::Cpu) => vec![None, Some(2), Some(4)],
            (Source::Builtin(_), Backend::Cuda) => {
                vec![None, Some(4), Some(8), Some(16), Some(24), Some(32), Some(48), Some(64), Some(128)]
            }
            _ => vec![None],
        }
    }

    /// The plan for a request.
    ///
    /// # Cost
    /// Nothing for a plan that exists; else that of compiling and checking it, linear in its operations.
    /// [`Registry::plan`](super::Registry::plan) keeps what was compiled.
    ///
    /// # Errors
    /// [`PlanError::Refused`] if it does not serve the request; [`PlanError::Native`] if it has no plans; [`PlanError::Build`], [`PlanError::Program`] and
    /// [`PlanError::Panicked`] if its program does not build for the request's machine.
    pub fn build(&self, request: &Request, config: &Config) -> Result<Plan, PlanError> {
        let refused = |refusal| PlanError::Refused { name: self.name.clone(), refusal: Box::new(refusal) };
        self.check_request(request).map_err(refused)?;
        if let Some(found) = config.blocks.filter(|blocks| !(1..=Config::MAX_BLOCKS).contains(blocks)) {
            return Err(refused(Rejection::BlockCount { found }));
        }
        match &self.source {
            Source::Builtin(shipped) => {
                let (spec, arguments) = build_for(shipped, request, config);
                Ok(shipped.plan(spec, &arguments)?.into_owned())
            }
            Source::Compiled(baked) => {
                let arguments = defaults(baked);
                let mut spec = baked.spec(request.ranks, &arguments);
                spec.ranks_per_node = request.ranks_per_node;
                spec.collective.in_place = request.in_place;
                spec.collective.root = request.root;
                spec.instances = config.blocks.unwrap_or(spec.instances);
                spec.threads_per_block = config.threads.unwrap_or(spec.threads_per_block);
                let name = || self.name.clone();
                // The function is the user's, and may not be written for so many ranks.
                catch_unwind(AssertUnwindSafe(|| baked.compile(spec, &arguments)))
                    .map_err(|panic| PlanError::Panicked { name: name(), message: message(&*panic) })?
                    .map_err(|findings| PlanError::Program { name: name(), findings })
            }
            Source::Plans(plans) => suitable(plans, request).cloned().map_err(refused),
            _ => Err(PlanError::Native { name: self.name.clone() }),
        }
    }
}

/// What a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no panic message").to_owned()
}

/// The values that a parameter has first.
fn defaults(baked: &Baked) -> Vec<i128> {
    baked.params().iter().map(|param| param.values.first().copied().unwrap_or(1)).collect()
}

/// The first plan that serves a request; else why the one that comes closest does not.
fn suitable<'a>(plans: &'a [Existing], request: &Request) -> Result<&'a Plan, Rejection> {
    let mut closest = (0, None);
    for existing in plans {
        match fits(existing, request) {
            Ok(()) => return Ok(&existing.plan),
            Err((met, refusal)) => {
                if closest.1.is_none() || met > closest.0 {
                    closest = (met, Some(refusal));
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
        (met, Some(refusal)) if met > 0 => refusal,
        _ => Rejection::Ranks { expected: all(), found: request.ranks },
    })
}

/// Whether a plan serves a request; else how many conditions it meets, and the first that it does not.
fn fits(Existing { plan, ops }: &Existing, request: &Request) -> Result<(), (u32, Rejection)> {
    let collective = plan.collective();
    if plan.num_ranks() != request.ranks {
        return Err((0, Rejection::Ranks { expected: format!("{} ranks", plan.num_ranks()), found: request.ranks }));
    }
    if plan.ranks_per_node() != request.ranks_per_node {
        let expected = format!("nodes of {}", plan.ranks_per_node());
        return Err((1, Rejection::Nodes { expected, found: machine(request) }));
    }
    let placement = if collective.in_place { BufferMode::InPlace } else { BufferMode::OutOfPlace };
    placed(placement, request.in_place).map_err(|refusal| (2, refusal))?;
    if collective.root != request.root {
        return Err((3, Rejection::Root { found: request.root }));
    }
    let expected = plan.min_message_size()..=plan.max_message_size();
    if !expected.contains(&request.bytes) {
        return Err((4, Rejection::Bytes { expected, found: request.bytes }));
    }
    if let (Some(ops), Some(found)) = (ops, request.op)
        && !ops.contains(&found)
    {
        return Err((5, Rejection::Op { found }));
    }
    Ok(())
}
/// Specification and arguments of a built-in algorithm for a request. On the CPU one parallel block is usual: ranks are what runs in
/// parallel. On a device a block for every 64 KiB, up to 16, but no fewer than the algorithm's own number.
fn build_for(algorithm: &BuiltinAlgorithm, request: &Request, config: &Config) -> (AlgoSpec, Vec<usize>) {
    let mut spec = algorithm.spec(request.ranks, request.ranks_per_node);
    spec.collective.in_place = request.in_place;
    spec.collective.root = request.root;
    spec.threads_per_block = config.threads.unwrap_or(spec.threads_per_block);
    let usual = match request.backend {
        Backend::Cpu => 1,
        Backend::Cuda => {
            let blocks = (request.bytes >> 16).clamp(1, 16).next_power_of_two() as u32;
            algorithm.num_parallel_blocks(&spec).max(blocks)
        }
    };
    algorithm.with_parallel_blocks(spec, config.blocks.unwrap_or(usual))
}
