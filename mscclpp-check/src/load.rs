//! Loads plans from outside: they are read, and checked before anything executes them.

use super::{Checks, Level};
use mscclpp_plan::Plan;
use mscclpp_plan::diag::{Diagnostic, Diagnostics};
use mscclpp_plan::json::ReadOptions;
use mscclpp_plan::raw::PlanTree;

/// Options of loading a plan.
///
/// The defaults suit files from any source: unknown keys are warnings, and all checks are made.
/// [`LoadOptions::unchecked`] loads a plan without checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadOptions {
    /// Whether keys that the format does not have are errors. They are warnings otherwise.
    pub strict: bool,
    /// The checks to make.
    pub checks: Checks,
}

impl LoadOptions {
    /// Returns options with which a plan is only read, not checked.
    pub fn unchecked() -> Self {
        Self { checks: Checks { level: Level::Off, allow: Vec::new() }, ..Self::default() }
    }

    /// Returns these options with unknown keys as errors or as warnings.
    #[must_use]
    pub fn strict(self, strict: bool) -> Self {
        Self { strict, ..self }
    }

    /// Returns these options with other checks.
    #[must_use]
    pub fn checks(self, checks: Checks) -> Self {
        Self { checks, ..self }
    }
}

/// Loads plans. For [`Plan`] only.
pub trait LoadPlan: Sized {
    /// Loads a plan from the bytes of a file: MSCCL++ JSON, [text](mscclpp_plan::text), or an image. Makes all checks.
    ///
    /// # Cost
    /// Reading is linear in the length; [`check`](fn@crate::check) documents the cost of the checks.
    ///
    /// # Errors
    /// The errors of reading the bytes; if there are none, the findings of the checks.
    fn load(bytes: &[u8]) -> Result<Self, Diagnostics>;

    /// Loads a plan as [`load`](Self::load) does, with other checks. Returns the plan and the warnings.
    ///
    /// A plan that loses data only at counts that do not divide evenly is loaded as one for
    /// [dividing](mscclpp_plan::collective::Collective::dividing) counts, with a warning.
    ///
    /// # Errors
    /// The errors of [`load`](Self::load), except those of checks that the options omit.
    fn load_with_options(bytes: &[u8], options: &LoadOptions) -> Result<(Self, Vec<Diagnostic>), Diagnostics>;
}

impl LoadPlan for Plan {
    fn load(bytes: &[u8]) -> Result<Self, Diagnostics> {
        Self::load_with_options(bytes, &LoadOptions::default()).map(|(plan, _)| plan)
    }

    fn load_with_options(bytes: &[u8], options: &LoadOptions) -> Result<(Self, Vec<Diagnostic>), Diagnostics> {
        let (mut tree, mut warnings) = PlanTree::read(bytes, ReadOptions::default().strict(options.strict))?;
        warnings.extend(options.checks.run_or_restrict(&mut tree)?);
        Ok((Self::new(&tree), warnings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mscclpp_core::dsl::Program;
    use mscclpp_core::lower::lower;
    use mscclpp_core::spec::AlgoSpec;
    use mscclpp_plan::collective::CollectiveKind;
    use mscclpp_plan::diag::Code;
    use mscclpp_plan::raw::OpKind;
    use mscclpp_plan::types::BlockSync;
    use mscclpp_plan::{Format, json};

    fn swap() -> PlanTree {
        let program = Program::new(AlgoSpec::new("swap", CollectiveKind::SendRecv, 2));
        for rank in program.ranks() {
            let peer = program.rank(1 - rank.id());
            let channel = rank.memory_channel(peer);
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.put(peer.output().chunk(0), rank.input().chunk(0), 0);
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
        }
        lower(&program.finish().unwrap()).unwrap()
    }

    /// The files that hold a plan.
    fn files(tree: &PlanTree) -> [Vec<u8>; 3] {
        Format::ALL.map(|format| Plan::new(tree).to_bytes(format))
    }

    #[test]
    fn right_plans_load_from_all_formats() {
        let tree = swap();
        for file in files(&tree) {
            assert_eq!(Plan::load(&file).unwrap().image(), Plan::new(&tree).image());
        }
    }

    #[test]
    fn wrong_plans_load_only_if_nobody_asks() {
        let mut tree = swap();
        let ops = &mut tree.ranks[1].blocks[0].ops;
        let last = ops.iter().rposition(|op| op.kind == OpKind::Signal).unwrap();
        ops.remove(last);
        for file in files(&tree) {
            let found = Plan::load(&file).unwrap_err();
            assert!(found.iter().all(|finding| finding.code == Code::UnmatchedWait), "{found}");
            assert!(Plan::load_with_options(&file, &LoadOptions::unchecked()).is_ok());
            let checks = Checks { level: Level::Basic, allow: vec![Code::UnmatchedWait] };
            assert!(Plan::load_with_options(&file, &LoadOptions { checks, ..LoadOptions::default() }).is_ok());
        }
    }

    #[test]
    fn unknown_keys_are_warnings_unless_strict() {
        let text = json::write(&swap(), json::Style::Compact).replacen('{', "{\"colour\": 1,", 1);
        let (_, warnings) = Plan::load_with_options(text.as_bytes(), &LoadOptions::default()).unwrap();
        assert!(warnings.len() == 1 && warnings[0].code == Code::UnknownKey);
        let strict = LoadOptions { strict: true, ..LoadOptions::default() };
        let found = Plan::load_with_options(text.as_bytes(), &strict).unwrap_err();
        assert!(found.iter().any(|finding| finding.code == Code::UnknownKey), "{found}");
    }

    #[test]
    fn bytes_that_are_no_plan_say_so() {
        let [.., mut image] = files(&swap());
        let middle = image.len() / 2;
        image[middle] ^= 1;
        assert_eq!(Plan::load(&image).unwrap_err().iter().next().unwrap().code, Code::BadImage);
        assert_eq!(Plan::load(b"").unwrap_err().iter().next().unwrap().code, Code::NotJson);
        assert_eq!(Plan::load(&[0xff, 0]).unwrap_err().iter().next().unwrap().code, Code::NotJson);
        for text in [b"plan".as_slice(), b"plan \xff", b"; nothing"] {
            assert_eq!(Plan::load(text).unwrap_err().iter().next().unwrap().code, Code::NotPlanText);
        }
    }
}
