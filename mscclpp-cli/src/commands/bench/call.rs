//! What a bench measures: a collective by its name, or the one of a plan.

use std::ops::Deref;

use mscclpp_algorithms as algorithms;
use mscclpp_bootstrap::Environment;
use mscclpp_core::check::Checks;
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Plan;
use mscclpp_core::types::ReduceOp;
use mscclpp_select::{Algorithm, CALLS, Registry};

use super::planless::PlanlessCall;
use crate::args::{BenchArgs, BuildArgs, collective};
use crate::commands::check::restricted;
use crate::error::{Error, Result};
use crate::output::warn;
use crate::{artifacts, source};

/// The arguments, with what a plan has fixed in its place.
pub(super) struct Call {
    args: BenchArgs,
    /// What is measured.
    pub(super) collective: CollectiveKind,
    /// The plan of `--plan`, if it is a file's or an artifact's and not an algorithm's.
    loaded: Option<Plan>,
}

impl Deref for Call {
    type Target = BenchArgs;

    fn deref(&self) -> &BenchArgs {
        &self.args
    }
}

impl Call {
    /// Reads the plan, if one is asked for, and checks it.
    ///
    /// # Errors
    /// [`Error::Usage`] for a collective without a call, and for arguments that the plan contradicts; what loading brings;
    /// [`Error::Findings`] for a plan that is not accepted.
    pub(super) fn new(args: &BenchArgs) -> Result<Self> {
        let asked = match &args.collective {
            Some(name) => Some(collective(name).map_err(|error| {
                let others = PlanlessCall::ALL.map(PlanlessCall::name).join(", ");
                Error::Usage(format!(
                    "invalid value '{name}' for '[COLLECTIVE]': {error}, {others}\n         help: a plan is measured with --plan"
                ))
            })?),
            None => None,
        };
        let mut args = args.clone();
        let loaded = match &args.plan {
            Some(name) if is_plan(name) => Some(load(name, &args)?),
            _ => None,
        };
        let collective = match (&loaded, asked) {
            (Some(plan), asked) => fix(&mut args, plan, asked)?,
            (None, Some(collective)) => collective,
            (None, None) => {
                let name = args.plan.clone().unwrap_or_default();
                match algorithms::find(&name) {
                    Some(algorithm) => algorithm.kind(),
                    // The same error as for other commands.
                    None => source::load_with(&name, &BuildArgs::default())?.warned().collective.kind,
                }
            }
        };
        Ok(Self { args, collective, loaded })
    }

    /// Adds the plan to a registry, under the name that `--plan` has.
    pub(super) fn register(&self, registry: &mut Registry) -> Result<()> {
        if let (Some(plan), Some(name)) = (&self.loaded, &self.args.plan) {
            let algorithm = Algorithm::plan(plan.clone()).with_name(name);
            registry.add(algorithm).map_err(|error| Error::Usage(error.to_string()))?;
        }
        Ok(())
    }

    /// Returns the number of ranks per node where all of `num_ranks` ranks are tasks: that of the plan, otherwise all.
    pub(super) fn ranks_per_node(&self, num_ranks: u32) -> u32 {
        self.loaded.as_ref().map_or(num_ranks, Plan::ranks_per_node)
    }

    /// Whether there is a plan to register.
    pub(super) fn has_plan(&self) -> bool {
        self.loaded.is_some()
    }
}

/// Whether `--plan` is not the name of an algorithm.
fn is_plan(name: &str) -> bool {
    artifacts::provided().is_some()
        || algorithms::find(name).is_none()
            && (name == "-" || name.contains(['/', '\\', '.']) || std::path::Path::new(name).exists())
}

fn load(name: &str, args: &BenchArgs) -> Result<Plan> {
    let build = BuildArgs { ranks: args.ranks, in_place: args.in_place, ..BuildArgs::default() };
    let mut plan = source::load_with(name, &build)?.warned();
    match restricted(&mut plan, &Checks::default()) {
        Ok(warning) => {
            warning.iter().for_each(warn);
            Ok(Plan::new(&plan))
        }
        Err(findings) => {
            let what = format!("plan `{}` was not measured: {} found", plan.name, findings.len());
            Err(Error::Findings { what, findings })
        }
    }
}

/// Puts what the plan fixes into the arguments, or refuses them.
fn fix(args: &mut BenchArgs, plan: &Plan, asked: Option<CollectiveKind>) -> Result<CollectiveKind> {
    let (name, collective) = (plan.name().to_owned(), plan.collective());
    let usage = |what: String| Err(Error::Usage(what));
    let kind = collective.kind;
    if !CALLS.iter().any(|(_, call)| *call == kind) {
        return usage(format!(
            "plan `{name}` is of collective {}, for which there is no call to measure; `mscclpp run` times its launches",
            kind.name()
        ));
    }
    if let Some(asked) = asked.filter(|asked| *asked != kind) {
        return usage(format!("plan `{name}` is of collective {}, found {}", kind.name(), asked.name()));
    }
    if args.in_place && !collective.in_place {
        return usage(format!("--in-place: plan `{name}` works out of place"));
    }
    args.in_place = collective.in_place;
    let ranks = plan.num_ranks();
    let given = args.ranks.iter().chain(&args.virtual_ranks).copied().find(|given| *given != ranks);
    if let Some(given) = given {
        return usage(format!("plan `{name}` is for {ranks} ranks, found {given}"));
    }
    // Without ranks of a launcher or of an option, those of the plan are tasks of this process.
    let is_alone = args.ranks.is_none() && !args.unregistered && Environment::launcher().is_none();
    if args.virtual_ranks.is_empty() && (args.backend == crate::args::Backend::Cuda || is_alone) {
        args.virtual_ranks = vec![ranks];
    }
    if let [op] = plan.tree().reductions()[..]
        && args.rooted.call.op == ReduceOp::Sum
    {
        args.rooted.call.op = op;
    }
    if matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce) && args.rooted.root == 0 {
        args.rooted.root = collective.root;
    }
    // Sizes outside the range of the plan are omitted; the code that counts sizes reports if none is left.
    args.begin = args.begin.max(plan.min_message_size());
    args.end = args.end.min(plan.max_message_size());
    if args.begin > args.end {
        let (least, most) = (plan.min_message_size(), plan.max_message_size());
        return usage(format!(
            "plan `{name}` is for messages of {least} to {most} bytes, but none of these sizes is requested"
        ));
    }
    Ok(kind)
}
