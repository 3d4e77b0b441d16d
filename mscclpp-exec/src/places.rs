//! Source locations as numbers, which threads can exchange through atomics.

use std::panic::Location;
use std::sync::{Mutex, PoisonError};

/// The locations of this process, by number. Programs have as many as they have calls in their source.
static PLACES: Mutex<Vec<&'static Location<'static>>> = Mutex::new(Vec::new());

/// Number of locations that are found without a lock, if their addresses differ in the right bits.
const REMEMBERED: usize = 16;

/// The locations that a thread has used last, with their numbers.
#[derive(Default)]
pub(crate) struct PlaceNumbers([Option<(&'static Location<'static>, u32)>; REMEMBERED]);

impl PlaceNumbers {
    /// Returns the number of a location.
    #[inline]
    pub(crate) fn of(&mut self, place: &'static Location<'static>) -> u32 {
        let slot = &mut self.0[(std::ptr::from_ref(place).addr() / size_of::<Location<'_>>()) % REMEMBERED];
        match *slot {
            Some((last, number)) if std::ptr::eq(last, place) => number,
            _ => slot.insert((place, number_of(place))).1,
        }
    }
}

#[cold]
fn number_of(place: &'static Location<'static>) -> u32 {
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = places.iter().position(|known| std::ptr::eq(*known, place));
    known.unwrap_or_else(|| {
        places.push(place);
        places.len() - 1
    }) as u32
}

/// Returns the location with a number.
pub(crate) fn location(number: u32) -> Option<&'static Location<'static>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner).get(number as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_locations_are_found_by_any_thread() {
        let all = [Location::caller(), here(), here(), here()];
        let mut numbers = PlaceNumbers::default();
        for _ in 0..2 {
            for at in all {
                let number = numbers.of(at);
                assert_eq!(std::thread::spawn(move || location(number)).join().unwrap(), Some(at));
                assert_eq!(PlaceNumbers::default().of(at), number);
            }
        }
        assert_eq!(location(u32::MAX), None);
    }

    #[track_caller]
    fn here() -> &'static Location<'static> {
        Location::caller()
    }
}
