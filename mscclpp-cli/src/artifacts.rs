//! Plans that programs and libraries contain: found by their images, addressed by name.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

use mscclpp_algorithms as algorithms;
use mscclpp_core::diag::closest_name;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::image::EmbeddedPlans;
use mscclpp_exec::file;

use crate::args::BuildArgs;
use crate::error::{Error, Result};
use crate::output::warn;
use crate::progress::Progress;

/// The longest file that is searched, in bytes.
const LONGEST: u64 = 4 << 30;

/// Digits of a plan's hash in its address.
const HASH_DIGITS: usize = 8;

/// A plan and where it was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) plan: Plan,
    /// The files or targets that contain it, each once.
    pub(crate) places: Vec<String>,
}

impl Found {
    /// The beginning of the plan's hash.
    pub(crate) fn hash(&self) -> String {
        format!("{:032x}", self.plan.hash())[..HASH_DIGITS].to_owned()
    }

    /// `2 ranks, in place`.
    fn form(&self) -> String {
        let ranks = self.plan.num_ranks();
        let placement = if self.plan.collective().in_place { "in place" } else { "out of place" };
        format!("{ranks} rank{}, {placement}", if ranks == 1 { "" } else { "s" })
    }
}

/// The plans of some artifacts, each once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Artifacts {
    pub(crate) plans: Vec<Found>,
    /// Hashes of the plans of the library's own algorithms, which every program that makes collective calls contains.
    builtin: BTreeSet<u128>,
    /// What was searched.
    searched: Vec<String>,
    /// Why the first bytes that begin like a plan are none.
    rejected: Option<String>,
}

/// The plans that names refer to instead of algorithms and files.
static ARTIFACTS: OnceLock<Artifacts> = OnceLock::new();

impl Artifacts {
    /// Adds the plans of a file, which messages call `place`.
    ///
    /// # Errors
    /// [`Error::Read`]; [`Error::Usage`] beyond 4 GiB.
    pub(crate) fn add_file(&mut self, path: &Path, place: &str) -> Result<()> {
        let _working = Progress::spinner(&format!("searching {}", path.display()));
        let bytes = file::read(path, LONGEST).map_err(|source| match source.kind() {
            ErrorKind::FileTooLarge => {
                Error::Usage(format!("`{}` holds more than 4 GiB, the most that is searched for plans", path.display()))
            }
            _ => Error::Read { path: path.to_owned(), source },
        })?;
        self.add(&bytes, place);
        Ok(())
    }

    /// Adds the plans that bytes contain.
    pub(crate) fn add(&mut self, bytes: &[u8], place: &str) {
        let EmbeddedPlans { plans, rejected, is_complete, .. } = Plan::embedded_in(bytes);
        if !is_complete {
            warn(format_args!(
                "{place} was searched only in part: it contains too many bytes that begin like a plan image"
            ));
        }
        let builtin: BTreeSet<u128> =
            algorithms::all().iter().flat_map(|algorithm| algorithm.plans()).map(Plan::hash).collect();
        for plan in plans {
            match builtin.contains(&plan.hash()) {
                true => drop(self.builtin.insert(plan.hash())),
                false => self.add_plan(plan, place),
            }
        }
        if let Some((at, error)) = rejected.into_iter().next() {
            self.rejected.get_or_insert(format!("{place}, byte {at}: {error}"));
        }
        self.searched.push(place.to_owned());
    }

    /// Adds a plan, unless it is there already.
    pub(crate) fn add_plan(&mut self, plan: Plan, place: &str) {
        match self.plans.iter_mut().find(|found| found.plan == plan) {
            Some(known) if known.places.iter().any(|known| known == place) => {}
            Some(known) => known.places.push(place.to_owned()),
            None => self.plans.push(Found { plan, places: vec![place.to_owned()] }),
        }
    }

    /// Returns the number of plans of built-in algorithms, which are omitted.
    pub(crate) fn num_builtin(&self) -> usize {
        self.builtin.len()
    }

