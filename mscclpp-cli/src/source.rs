//! Loads the plan that the command line names: a named algorithm, a file, or standard input.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::{BufferMode, BuildError, BuiltinAlgorithm};
use mscclpp_core::diag::Diagnostic;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::json::ReadOptions;
use mscclpp_core::plan::{
    Format,
    raw::{Op, Operand, PlanTree},
    text,
};
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_predict::Machine;

use crate::args::{BuildArgs, SourceArgs};
use crate::artifacts;
use crate::error::{Error, Result, similar};
use crate::memory;
use crate::msccl::{self, ImportError};
use crate::output::warn;
use crate::progress::Progress;

/// Maximum size of a plan file, in bytes.
const LONGEST: u64 = 1 << 30;

/// Default number of ranks of a named algorithm.
pub(crate) const DEFAULT_RANKS: u32 = 8;

/// A plan with the warnings of its loading.
pub(crate) struct Source {
    /// The plan.
    pub(crate) plan: PlanTree,
    /// Warnings about the file, such as unknown keys.
    pub(crate) warnings: Vec<Diagnostic>,
    /// Whether it was read from a file.
    pub(crate) is_file: bool,
}

impl Source {
    /// Returns the plan, after printing the warnings to standard error.
    pub(crate) fn warned(self) -> PlanTree {
        self.warnings.iter().for_each(warn);
        self.plan
    }
}

/// Loads the plan that a command line names.
///
/// # Errors
/// Those of [`load_with`], and [`Error::Usage`] for arguments that contradict a plan file.
pub(crate) fn load(args: &SourceArgs) -> Result<Source> {
    agreeing(load_with(&args.plan, &args.build)?, args)
}

/// Loads the plan that a command line names, for a machine: a named algorithm has the ranks, nodes and thread blocks of the machine
/// unless the command line states them.
///
/// # Errors
/// Those of [`load`].
pub(crate) fn load_for(args: &SourceArgs, machine: &Machine) -> Result<Source> {
    let Some(algorithm) = algorithms::find(&args.plan).filter(|_| artifacts::provided().is_none()) else {
        return load(args);
    };
    let mut build = args.build.clone();
    let ranks = build.ranks.unwrap_or(machine.ranks);
    build.ranks = Some(ranks);
    let per_node = machine.ranks_per_node.min(ranks);
    build.ranks_per_node = build.ranks_per_node.or(algorithm.supports(ranks, per_node).then_some(per_node));
    let free = build.instances.is_none() && build.params.is_empty();
    let blocks = machine.blocks_of(algorithm.name()).filter(|_| free);
    Ok(Source { plan: named(algorithm, &build, blocks)?, warnings: Vec::new(), is_file: false })
}

fn agreeing(source: Source, args: &SourceArgs) -> Result<Source> {
    if source.is_file {
        agree(&source.plan, &args.build)?;
    }
    Ok(source)
}

/// Returns the rank that `--rank` selects.
///
/// # Errors
/// [`Error::Usage`] for a rank that the plan does not have.
pub(crate) fn one_rank(plan: &PlanTree, asked: Option<u32>) -> Result<Option<u32>> {
    let ranks = plan.ranks.len();
    match asked {
        Some(rank) if rank as usize >= ranks => {
            Err(Error::Usage(format!("--rank {rank}: expected a rank of plan `{}`, 0 to {}", plan.name, ranks - 1)))
        }
        asked => Ok(asked),
    }
}

