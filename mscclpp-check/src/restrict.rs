//! Plans that are right at dividing counts only.

use super::{Checks, counts};
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::raw::PlanTree;

impl Checks {
    /// Checks a plan as [`run`](Self::run) does, but accepts a plan that loses data only at counts that do not divide
    /// evenly, as a plan for dividing counts: sets [`dividing`](mscclpp_plan::collective::Collective::dividing), and returns the
    /// finding as a warning.
    ///
    /// This is for plans from files, whose formats may have no key for the restriction. A program states it.
    ///
    /// # Errors
    /// The findings, if the plan is wrong at dividing counts as well.
    #[doc(hidden)]
    pub fn run_or_restrict(&self, plan: &mut PlanTree) -> Result<Option<Diagnostic>, Diagnostics> {
        let found = self.run(plan);
        let Some(first) = found.iter().next().cloned() else { return Ok(None) };
        if found.iter().any(|finding| finding.code != Code::ShortChunk) {
            return Err(found);
        }
        plan.collective.dividing = true;
        let at_dividing_counts = self.run(plan);
        if !at_dividing_counts.is_empty() {
            plan.collective.dividing = false;
            return Err(at_dividing_counts);
        }
        let message = format!("accepted for {} only: {}", dividing_counts(plan), first.message);
        Ok(Some(Diagnostic { message, ..first }))
    }
}

/// Returns a description of the counts that a plan for dividing counts takes, such as `counts that divide by 4, in chunks
/// of whole 16 bytes`.
pub fn dividing_counts(plan: &PlanTree) -> String {
    let (parts, chunks) = counts::parts(plan);
    let all = parts.saturating_mul(chunks.into());
    match plan.buffer_alignment {
        0 | 1 => format!("counts that divide by {all}"),
        bytes => format!("counts that divide by {all}, in chunks of whole {bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Checks, LoadPlan};
    use mscclpp_plan::Plan;
    use mscclpp_plan::diag::Code;
    use mscclpp_plan::raw::PlanTree;

    const STAGED: &str = "plan staged\ncollective custom 2 -> 2\nranks 1\nbuffer_alignment 1\n\
        expect rank 0 output[0] = rank 0 input[0]\nexpect rank 0 output[1] = rank 0 input[1]\n\
        rank 0 (input 2, output 2, scratch 0) {\n  block 0:\n    copy output[1] <- input[0]\n    nop\n    \
        copy output[0] <- output[1]\n    nop\n    copy output[1] <- input[1]\n}\n";

    fn read(text: &str) -> PlanTree {
        PlanTree::read(text.as_bytes(), Default::default()).expect("a plan").0
    }

    #[test]
    fn plan_that_loses_data_at_uneven_counts_only_is_restricted() {
        let mut plan = read(STAGED);
        let found = Checks::default().run(&plan);
        assert!(found.iter().map(|finding| finding.code).eq([Code::ShortChunk]), "{found}");
        let warning = Checks::default().run_or_restrict(&mut plan).expect("a right plan").expect("a warning");
        assert!(warning.message.starts_with("accepted for counts that divide by 2 only: `copy`"), "{warning:?}");
        assert!(warning.message.contains(": at 1 element, elements of it are lost"), "{warning:?}");
        assert!(plan.collective.dividing);
        // All formats keep it.
        let plan = Plan::new(&plan);
        for file in mscclpp_plan::Format::ALL.map(|format| plan.to_bytes(format)) {
            assert!(Plan::load(&file).expect("a right plan").collective().dividing);
        }
    }

    #[test]
    fn loading_restricts_and_warns() {
        let (plan, warnings) = Plan::load_with_options(STAGED.as_bytes(), &Default::default()).expect("a right plan");
        assert!(plan.collective().dividing);
        assert!(warnings.iter().map(|warning| warning.code).eq([Code::ShortChunk]), "{warnings:?}");
    }

    #[test]
    fn wrong_plan_is_not_restricted() {
        let wrong = STAGED.replace("output[1] <- input[1]", "output[1] <- input[0]");
        let mut plan = read(&wrong);
        let found = Checks::default().run_or_restrict(&mut plan).unwrap_err();
        assert!(found.iter().any(|finding| finding.code == Code::WrongResult), "{found}");
        assert!(!plan.collective.dividing);
    }
}