    /// Refuses artifacts without plans, and warns of images that are none.
    ///
    /// # Errors
    /// [`Error::NoPlans`].
    pub(crate) fn require_plans(&self) -> Result<()> {
        if self.plans.is_empty() {
            let (searched, rejected) = (self.searched.clone(), self.rejected.clone());
            return Err(Error::NoPlans { searched, rejected, builtin: self.num_builtin() });
        }
        if let Some(rejected) = &self.rejected {
            warn(rejected);
        }
        Ok(())
    }

    /// The plans that `NAME` or `NAME@HASH` refers to, at least one.
    ///
    /// # Errors
    /// [`Error::NotEmbedded`].
    pub(crate) fn named(&self, address: &str) -> Result<Vec<&Found>> {
        let (name, hash) = address.rsplit_once('@').unwrap_or((address, ""));
        let is_meant =
            |found: &&Found| found.plan.name() == name && format!("{:032x}", found.plan.hash()).starts_with(hash);
        let plans: Vec<_> = self.plans.iter().filter(is_meant).collect();
        if plans.is_empty() {
            let of_name: Vec<_> = self.plans.iter().filter(|found| found.plan.name() == name).collect();
            let suggestion = match of_name.first() {
                Some(found) => Some(format!("{name}@{}", found.hash())),
                None => closest_name(name, self.plans.iter().map(|found| found.plan.name())).map(Into::into),
            };
            return Err(Error::NotEmbedded {
                name: address.to_owned(),
                suggestion,
                known: self.listed(self.plans.iter()),
            });
        }
        Ok(plans)
    }

    /// The only plan that an address and arguments refer to.
    ///
    /// # Errors
    /// [`Error::NotEmbedded`]; [`Error::Usage`] if there are several.
    pub(crate) fn one(&self, address: &str, build: &BuildArgs) -> Result<&Found> {
        let named = self.named(address)?;
        let fits = |found: &&Found| {
            let plan = &found.plan;
            build.ranks.is_none_or(|ranks| ranks == plan.num_ranks())
                && build.ranks_per_node.is_none_or(|ranks| ranks == plan.ranks_per_node())
                && build.root.is_none_or(|root| root == plan.collective().root)
                && (!build.in_place || plan.collective().in_place)
                && (!build.out_of_place || !plan.collective().in_place)
        };
        let fitting: Vec<_> = named.iter().copied().filter(fits).collect();
        match (&named[..], &fitting[..]) {
            // What contradicts it is said by the caller, as for a file.
            ([only], _) | (_, [only]) => Ok(only),
            (all, []) => Err(Error::Usage(format!(
                "no plan `{address}` is as asked for; there are {}",
                self.listed(all.iter().copied())
            ))),
            (_, several) => Err(Error::Usage(format!(
                "`{address}` names {} plans: {}; choose one with --ranks or by NAME@HASH",
                several.len(),
                self.listed(several.iter().copied())
            ))),
        }
    }

    /// The address of a plan: its name, and its hash if another plan has the same name.
    pub(crate) fn address(&self, found: &Found) -> String {
        let name = found.plan.name();
        match self.plans.iter().filter(|other| other.plan.name() == name).count() {
            1 => name.to_owned(),
            _ => format!("{name}@{}", found.hash()),
        }
    }

    /// `a (2 ranks, in place), b@0123abcd (…)`, cut after eight.
    fn listed<'a>(&self, plans: impl Iterator<Item = &'a Found>) -> String {
        let plans: Vec<_> = plans.collect();
        let mut text = String::new();
        for (at, found) in plans.iter().take(8).enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}`{}` ({})", self.address(found), found.form());
        }
        if plans.len() > 8 {
            let _ = write!(text, " and {} more", plans.len() - 8);
        }
        text
    }
}

/// Makes names refer to these plans from now on.
pub(crate) fn provide(artifacts: Artifacts) {
    // Once in a process: what is set first stays.
    let _ = ARTIFACTS.set(artifacts);
}