/// Loads the plan of a name or a file. A name of an algorithm takes precedence over a file of the same name; `./name`
/// is the file.
///
/// # Errors
/// [`Error::UnknownName`]; for algorithms [`Error::Build`], [`Error::Program`] and [`Error::Memory`]; for files
/// [`Error::Read`], [`Error::TooLong`] beyond 1 GiB, and [`Error::NotAPlan`] with all of its errors.
pub(crate) fn load_with(name: &str, build: &BuildArgs) -> Result<Source> {
    if let Some(artifacts) = artifacts::provided() {
        let plan = artifacts.one(name, build)?.plan.tree();
        return Ok(Source { plan, warnings: Vec::new(), is_file: true });
    }
    if let Some(algorithm) = algorithms::find(name) {
        return Ok(Source { plan: named(algorithm, build, None)?, warnings: Vec::new(), is_file: false });
    }
    let path = Path::new(name);
    let is_path = name == "-" || name.contains(['/', '\\']) || Format::of_path(path).is_some() || path.exists();
    if !is_path {
        let known = algorithms::all().iter().map(BuiltinAlgorithm::name);
        return Err(Error::UnknownName { name: name.to_owned(), suggestions: similar(name, known) });
    }
    file(path)
}

/// Builds an algorithm, with the given number of thread blocks for each part of the data if there is one.
fn named(algorithm: &BuiltinAlgorithm, build: &BuildArgs, blocks: Option<u32>) -> Result<PlanTree> {
    let name = algorithm.name();
    let ranks = build.ranks.unwrap_or(DEFAULT_RANKS);
    // If no node size is supported, the algorithm's own error states its requirements.
    let per_node = || algorithm.ranks_per_node(ranks).unwrap_or(ranks);
    let ranks_per_node = build.ranks_per_node.unwrap_or_else(per_node);
    let mut spec = algorithm.spec(ranks, ranks_per_node);
    if let Some(instances) = build.instances {
        spec.instances = instances;
    }
    if build.out_of_place && algorithm.buffer_mode() == BufferMode::InPlace {
        return Err(Error::Usage(format!("--out-of-place: `{name}` works in place only")));
    }
    if build.in_place || algorithm.buffer_mode() == BufferMode::InPlace {
        spec.collective.in_place = true;
    }
    spec.collective.root = build.root.unwrap_or(0);
    let built = |error| match error {
        BuildError::Program(findings) => Error::Program { name: name.to_owned(), findings },
        other => Error::Build(other.to_string()),
    };
    let given = build.params.iter().map(|param| (param.name.as_str(), param.value));
    let mut arguments = algorithm.arguments(given).map_err(built)?;
    if let Some(blocks) = blocks {
        (spec, arguments) = algorithm.with_parallel_blocks(spec, blocks);
    }
    let _working = Progress::spinner(&format!("building {name} for {ranks} ranks"));
    let what = || format!("the plan of `{name}` for {ranks} ranks");
    // A number of ranks that the algorithm does not support, it rejects itself.
    if algorithm.supports(ranks, ranks_per_node) {
        memory::require(what, to_record(&spec, &arguments))?;
    }
    let instances = u64::from(spec.instances);
    let trace = algorithm.record(spec, &arguments).map_err(built)?;
    memory::require(what, to_lower(&trace).saturating_mul(instances))?;
    lower(&trace).map_err(|findings| built(BuildError::Program(findings)))
}

/// Returns the bytes that recording may use. Every algorithm records a bounded number of operations per pair of ranks,
/// times its chunk factor and its parameters, which are numbers of thread blocks.
fn to_record(spec: &AlgoSpec, arguments: &[usize]) -> u64 {
    /// Maximum bytes per pair over all algorithms, rounded up.
    const PER_PAIR: u64 = 6 << 10;
    let pairs = u64::from(spec.num_ranks).saturating_mul(spec.num_ranks.into());
    let factors = arguments.iter().map(|&argument| argument as u64).chain([u64::from(spec.collective.chunk_factor)]);
    factors.fold(pairs.saturating_mul(PER_PAIR), u64::saturating_mul)
}

/// Returns the bytes that one instance of a lowered plan uses.
fn to_lower(trace: &Trace) -> u64 {
    let references = |op: &Op| op.srcs.len() + op.dsts.len() + op.ids.len();
    let bytes = |op: &Op| size_of::<Op>() + references(op) * size_of::<Operand>();
    trace.ops.iter().map(|recorded| bytes(&recorded.op) as u64).sum()
}

