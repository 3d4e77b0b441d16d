//! The algorithm that serves all calls of a collective, if one was set.

use mscclpp_core::collective::CollectiveKind;

use mscclpp_select::{Choice, Request};

/// Maximum number of choices whose preparations are kept. All ranks forget the same ones.
const MAX_CHOICES: usize = 256;

/// The choice that was set, and those before it, whose preparations are kept: a program may set an algorithm before each call, also in a
/// capture, where nothing can be freed.
#[derive(Default)]
pub(in crate::communicator) struct Forced {
    known: Vec<(CollectiveKind, Choice)>,
    /// Index of the current one among them.
    current: Option<usize>,
}

/// What distinguishes the preparations of a request: the number of the choice that was set for it, from 1 on, or 0.
pub(in crate::communicator) type Variant = u32;

impl Forced {
    /// Returns the choice.
    pub(in crate::communicator) fn choice(&self) -> Option<&(CollectiveKind, Choice)> {
        self.current.and_then(|current| self.known.get(current))
    }

    /// Returns the variant of a request.
    pub(in crate::communicator) fn variant(&self, request: &Request) -> Variant {
        let current = self.current.filter(|current| self.known[*current].0 == request.collective);
        current.map_or(0, |current| current as Variant + 1)
    }

    /// Sets the choice. Returns whether all preparations have to be dropped, because there are too many choices.
    pub(in crate::communicator) fn set(&mut self, choice: Option<(CollectiveKind, Choice)>) -> bool {
        let Some(choice) = choice else {
            self.current = None;
            return false;
        };
        let found = self.known.iter().position(|known| *known == choice);
        let is_full = found.is_none() && self.known.len() >= MAX_CHOICES;
        if is_full {
            self.known.clear();
        }
        self.current = found.or_else(|| {
            self.known.push(choice);
            Some(self.known.len() - 1)
        });
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mscclpp_base::DataType;

    #[test]
    fn variants_are_those_of_choices_until_there_are_too_many() {
        let mut forced = Forced::default();
        let request = Request::new(CollectiveKind::AllReduce, 2, DataType::F32, 8);
        let other = Request::new(CollectiveKind::AllGather, 2, DataType::F32, 8);
        let named = |number: usize| Some((CollectiveKind::AllReduce, Choice::named(format!("{number}"))));
        assert_eq!(forced.variant(&request), 0);
        for number in [0, 1, 0, 1, 2] {
            assert!(!forced.set(named(number)));
            assert_eq!((forced.variant(&request), forced.variant(&other)), (number as Variant + 1, 0));
            assert_eq!(forced.choice(), named(number).as_ref());
        }
        assert!(!forced.set(None) && forced.variant(&request) == 0 && forced.choice().is_none());
        assert!((3..MAX_CHOICES).all(|number| !forced.set(named(number))));
        assert!(forced.set(named(MAX_CHOICES)));
        assert_eq!(forced.variant(&request), 1);
    }
}
