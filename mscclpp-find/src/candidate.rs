//! Plans that may be the fastest.

use std::sync::Arc;

use mscclpp_algorithms::BuiltinAlgorithm;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_core::spec::AlgoSpec;

use crate::source::of_builtin;
use crate::trees::{TreePlan, Windows};

/// A plan, and how to build it.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(crate) plan: PlanTree,
    pub(crate) origin: Origin,
}

/// What a candidate is built from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A built-in algorithm.
    Builtin { algorithm: &'static BuiltinAlgorithm, spec: AlgoSpec, arguments: Vec<usize>, parallel_blocks: u32 },
    /// Packed trees.
    Trees { trees: Arc<TreePlan>, spec: AlgoSpec, windows: Windows },
}

impl Origin {
    /// Builds the plan; `None` if it cannot be built so.
    pub(crate) fn build(&self) -> Option<PlanTree> {
        let trace = match self {
            Self::Builtin { algorithm, spec, arguments, .. } => algorithm.record(spec.clone(), arguments).ok()?,
            Self::Trees { trees, spec, windows } => {
                let program = Program::new(spec.clone());
                trees.record(&program, *windows);
                program.finish().ok()?
            }
        };
        lower(&trace).ok()
    }

    /// Returns the name of the algorithm, and whether input and output are one buffer.
    pub(crate) fn algorithm(&self) -> (&str, bool) {
        let (Self::Builtin { spec, .. } | Self::Trees { spec, .. }) = self;
        (&spec.name, spec.collective.in_place)
    }
}

/// Returns the largest number of thread blocks of a rank.
pub(crate) fn num_blocks(plan: &PlanTree) -> u32 {
    plan.ranks.iter().map(|rank| rank.blocks.len() as u32).max().unwrap_or(0)
}

impl Candidate {
    /// Returns the plan.
    pub fn plan(&self) -> &PlanTree {
        &self.plan
    }

    /// Returns the name of the algorithm.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Returns the largest number of thread blocks of a rank.
    pub fn num_blocks(&self) -> u32 {
        num_blocks(&self.plan)
    }

    /// Returns the name of the built-in algorithm and the number of thread blocks that share each of its transfers, as tuning tables have them;
    /// `None` for packed trees.
    pub fn builtin(&self) -> Option<(&'static str, u32)> {
        match &self.origin {
            Origin::Builtin { algorithm, parallel_blocks, .. } => Some((algorithm.name(), *parallel_blocks)),
            Origin::Trees { .. } => None,
        }
    }

    /// Describes how the algorithm was built.
    pub fn config(&self) -> String {
        match &self.origin {
            Origin::Builtin { parallel_blocks, .. } => format!("blocks {parallel_blocks}"),
            Origin::Trees { trees, spec, windows: Windows { unit, gets } } => {
                let sides = match (trees.can_get(), gets) {
                    (false, _) => "",
                    (true, false) => ", parents put",
                    (true, true) => ", children get",
                };
                format!("instances {}, windows of {} KiB{sides}", spec.instances, unit >> 10)
            }
        }
    }

    /// Returns a file with a `#[collective]` function that compiles to the plan. `about` are lines that say what it is.
    pub fn source(&self, about: &[String]) -> String {
        match &self.origin {
            Origin::Builtin { algorithm, spec, arguments, .. } => of_builtin(algorithm, spec, arguments, about),
            Origin::Trees { trees, spec, windows } => trees.source(spec, *windows, about),
        }
    }
}
