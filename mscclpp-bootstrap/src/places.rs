//! Places of calls as numbers, which threads can exchange through atomics.

use std::fmt;
use std::panic::Location;
use std::sync::{Mutex, PoisonError};

use crate::place;

/// What messages state as the place of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallPlace {
    Location(&'static Location<'static>),
    /// The name of a function in another language.
    Name(&'static str),
}

/// The places of this process, by number. Programs have as many as they have calls in their source.
static PLACES: Mutex<Vec<CallPlace>> = Mutex::new(Vec::new());

/// Number of places that are found without a lock, if their addresses differ in the right bits.
const REMEMBERED: usize = 16;

/// The places that a thread has used last, with their numbers.
#[derive(Default)]
pub struct PlaceNumbers([Option<(CallPlace, u32)>; REMEMBERED]);

impl CallPlace {
    /// Returns the place of a call of this thread at a location.
    #[inline]
    pub fn of(location: &'static Location<'static>) -> Self {
        place::name().map_or(Self::Location(location), Self::Name)
    }

    /// Returns whether this and another one are one place.
    #[inline]
    fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Location(location), Self::Location(other)) => std::ptr::eq(location, other),
            (Self::Name(name), Self::Name(other)) => std::ptr::eq(name, other),
            _ => false,
        }
    }

    #[inline]
    fn address(self) -> usize {
        match self {
            Self::Location(location) => std::ptr::from_ref(location).addr(),
            Self::Name(name) => name.as_ptr().addr(),
        }
    }
}

impl fmt::Display for CallPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Location(location) => location.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl PlaceNumbers {
    /// Returns the number of a place.
    #[inline]
    pub fn of(&mut self, place: CallPlace) -> u32 {
        let slot = &mut self.0[(place.address() / size_of::<Location<'_>>()) % REMEMBERED];
        match *slot {
            Some((last, number)) if last.is(place) => number,
            _ => slot.insert((place, number_of(place))).1,
        }
    }
}

#[cold]
fn number_of(place: CallPlace) -> u32 {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = places.iter().position(|known| known.is(place));
    known.unwrap_or_else(|| {
        places.push(place);
        places.len() - 1
    }) as u32
}

/// Returns the place with a number.
pub fn place(number: u32) -> Option<CallPlace> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).get(number as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_places_are_found_by_any_thread() {
        let all = [here(), here(), here(), CallPlace::Name("a function")];
        let mut numbers = PlaceNumbers::default();
        for _ in 0..2 {
            for at in all {
                let number = numbers.of(at);
                let found = std::thread::spawn(move || place(number)).join().unwrap();
                assert!(found.is_some_and(|found| found.is(at)));
                assert_eq!(PlaceNumbers::default().of(at), number);
            }
        }
        assert!(place(u32::MAX).is_none());
    }

    #[track_caller]
    fn here() -> CallPlace {
        CallPlace::of(Location::caller())
    }
}
