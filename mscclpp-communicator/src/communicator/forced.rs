//! The algorithm that serves a call, if the caller has set one for its collective, or the selector has returned one.

use mscclpp_core::collective::CollectiveKind;

use mscclpp_select::{Choice, DecidedBy, Request};

/// Maximum number of choices that are known. All ranks forget the same ones.
const MAX_CHOICES: usize = 256;

/// The choices of the caller and of the selector so far, whose preparations are kept: a program may set an algorithm before each call, also
/// in a capture, where nothing can be freed.
#[derive(Default)]
pub(in crate::communicator) struct Forced {
    known: Vec<Known>,
    /// Number of choices so far, those that are forgotten included.
    count: Variant,
    /// The caller's choice.
    current: Option<Variant>,
    /// The selector's choice for the current call.
    selected: Option<Variant>,
}

struct Known {
    variant: Variant,
    collective: CollectiveKind,
    choice: Choice,
    by: DecidedBy,
}

/// What distinguishes the preparations of a request: the number of the choice that was set for it, from 1 on, or 0.
pub(in crate::communicator) type Variant = u64;

impl Forced {
    fn find(&self, variant: Option<Variant>, collective: CollectiveKind) -> Option<&Known> {
        let variant = variant?;
        self.known.iter().find(|known| known.variant == variant && known.collective == collective)
    }

    fn of(&self, request: &Request) -> Option<&Known> {
        let of = |variant| self.find(variant, request.collective);
        of(self.current).or_else(|| of(self.selected))
    }

    /// Returns the choice for a request, and whose it is.
    pub(in crate::communicator) fn choice(&self, request: &Request) -> Option<(&Choice, DecidedBy)> {
        self.of(request).map(|known| (&known.choice, known.by))
    }

    /// Returns whether the caller has set a choice for a collective.
    pub(in crate::communicator) fn is_forced(&self, collective: CollectiveKind) -> bool {
        self.find(self.current, collective).is_some()
    }

    /// Returns the variant of a request.
    pub(in crate::communicator) fn variant(&self, request: &Request) -> Variant {
        self.of(request).map_or(0, |known| known.variant)
    }

    /// Describes the choice for a request, to be appended to the request; empty without one.
    pub(in crate::communicator) fn describe(&self, request: &Request) -> String {
        self.of(request).map_or_else(String::new, |Known { choice, by, .. }| {
            let whose = if *by == DecidedBy::Selector { "selector" } else { "caller" };
            let config =
                if choice.config == Default::default() { String::new() } else { format!(" ({})", choice.config) };
            format!(", by `{}`{config} as the {whose} chose", choice.name)
        })
    }

    /// Sets the caller's choice.
    pub(in crate::communicator) fn set(&mut self, choice: Option<(CollectiveKind, Choice)>) {
        self.current = choice.map(|(collective, choice)| self.number(collective, choice, DecidedBy::Forced));
    }

    /// Sets what the selector has returned for the current call.
    pub(in crate::communicator) fn select(&mut self, collective: CollectiveKind, choice: Option<Choice>) {
        self.selected = choice.map(|choice| self.number(collective, choice, DecidedBy::Selector));
    }

    /// Forgets what the selector has returned for the last call.
    #[cfg(feature = "cuda")]
    pub(in crate::communicator) fn forget_selected(&mut self) {
        self.selected = None;
    }

    fn number(&mut self, collective: CollectiveKind, choice: Choice, by: DecidedBy) -> Variant {
        let is_same = |known: &&Known| known.collective == collective && known.choice == choice && known.by == by;
        if let Some(known) = self.known.iter().find(is_same) {
            return known.variant;
        }
        if self.known.len() >= MAX_CHOICES {
            // Their numbers are never used again, and the caller's choice continues.
            self.known.retain(|known| Some(known.variant) == self.current);
        }
        self.count += 1;
        self.known.push(Known { variant: self.count, collective, choice, by });
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mscclpp_base::DataType;

    fn named(number: usize) -> Choice {
        Choice::named(format!("{number}"))
    }

    #[test]
    fn variants_are_those_of_choices_and_never_used_again() {
        let mut forced = Forced::default();
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::F32, 8);
        let other = Request::new(CollectiveKind::AllGather, 2, DataType::F32, 8);
        assert_eq!(forced.variant(&request), 0);
        for number in [0, 1, 0, 1, 2] {
            forced.set(Some((CollectiveKind::AllReduce, named(number))));
            assert_eq!((forced.variant(&request), forced.variant(&other)), (number as Variant + 1, 0));
            assert_eq!(forced.choice(&request), Some((&named(number), DecidedBy::Forced)));
        }
        forced.set(None);
        assert_eq!((forced.variant(&request), forced.choice(&request)), (0, None));
        (3..=MAX_CHOICES).for_each(|number| forced.set(Some((CollectiveKind::AllReduce, named(number)))));
        assert_eq!(forced.variant(&request), MAX_CHOICES as Variant + 1);
        forced.set(Some((CollectiveKind::AllReduce, named(0))));
        assert_eq!(forced.variant(&request), MAX_CHOICES as Variant + 2);
    }

    #[test]
    fn choice_of_the_caller_precedes_that_of_the_selector() {
        let mut forced = Forced::default();
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::F32, 8);
        forced.select(request.collective, Some(named(1)));
        assert_eq!(forced.choice(&request), Some((&named(1), DecidedBy::Selector)));
        assert_eq!(forced.describe(&request), ", by `1` as the selector chose");
        forced.set(Some((request.collective, named(2))));
        assert_eq!((forced.variant(&request), forced.is_forced(request.collective)), (2, true));
        // Also when the choices of the selector are forgotten.
        (3..=2 * MAX_CHOICES).for_each(|number| forced.select(request.collective, Some(named(number))));
        assert_eq!(forced.choice(&request), Some((&named(2), DecidedBy::Forced)));
        forced.set(None);
        forced.select(request.collective, None);
        assert_eq!(forced.describe(&request), "");
    }
}