/// Rejects arguments that a plan file contradicts.
fn agree(plan: &PlanTree, build: &BuildArgs) -> Result<()> {
    let usage = |what: String| Err(Error::Usage(what));
    let name = &plan.name;
    let ranks = plan.ranks.len();
    match build {
        BuildArgs { ranks: Some(asked), .. } if *asked as usize != ranks => {
            usage(format!("--ranks {asked}: plan `{name}` is for {ranks} ranks"))
        }
        BuildArgs { ranks_per_node: Some(asked), .. } if *asked != plan.ranks_per_node => {
            usage(format!("--ranks-per-node {asked}: plan `{name}` is for {} ranks per node", plan.ranks_per_node))
        }
        BuildArgs { root: Some(asked), .. } if *asked != plan.collective.root => {
            usage(format!("--root {asked}: the root of plan `{name}` is rank {}", plan.collective.root))
        }
        BuildArgs { in_place: true, .. } if !plan.collective.in_place => {
            usage(format!("--in-place: plan `{name}` works out of place"))
        }
        BuildArgs { out_of_place: true, .. } if plan.collective.in_place => {
            usage(format!("--out-of-place: plan `{name}` works in place"))
        }
        BuildArgs { instances: Some(_), .. } => usage("--instances: the instances of a plan file are fixed".into()),
        BuildArgs { params, .. } if !params.is_empty() => {
            usage(format!("--param {}: the parameters of a plan file are fixed", params[0].name))
        }
        _ => Ok(()),
    }
}

/// Reads the plan of a file: JSON, text, an image, or an algorithm of MSCCL.
///
/// # Errors
/// [`Error::Read`], [`Error::TooLong`] beyond 1 GiB, and [`Error::NotAPlan`] with everything that is wrong.
pub(crate) fn file(path: &Path) -> Result<Source> {
    let file = bytes(path)?;
    if msccl::is_xml(&file) {
        return of_msccl(path, &file);
    }
    let read = if text::is_text(&file) {
        let name = if path.as_os_str() == "-" { "<stdin>".into() } else { path.to_string_lossy() };
        let read = text::decode(&file).and_then(|text| text::parse_file(text, &name));
        read.map(|plan| (plan, Vec::new())).map_err(|error| error.in_file(&name).into())
    } else {
        PlanTree::read(&file, ReadOptions::default())
    };
    match read {
        Ok((plan, warnings)) => Ok(Source { plan, warnings, is_file: true }),
        Err(findings) => Err(Error::NotAPlan { path: path.to_owned(), findings }),
    }
}

/// Reads an algorithm of MSCCL.
fn of_msccl(path: &Path, file: &[u8]) -> Result<Source> {
    let name = if path.as_os_str() == "-" { "<stdin>".into() } else { path.to_string_lossy() };
    match msccl::import(file, &name) {
        Ok(plan) => Ok(Source { plan, warnings: Vec::new(), is_file: true }),
        Err(ImportError::Mistake(mistake)) => Err(Error::Msccl { path: path.to_owned(), mistake }),
        Err(ImportError::Program(findings)) => Err(Error::NotAPlan { path: path.to_owned(), findings }),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let read = match path.as_os_str() == "-" {
        true => to_end(io::stdin().lock()),
        // A descriptor that the caller has opened, such as that of `<(command)` in a shell.
        false if path == Path::new("/dev/stdin") || path.starts_with("/dev/fd") => File::open(path).and_then(to_end),
        false => mscclpp_exec::file::read(path, LONGEST),
    };
    read.map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => Error::TooLong { path: path.to_owned(), limit: LONGEST },
        _ => Error::Read { path: path.to_owned(), source },
    })
}

/// Reads what another process may write, up to the limit.
fn to_end(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LONGEST { Err(ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