/// What names refer to instead of algorithms and files.
pub(crate) fn provided() -> Option<&'static Artifacts> {
    ARTIFACTS.get()
}

#[cfg(test)]
mod tests {
    use mscclpp_algorithms as algorithms;

    use super::*;

    /// A plan that is not one of the library's.
    fn plan(name: &str, ranks: u32) -> Plan {
        let algorithm = algorithms::find(name).expect("an algorithm");
        let trace = algorithm
            .record(algorithm.spec(ranks, ranks), &algorithm.arguments([]).expect("defaults"))
            .expect("a program");
        let tree = mscclpp_core::lower::lower(&trace).expect("a plan");
        Plan::new(&mscclpp_core::plan::raw::PlanTree { name: format!("own_{name}"), ..tree })
    }

    fn two_sizes() -> Artifacts {
        let mut artifacts = Artifacts::default();
        let bytes = [plan("allreduce_ring", 2), plan("allreduce_ring", 3), plan("broadcast_scatter", 2)]
            .map(|plan| plan.image().to_vec())
            .concat();
        artifacts.add(&bytes, "example a");
        artifacts.add(&bytes, "library b");
        artifacts
    }

    #[test]
    fn plans_in_several_artifacts_are_listed_once() {
        let artifacts = two_sizes();
        assert_eq!(artifacts.plans.len(), 3);
        assert!(artifacts.plans.iter().all(|found| found.places == ["example a", "library b"]));
    }

    #[test]
    fn names_hashes_and_ranks_choose_a_plan() {
        let artifacts = two_sizes();
        let any = BuildArgs::default();
        assert_eq!(artifacts.one("own_broadcast_scatter", &any).expect("one").plan.num_ranks(), 2);
        let three = BuildArgs { ranks: Some(3), ..any.clone() };
        let found = artifacts.one("own_allreduce_ring", &three).expect("one");
        assert_eq!(found.plan.num_ranks(), 3);
        assert_eq!(artifacts.one(&artifacts.address(found), &any).expect("one").plan, found.plan);
        let error = artifacts.one("own_allreduce_ring", &any).expect_err("two").to_string();
        assert!(error.starts_with("`own_allreduce_ring` names 2 plans: `own_allreduce_ring@"), "{error}");
        let four = BuildArgs { ranks: Some(4), ..any.clone() };
        let error = artifacts.one("own_allreduce_ring", &four).expect_err("none").to_string();
        assert!(
            error.starts_with("no plan `own_allreduce_ring` is as asked for; there are `own_allreduce_ring@"),
            "{error}"
        );
        let error = artifacts.one("own_allreduce_rnig", &any).expect_err("none").to_string();
        assert!(error.contains("a similar name exists: `own_allreduce_ring`"), "{error}");
    }

    #[test]
    fn artifacts_without_plans_say_why() {
        let mut artifacts = Artifacts::default();
        artifacts.add(b"no plan here", "bin x");
        let image = plan("allreduce_ring", 2).image().to_vec();
        artifacts.add(&image[..image.len() - 1], "bin y");
        let error = artifacts.require_plans().expect_err("no plans").to_string();
        assert!(error.starts_with("no plan in bin x, bin y"), "{error}");
        assert!(error.contains("bin y, byte 0: plan image of "), "{error}");
    }

    #[test]
    fn plans_of_the_library_are_left_out() {
        let shipped = &algorithms::find("allreduce_ring").expect("an algorithm").plans()[0];
        let mut artifacts = Artifacts::default();
        artifacts.add(shipped.image(), "bin x");
        let error = artifacts.require_plans().expect_err("no plans").to_string();
        assert!(error.starts_with("no plan in bin x apart from 1 of the library's algorithms"), "{error}");
        artifacts.add(plan("allreduce_ring", 2).image(), "bin x");
        assert_eq!((artifacts.plans.len(), artifacts.num_builtin()), (1, 1));
    }
}
