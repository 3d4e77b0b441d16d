//! Source locations of calls that begin in another library: messages name the line of the program's call, not one in
//! the library.

use std::cell::Cell;
use std::panic::Location;

thread_local! {
    static CURRENT: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// While this exists, calls of its thread count as made at its location.
#[must_use = "the location counts until this is dropped"]
pub struct At {
    before: Option<&'static Location<'static>>,
}

impl Drop for At {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Lets the calls of this thread count as made at `place`, unless they already count as made elsewhere.
pub fn enter(place: &'static Location<'static>) -> At {
    let before = CURRENT.get();
    CURRENT.set(before.or(Some(place)));
    At { before }
}

/// Returns the location at which calls of this thread count as made, or `place`.
pub fn current(place: &'static Location<'static>) -> &'static Location<'static> {
    CURRENT.get().unwrap_or(place)
}
